#ifndef PARQUET_BLOOM_MODULE_KEYS_H
#define PARQUET_BLOOM_MODULE_KEYS_H

#include <Python.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* A filter of more bytes is not in the caches, and hashes in any order would miss them each time; sorted hashes
 * go through its blocks from the first to the last. */
#define CACHED_BYTES (128 * 1024)

extern const char find_doc[], run_between_doc[], mark_doc[];

PyObject *py_find(PyObject *module, PyObject *args);
PyObject *py_run_between(PyObject *module, PyObject *args);
PyObject *py_mark(PyObject *module, PyObject *args);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
