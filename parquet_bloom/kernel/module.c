/*
 * parquet_bloom._kernel: the door from Python. Everything a caller could get wrong is refused here, before any
 * loop runs, and the interpreter lock is released around the loops.
 */
#include <Python.h>

#include "kernel.h"
#include "module_footer.h"
#include "module_keys.h"
#include "module_matching.h"
#include "module_reading.h"

/* z is less than 2^31 by the specification, which also keeps (hash >> 32) * z within 64 bits. */
#define MAX_BLOCKS INT32_MAX

static int valid_bitset(const Py_buffer *bitset) {
    if (bitset->len > 0 && bitset->len % BLOCK_BYTES == 0 && bitset->len / BLOCK_BYTES <= MAX_BLOCKS) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "a bitset is one or more blocks of 32 bytes, this one has %zd bytes",
                 bitset->len);
    return 0;
}

static int valid_hashes(const Py_buffer *hashes) {
    if (hashes->len % 8 == 0) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "hashes are 8 bytes each, %zd bytes is not a multiple of that", hashes->len);
    return 0;
}

static int valid_slice(Py_ssize_t start, Py_ssize_t count, Py_ssize_t available) {
    if (start >= 0 && count >= 0 && start <= available && count <= available - start) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "%zd values from index %zd on are more than the %zd that the buffer holds",
                 count, start, available);
    return 0;
}

static int valid_offsets(const Py_buffer *offsets, Py_ssize_t offset_width, Py_ssize_t start, Py_ssize_t count) {
    Py_ssize_t available;
    if (offset_width != 4 && offset_width != 8) {
        PyErr_Format(PyExc_ValueError, "offsets are 4 or 8 bytes wide, not %zd", offset_width);
        return 0;
    }
    available = offsets->len / offset_width; /* n values have n + 1 offsets; no values may have none at all */
    return valid_slice(start, count, available - (available > 0));
}

static int all_sound(size_t done, Py_ssize_t start, Py_ssize_t count, const Py_buffer *data) {
    if (done == (size_t)count) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "the offsets of value %zd run backwards or leave the %zd bytes of data",
                 start + (Py_ssize_t)done, data->len);
    return 0;
}

/* A new bytes object for the hashes of `count` values; its content is still to be written. */
static PyObject *new_hashes(Py_ssize_t count) {
    return count > PY_SSIZE_T_MAX / 8 ? PyErr_NoMemory() : PyBytes_FromStringAndSize(NULL, count * 8);
}

static uint8_t *bytes_of(PyObject *bytes) { return (uint8_t *)PyBytes_AsString(bytes); }

PyDoc_STRVAR(hash_fixed_doc,
             "hash_fixed(data, width, start, count, /)\n--\n\n"
             "Return the XXH64 hashes of `count` values of `width` bytes each, from value index `start` on.\n\n"
             "The hashes are native-endian uint64, 8 bytes each. Values beyond the end of `data` are a\n"
             "ValueError.");

