/* Reads many small ranges of one open file: the calls of pread are cheap, a Python call around each is not. */
#define _POSIX_C_SOURCE 200809L

#include <Python.h>

#include <errno.h>

#ifdef _WIN32
#include <windows.h>

#include <io.h>
#else
#include <unistd.h>
#endif

#include "module_reading.h"

#ifdef _WIN32
static Py_ssize_t read_at(int fd, char *out, Py_ssize_t size, int64_t start) {
    const intptr_t file = _get_osfhandle(fd);
    const DWORD wanted = size < 1 << 30 ? (DWORD)size : 1 << 30;
    OVERLAPPED at = {0};
    DWORD got = 0;
    at.Offset = (DWORD)start;
    at.OffsetHigh = (DWORD)(start >> 32);
    if (file == -1) {
        return -1;
    }
    if (!ReadFile((HANDLE)file, out, wanted, &got, &at) && GetLastError() != ERROR_HANDLE_EOF) {
        errno = EIO;
        return -1;
    }
    return (Py_ssize_t)got;
}
#else
static Py_ssize_t read_at(int fd, char *out, Py_ssize_t size, int64_t start) {
    return (Py_ssize_t)pread(fd, out, (size_t)size, (off_t)start);
}
#endif

/* Returns how many bytes were read: fewer than `size` at the end of the file, -1 with errno after an error. */
static Py_ssize_t read_fully(int fd, char *out, Py_ssize_t size, int64_t start) {
    Py_ssize_t done = 0;
    while (done < size) {
        const Py_ssize_t got = read_at(fd, out + done, size - done, start + done);
        if (got <= 0) {
            return got < 0 ? -1 : done;
        }
        done += got;
    }
    return done;
}

static PyObject *read_range(int fd, PyObject *range) {
    Py_ssize_t start, stop, got;
    PyObject *piece;
    if (!PyArg_ParseTuple(range, "nn:read_ranges", &start, &stop)) {
        return NULL;
    }
    if (start < 0 || stop < start) {
        return PyErr_Format(PyExc_ValueError, "%zd to %zd is not a range of a file", start, stop);
    }
    if ((piece = PyBytes_FromStringAndSize(NULL, stop - start)) == NULL) {
        return NULL;
    }
    do {
        Py_BEGIN_ALLOW_THREADS
        got = read_fully(fd, PyBytes_AsString(piece), stop - start, (int64_t)start);
        Py_END_ALLOW_THREADS
    } while (got < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    if (got < 0) {
        Py_DECREF(piece);
        return PyErr_Occurred() ? NULL : PyErr_SetFromErrno(PyExc_OSError);
    }
    if (got < stop - start) {
        PyObject *part = PyBytes_FromStringAndSize(PyBytes_AsString(piece), got);
        Py_DECREF(piece);
        return part;
    }
    return piece;
}

const char read_ranges_doc[] =
    "read_ranges(fd, ranges, /)\n--\n\n"
    "Return the bytes of each (start, stop) of an open file; fewer only where the file ends before. Failures are an\n"
    "OSError.";

PyObject *py_read_ranges(PyObject *module, PyObject *args) {
    int fd;
    PyObject *ranges, *pieces;
    (void)module;
    if (!PyArg_ParseTuple(args, "iO!:read_ranges", &fd, &PyList_Type, &ranges)) {
        return NULL;
    }
    if ((pieces = PyList_New(0)) == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_Size(ranges); i++) {
        PyObject *range = PyList_GetItem(ranges, i);
        PyObject *piece = range != NULL && PyTuple_Check(range) ? read_range(fd, range) : NULL;
        const int failed = piece == NULL || PyList_Append(pieces, piece) < 0;
        Py_XDECREF(piece);
        if (failed) {
            if (!PyErr_Occurred()) {
                PyErr_SetString(PyExc_TypeError, "a range is a tuple");
            }
            Py_DECREF(pieces);
            return NULL;
        }
    }
    return pieces;
}
