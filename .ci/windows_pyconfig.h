/* What Python.h needs to know on 64-bit Windows, so that the kernel can be compiled for it elsewhere. */
#define MS_WINDOWS
#define MS_WIN64
#define NT_THREADS
#define WITH_THREAD 1
#define SIZEOF_VOID_P 8
#define SIZEOF_SIZE_T 8
#define SIZEOF_TIME_T 8
#define SIZEOF_LONG 4
#define SIZEOF_LONG_LONG 8
#define SIZEOF_INT 4
#define SIZEOF_SHORT 2
#define SIZEOF_WCHAR_T 2
#define ALIGNOF_MAX_ALIGN_T 16
#define HAVE_STDDEF_H 1
#define HAVE_STDINT_H 1
#define HAVE_SYS_STAT_H 1
#define HAVE_SYS_TYPES_H 1
#define Py_ENABLE_SHARED 1
#define HAVE_DECLSPEC_DLL 1
#include <basetsd.h>
typedef SSIZE_T Py_ssize_t;
#define HAVE_PY_SSIZE_T 1
#define PY_SSIZE_T_MAX LLONG_MAX
#define HAVE_SSIZE_T 1
