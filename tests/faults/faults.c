/* Makes the Nth call on a watched folder's files fail, come short, or be the last: LD_PRELOAD, armed from Python. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

enum { MOST = 4096, SHORT = -1, KILL = -2, GONE = 1000 };
static char watched[4096];
static char is_watched[MOST];
static long count, victim;
static int fault;
static char last[32];

void faults_arm(const char *folder, long nth, int what) {
    strncpy(watched, folder, sizeof watched - 1);
    memset(is_watched, 0, sizeof is_watched);
    count = 0, victim = nth, fault = what;
}
long faults_count(void) { return count; }
const char *faults_last(void) { return last; }

/* Returns 0 for a call to be made as it is, 1 for one to fail, 2 for one to come short. With GONE, all later ones fail. */
static int struck(const char *name, int can_be_short) {
    if (!watched[0]) return 0;
    long number = __sync_add_and_fetch(&count, 1);
    if (number < victim || victim < 1 || (number > victim && fault != GONE)) return 0;
    if (number == victim) strncpy(last, name, sizeof last - 1);
    if (fault == KILL) _exit(137);
    if (fault == SHORT) return can_be_short ? 2 : 0;
    errno = fault == GONE ? EIO : fault;
    return 1;
}
static int on_path(int folder, const char *path) {
    if (!watched[0] || path == NULL) return 0;
    return path[0] == '/' || folder == AT_FDCWD ? strstr(path, watched) == path : folder >= 0 && folder < MOST && is_watched[folder];
}
static int on_fd(int fd) { return fd >= 0 && fd < MOST && is_watched[fd]; }
static int opened(int fd, int on) {
    if (fd >= 0 && fd < MOST) is_watched[fd] = on;
    return fd;
}

#define REAL(name) static typeof(&name) real; if (!real) real = (typeof(&name))dlsym(RTLD_NEXT, #name)
#define MODE(flags, last_named) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, last_named); mode = va_arg(more, mode_t); va_end(more); }
#define OPEN(name) int name(const char *path, int flags, ...) { REAL(name); MODE(flags, flags) \
    int on = on_path(AT_FDCWD, path); if (on && struck(#name, 0)) return -1; return opened(real(path, flags, mode), on); }
#define OPENAT(name) int name(int at, const char *path, int flags, ...) { REAL(name); MODE(flags, flags) \
    int on = on_path(at, path); if (on && struck(#name, 0)) return -1; return opened(real(at, path, flags, mode), on); }
OPEN(open) OPEN(open64) OPENAT(openat) OPENAT(openat64)
int close(int fd) { REAL(close); opened(fd, 0); return real(fd); }

ssize_t read(int fd, void *to, size_t n) { REAL(read); int s = on_fd(fd) ? struck("read", 1) : 0; return s == 1 ? -1 : real(fd, to, s == 2 ? n / 2 : n); }
ssize_t write(int fd, const void *from, size_t n) { REAL(write); int s = on_fd(fd) ? struck("write", 1) : 0; return s == 1 ? -1 : real(fd, from, s == 2 && n > 1 ? n / 2 : n); }
#define PREAD(name, off) ssize_t name(int fd, void *to, size_t n, off at) { REAL(name); int s = on_fd(fd) ? struck(#name, 1) : 0; return s == 1 ? -1 : real(fd, to, s == 2 ? n / 2 : n, at); }
#define PWRITE(name, off) ssize_t name(int fd, const void *from, size_t n, off at) { REAL(name); int s = on_fd(fd) ? struck(#name, 1) : 0; return s == 1 ? -1 : real(fd, from, s == 2 && n > 1 ? n / 2 : n, at); }
PREAD(pread, off_t) PREAD(pread64, off64_t) PWRITE(pwrite, off_t) PWRITE(pwrite64, off64_t)
ssize_t copy_file_range(int in, off64_t *i, int out, off64_t *o, size_t n, unsigned f) {
    REAL(copy_file_range); int s = on_fd(out) ? struck("copy_file_range", 1) : 0; return s == 1 ? -1 : real(in, i, out, o, s == 2 && n > 1 ? n / 2 : n, f); }

#define ON_FD(name) int name(int fd) { REAL(name); return on_fd(fd) && struck(#name, 0) ? -1 : real(fd); }
ON_FD(fsync) ON_FD(fdatasync)
#define TRUNCATE(name, off) int name(int fd, off to) { REAL(name); return on_fd(fd) && struck(#name, 0) ? -1 : real(fd, to); }
TRUNCATE(ftruncate, off_t) TRUNCATE(ftruncate64, off64_t)
int fstat(int fd, struct stat *to) { REAL(fstat); return on_fd(fd) && struck("fstat", 0) ? -1 : real(fd, to); }
int fstat64(int fd, struct stat64 *to) { REAL(fstat64); return on_fd(fd) && struck("fstat", 0) ? -1 : real(fd, to); }
int fchmod(int fd, mode_t mode) { REAL(fchmod); return on_fd(fd) && struck("fchmod", 0) ? -1 : real(fd, mode); }
int rename(const char *from, const char *to) { REAL(rename); return on_path(AT_FDCWD, to) && struck("rename", 0) ? -1 : real(from, to); }
int renameat(int a, const char *from, int b, const char *to) { REAL(renameat); return on_path(b, to) && struck("renameat", 0) ? -1 : real(a, from, b, to); }
int link(const char *from, const char *to) { REAL(link); return on_path(AT_FDCWD, to) && struck("link", 0) ? -1 : real(from, to); }
int linkat(int a, const char *from, int b, const char *to, int f) { REAL(linkat); return on_path(b, to) && struck("linkat", 0) ? -1 : real(a, from, b, to, f); }
int unlink(const char *path) { REAL(unlink); return on_path(AT_FDCWD, path) && struck("unlink", 0) ? -1 : real(path); }
int unlinkat(int at, const char *path, int f) { REAL(unlinkat); return on_path(at, path) && struck("unlinkat", 0) ? -1 : real(at, path, f); }
int mkdir(const char *path, mode_t mode) { REAL(mkdir); return on_path(AT_FDCWD, path) && struck("mkdir", 0) ? -1 : real(path, mode); }
int rmdir(const char *path) { REAL(rmdir); return on_path(AT_FDCWD, path) && struck("rmdir", 0) ? -1 : real(path); }
#define STAT(name) int name(const char *path, struct stat64 *to) { REAL(name); return on_path(AT_FDCWD, path) && struck(#name, 0) ? -1 : real(path, to); }
STAT(stat64) STAT(lstat64)
int fstatat64(int at, const char *path, struct stat64 *to, int f) { REAL(fstatat64); return on_path(at, path) && struck("fstatat", 0) ? -1 : real(at, path, to, f); }
int statx(int at, const char *path, int f, unsigned mask, struct statx *to) {
    REAL(statx); return (path && path[0] ? on_path(at, path) : on_fd(at)) && struck("statx", 0) ? -1 : real(at, path, f, mask, to); }
DIR *opendir(const char *path) { REAL(opendir); return on_path(AT_FDCWD, path) && struck("opendir", 0) ? NULL : real(path); }
int flock(int fd, int how) { REAL(flock); return on_fd(fd) && struck("flock", 0) ? -1 : real(fd, how); }
int futimens(int fd, const struct timespec to[2]) { REAL(futimens); return on_fd(fd) && struck("futimens", 0) ? -1 : real(fd, to); }
