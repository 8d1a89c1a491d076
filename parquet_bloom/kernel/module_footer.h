#ifndef PARQUET_BLOOM_MODULE_FOOTER_H
#define PARQUET_BLOOM_MODULE_FOOTER_H

#include <Python.h>

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

extern const char struct_fields_doc[], list_structs_doc[], walk_footer_doc[], read_chunks_doc[],
    place_in_chunks_doc[];

PyObject *py_struct_fields(PyObject *module, PyObject *args);
PyObject *py_list_structs(PyObject *module, PyObject *args);
PyObject *py_walk_footer(PyObject *module, PyObject *args);
PyObject *py_read_chunks(PyObject *module, PyObject *args);
PyObject *py_place_in_chunks(PyObject *module, PyObject *args);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
