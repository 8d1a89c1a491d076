#ifndef PARQUET_BLOOM_MODULE_MATCHING_H
#define PARQUET_BLOOM_MODULE_MATCHING_H

#include <Python.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern const char order_doc[], prefixes_doc[], meet_doc[];

PyObject *py_order(PyObject *module, PyObject *args);
PyObject *py_prefixes(PyObject *module, PyObject *args);
PyObject *py_meet(PyObject *module, PyObject *args);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