static PyObject *py_hash_fixed(PyObject *module, PyObject *args) {
    Py_buffer data;
    Py_ssize_t width, start, count;
    PyObject *hashes = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*nnn:hash_fixed", &data, &width, &start, &count)) {
        return NULL;
    }
    if (width < 1) {
        PyErr_Format(PyExc_ValueError, "values of %zd bytes cannot be hashed, the width is at least 1", width);
    } else if (valid_slice(start, count, data.len / width) && (hashes = new_hashes(count)) != NULL &&
               count > 0) {
        uint8_t *out = bytes_of(hashes);
        Py_BEGIN_ALLOW_THREADS
        hash_fixed((const uint8_t *)data.buf + start * width, (size_t)width, (size_t)count, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return hashes;
}

PyDoc_STRVAR(hash_variable_doc,
             "hash_variable(offsets, offset_width, data, start, count, /)\n--\n\n"
             "Return the XXH64 hashes of `count` values of any length, from value index `start` on.\n\n"
             "As in an Arrow array, value i is data[offsets[i]:offsets[i + 1]]; offsets are int32\n"
             "(`offset_width` 4) or int64 (8) in native byte order. The hashes are native-endian uint64,\n"
             "8 bytes each. Offsets that are missing, run backwards or leave `data` are a ValueError.");

static PyObject *py_hash_variable(PyObject *module, PyObject *args) {
    Py_buffer offsets, data;
    Py_ssize_t offset_width, start, count;
    PyObject *hashes = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*ny*nn:hash_variable", &offsets, &offset_width, &data, &start, &count)) {
        return NULL;
    }
    if (valid_offsets(&offsets, offset_width, start, count) && (hashes = new_hashes(count)) != NULL && count > 0) {
        const uint8_t *first = (const uint8_t *)offsets.buf + start * offset_width;
        uint8_t *out = bytes_of(hashes);
        size_t hashed;
        Py_BEGIN_ALLOW_THREADS
        hashed = hash_variable(first, (size_t)offset_width, data.buf, (size_t)data.len, (size_t)count, out);
        Py_END_ALLOW_THREADS
        if (!all_sound(hashed, start, count, &data)) {
            Py_CLEAR(hashes);
        }
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return hashes;
}

PyDoc_STRVAR(insert_doc,
             "insert(bitset, hashes, /)\n--\n\n"
             "Set the eight bits of every hash in `bitset`, a writable buffer of any number of 32-byte blocks.\n\n"
             "The interpreter lock is released meanwhile: two threads that insert into the same bitset at a\n"
             "time can lose bits, so keep to one.");

static PyObject *py_insert(PyObject *module, PyObject *args) {
    Py_buffer bitset, hashes;
    int valid;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*y*:insert", &bitset, &hashes)) {
        return NULL;
    }
    valid = valid_bitset(&bitset) && valid_hashes(&hashes);
    if (valid) {
        Py_BEGIN_ALLOW_THREADS
        insert_hashes(bitset.buf, (size_t)bitset.len / BLOCK_BYTES, hashes.buf, (size_t)hashes.len / 8);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bitset);
    PyBuffer_Release(&hashes);
    return valid ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(check_doc,
             "check(bitset, hashes, /)\n--\n\n"
             "Return one byte for each hash: 1 when all of its eight bits are set (it may have been inserted),\n"
             "else 0 (it was not).");

static PyObject *py_check(PyObject *module, PyObject *args) {
    Py_buffer bitset, hashes;
    PyObject *found = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:check", &bitset, &hashes)) {
        return NULL;
    }
    if (valid_bitset(&bitset) && valid_hashes(&hashes) &&
        (found = PyBytes_FromStringAndSize(NULL, hashes.len / 8)) != NULL) {
        uint8_t *out = bytes_of(found);
        Py_BEGIN_ALLOW_THREADS
        check_hashes(bitset.buf, (size_t)bitset.len / BLOCK_BYTES, hashes.buf, (size_t)hashes.len / 8, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bitset);
    PyBuffer_Release(&hashes);
    return found;
}

PyDoc_STRVAR(fold_doc,
             "fold(bitset, /)\n--\n\n"
             "Return the bitset of half the size that holds the same hashes: block i is block 2i OR block\n"
             "2i + 1.\n\n"
             "An odd number of blocks is a ValueError.");

static PyObject *py_fold(PyObject *module, PyObject *args) {
    Py_buffer bitset;
    PyObject *folded = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*:fold", &bitset)) {
        return NULL;
    }
    if (bitset.len % (2 * BLOCK_BYTES) != 0) {
        PyErr_Format(PyExc_ValueError,
                     "only an even number of 32-byte blocks can be folded, this bitset has %zd bytes", bitset.len);
    } else if (valid_bitset(&bitset) && (folded = PyBytes_FromStringAndSize(NULL, bitset.len / 2)) != NULL) {
        uint8_t *out = bytes_of(folded);
        Py_BEGIN_ALLOW_THREADS
        fold_bitset(bitset.buf, (size_t)bitset.len / BLOCK_BYTES, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bitset);
    return folded;
}

PyDoc_STRVAR(merge_doc,
             "merge(bitset, other, /)\n--\n\n"
             "Return the bitset of the same size that holds the hashes of both: their bitwise OR.\n\n"
             "Bitsets of different sizes are a ValueError.");

static PyObject *py_merge(PyObject *module, PyObject *args) {
    Py_buffer one, other;
    PyObject *both = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*:merge", &one, &other)) {
        return NULL;
    }
    if (one.len != other.len) {
        PyErr_Format(PyExc_ValueError, "bitsets of %zd and %zd bytes cannot be merged", one.len, other.len);
    } else if (valid_bitset(&one) && (both = PyBytes_FromStringAndSize(NULL, one.len)) != NULL) {
        uint8_t *out = bytes_of(both);
        Py_BEGIN_ALLOW_THREADS
        merge_bitsets(one.buf, other.buf, (size_t)one.len / BLOCK_BYTES, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&one);
    PyBuffer_Release(&other);
    return both;
}

PyDoc_STRVAR(census_doc,
             "census(bitset, /)\n--\n\n"
             "Return (bits set, false-positive rate, false-positive rate of the worst block).\n\n"
             "A block's rate is the product over its eight words of popcount / 32, exactly the share of absent\n"
             "hashes that it takes for present; the bitset's rate is the mean over its blocks.");

static PyObject *py_census(PyObject *module, PyObject *args) {
    Py_buffer bitset;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*:census", &bitset)) {
        return NULL;
    }
    if (valid_bitset(&bitset)) {
        bitset_census census;
        Py_BEGIN_ALLOW_THREADS
        census = take_census(bitset.buf, (size_t)bitset.len / BLOCK_BYTES);
        Py_END_ALLOW_THREADS
        result = Py_BuildValue("Kdd", (unsigned long long)census.bits_set, census.rate, census.worst_rate);
    }
    PyBuffer_Release(&bitset);
    return result;
}

