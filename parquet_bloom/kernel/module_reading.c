/* Reads many small ranges of one open file: the calls of pread are cheap, a Python call around each is not. */
#define _POSIX_C_SOURCE 200809L

#include <Python.h>

#include <errno.h>
#include <unistd.h>

#include "module_reading.h"

/* Returns how many bytes were read: fewer than `size` at the end of the file, -1 with errno after an error. */
static Py_ssize_t read_fully(int fd, char *out, Py_ssize_t size, off_t start) {
    Py_ssize_t done = 0;
    while (done < size) {
        const ssize_t got = pread(fd, out + done, (size_t)(size - done), start + done);
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
        got = read_fully(fd, PyBytes_AsString(piece), stop - start, (off_t)start);
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
