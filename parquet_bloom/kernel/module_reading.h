#ifndef PARQUET_BLOOM_MODULE_READING_H
#define PARQUET_BLOOM_MODULE_READING_H

#include <Python.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern const char read_ranges_doc[];

PyObject *py_read_ranges(PyObject *module, PyObject *args);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