static int valid_hadoop(const Py_buffer *bits, Py_ssize_t num_bits, Py_ssize_t num_hashes) {
    if (num_bits > 0 && num_bits <= INT32_MAX && num_hashes > 0 && num_hashes <= INT32_MAX &&
        bits->len == num_bits / 8 + (num_bits % 8 > 0)) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "%zd bytes are not a filter of %zd bits and %zd hashes", bits->len, num_bits,
                 num_hashes);
    return 0;
}

PyDoc_STRVAR(hadoop_insert_doc,
             "hadoop_insert(bits, num_bits, num_hashes, offsets, offset_width, data, start, count, /)\n--\n\n"
             "Set the bits of `count` keys, from index `start` on, in a filter of Hadoop's with its Murmur hash.\n\n"
             "`bits` is a writable buffer of ceil(num_bits / 8) bytes; keys are given as in `hash_variable`. When\n"
             "offsets are a ValueError, the keys before them have been inserted.");

static PyObject *py_hadoop_insert(PyObject *module, PyObject *args) {
    Py_buffer bits, offsets, data;
    Py_ssize_t num_bits, num_hashes, offset_width, start, count;
    int valid;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*nny*ny*nn:hadoop_insert", &bits, &num_bits, &num_hashes, &offsets, &offset_width,
                          &data, &start, &count)) {
        return NULL;
    }
    valid = valid_hadoop(&bits, num_bits, num_hashes) && valid_offsets(&offsets, offset_width, start, count);
    if (valid && count > 0) {
        const uint8_t *first = (const uint8_t *)offsets.buf + start * offset_width;
        size_t done;
        Py_BEGIN_ALLOW_THREADS
        done = hadoop_insert(bits.buf, (uint32_t)num_bits, (uint32_t)num_hashes, first, (size_t)offset_width,
                             data.buf, (size_t)data.len, (size_t)count);
        Py_END_ALLOW_THREADS
        valid = all_sound(done, start, count, &data);
    }
    PyBuffer_Release(&bits);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return valid ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(hadoop_check_doc,
             "hadoop_check(bits, num_bits, num_hashes, offsets, offset_width, data, start, count, /)\n--\n\n"
             "Return one byte for each key: 1 when all of its bits are set, else 0. Arguments as in `hadoop_insert`.");

static PyObject *py_hadoop_check(PyObject *module, PyObject *args) {
    Py_buffer bits, offsets, data;
    Py_ssize_t num_bits, num_hashes, offset_width, start, count;
    PyObject *found = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*nny*ny*nn:hadoop_check", &bits, &num_bits, &num_hashes, &offsets, &offset_width,
                          &data, &start, &count)) {
        return NULL;
    }
    if (valid_hadoop(&bits, num_bits, num_hashes) && valid_offsets(&offsets, offset_width, start, count) &&
        (found = PyBytes_FromStringAndSize(NULL, count)) != NULL && count > 0) {
        const uint8_t *first = (const uint8_t *)offsets.buf + start * offset_width;
        uint8_t *out = bytes_of(found);
        size_t done;
        Py_BEGIN_ALLOW_THREADS
        done = hadoop_check(bits.buf, (uint32_t)num_bits, (uint32_t)num_hashes, first, (size_t)offset_width,
                            data.buf, (size_t)data.len, (size_t)count, out);
        Py_END_ALLOW_THREADS
        if (!all_sound(done, start, count, &data)) {
            Py_CLEAR(found);
        }
    }
    PyBuffer_Release(&bits);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return found;
}

PyDoc_STRVAR(hash_wang64_doc,
             "hash_wang64(values, /)\n--\n\n"
             "Return Thomas Wang's hashes of native-endian int64 values, with shifts to the right that keep the sign.\n\n"
             "The hashes are native-endian uint64, 8 bytes each.");

static PyObject *py_hash_wang64(PyObject *module, PyObject *args) {
    Py_buffer values;
    PyObject *hashes = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*:hash_wang64", &values)) {
        return NULL;
    }
    if (values.len % 8 != 0) {
        PyErr_Format(PyExc_ValueError, "values are 8 bytes each, %zd bytes is not a multiple of that", values.len);
    } else if ((hashes = new_hashes(values.len / 8)) != NULL) {
        uint8_t *out = bytes_of(hashes);
        Py_BEGIN_ALLOW_THREADS
        hash_wang64(values.buf, (size_t)values.len / 8, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&values);
    return hashes;
}

static int valid_paimon(const Py_buffer *bits, Py_ssize_t num_hashes) {
    if (bits->len > 0 && bits->len <= INT32_MAX / 8 && num_hashes > 0 && num_hashes <= INT32_MAX) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "%zd bytes are not a filter of %zd hashes", bits->len, num_hashes);
    return 0;
}

PyDoc_STRVAR(paimon_insert_doc,
             "paimon_insert(bits, num_hashes, hashes, /)\n--\n\n"
             "Set the bits of every hash in a filter of Paimon's; `bits` is a writable buffer of less than 256 MiB.");

static PyObject *py_paimon_insert(PyObject *module, PyObject *args) {
    Py_buffer bits, hashes;
    Py_ssize_t num_hashes;
    int valid;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*ny*:paimon_insert", &bits, &num_hashes, &hashes)) {
        return NULL;
    }
    valid = valid_paimon(&bits, num_hashes) && valid_hashes(&hashes);
    if (valid) {
        Py_BEGIN_ALLOW_THREADS
        paimon_insert(bits.buf, 8 * (uint32_t)bits.len, (uint32_t)num_hashes, hashes.buf, (size_t)hashes.len / 8);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bits);
    PyBuffer_Release(&hashes);
    return valid ? Py_NewRef(Py_None) : NULL;
}

PyDoc_STRVAR(paimon_check_doc,
             "paimon_check(bits, num_hashes, hashes, /)\n--\n\n"
             "Return one byte for each hash: 1 when all of its bits are set, else 0. Arguments as in `paimon_insert`.");

static PyObject *py_paimon_check(PyObject *module, PyObject *args) {
    Py_buffer bits, hashes;
    Py_ssize_t num_hashes;
    PyObject *found = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*ny*:paimon_check", &bits, &num_hashes, &hashes)) {
        return NULL;
    }
    if (valid_paimon(&bits, num_hashes) && valid_hashes(&hashes) &&
        (found = PyBytes_FromStringAndSize(NULL, hashes.len / 8)) != NULL) {
        uint8_t *out = bytes_of(found);
        Py_BEGIN_ALLOW_THREADS
        paimon_check(bits.buf, 8 * (uint32_t)bits.len, (uint32_t)num_hashes, hashes.buf, (size_t)hashes.len / 8, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&bits);
    PyBuffer_Release(&hashes);
    return found;
}

static PyMethodDef methods[] = {
    {"hash_fixed", py_hash_fixed, METH_VARARGS, hash_fixed_doc},
    {"hash_variable", py_hash_variable, METH_VARARGS, hash_variable_doc},
    {"insert", py_insert, METH_VARARGS, insert_doc},
    {"check", py_check, METH_VARARGS, check_doc},
    {"fold", py_fold, METH_VARARGS, fold_doc},
    {"merge", py_merge, METH_VARARGS, merge_doc},
    {"census", py_census, METH_VARARGS, census_doc},
    {"hadoop_insert", py_hadoop_insert, METH_VARARGS, hadoop_insert_doc},
    {"hadoop_check", py_hadoop_check, METH_VARARGS, hadoop_check_doc},
    {"hash_wang64", py_hash_wang64, METH_VARARGS, hash_wang64_doc},
    {"paimon_insert", py_paimon_insert, METH_VARARGS, paimon_insert_doc},
    {"paimon_check", py_paimon_check, METH_VARARGS, paimon_check_doc},
    {"find", py_find, METH_VARARGS, find_doc},
    {"run_between", py_run_between, METH_VARARGS, run_between_doc},
    {"mark", py_mark, METH_VARARGS, mark_doc},
    {"order", py_order, METH_VARARGS, order_doc},
    {"prefixes", py_prefixes, METH_VARARGS, prefixes_doc},
    {"meet", py_meet, METH_VARARGS, meet_doc},
    {"struct_fields", py_struct_fields, METH_VARARGS, struct_fields_doc},
    {"list_structs", py_list_structs, METH_VARARGS, list_structs_doc},
    {"walk_footer", py_walk_footer, METH_VARARGS, walk_footer_doc},
    {"read_chunks", py_read_chunks, METH_VARARGS, read_chunks_doc},
    {"place_in_chunks", py_place_in_chunks, METH_VARARGS, place_in_chunks_doc},
    {"read_ranges", py_read_ranges, METH_VARARGS, read_ranges_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(module_doc,
             "The loops over values and bitsets, in C.\n\n"
             "Arguments are any contiguous buffers (bytes, bytearray, memoryview, pyarrow.Buffer), results are\n"
             "fresh bytes. The specification in plain Python, which these functions are tested against, is\n"
             "tests/support/reference.py.");

static int fill_module(PyObject *module) { return PyModule_AddIntConstant(module, "CACHED_BYTES", CACHED_BYTES); }

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, fill_module},
#ifdef Py_GIL_DISABLED /* nothing here is shared between calls */
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "parquet_bloom._kernel", module_doc, 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void) { return PyModuleDef_Init(&definition); }
