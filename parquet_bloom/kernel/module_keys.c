/* The door to what is done with many keys: which of them pass which of many filters. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "kernel.h"
#include "module_keys.h"

typedef struct {
    const uint8_t *hashes, *owners, *sorted, *ranks; /* owners, or sorted and ranks, may be NULL */
    size_t count;
} key_set;

typedef struct {
    const uint8_t *bitset;
    size_t num_blocks, start, stop;
} question;

typedef struct {
    uint32_t *owners;
    size_t count, room;
    uint32_t *scratch; /* room for all keys */
    uint64_t *bits;    /* one for each key, all of them clear between questions */
} answers;

static uint32_t load_u32(const uint8_t *numbers, size_t i) {
    uint32_t number;
    memcpy(&number, numbers + 4 * i, sizeof number);
    return number;
}

static int make_room(answers *into, size_t more) {
    if (into->room - into->count < more) {
        size_t room = 2 * into->room > into->count + more ? 2 * into->room : into->count + more;
        uint32_t *owners = realloc(into->owners, room * sizeof *owners);
        if (owners == NULL) {
            return 0;
        }
        into->owners = owners, into->room = room;
    }
    return 1;
}

/* Writes the keys between start and stop that pass, in their order; there is room. */
static size_t find_in_order(const key_set *keys, const question *asked, uint32_t *found) {
    size_t count = find_hashes(asked->bitset, asked->num_blocks, keys->hashes + 8 * asked->start,
                               asked->stop - asked->start, found);
    for (size_t i = 0; i < count; i++) {
        found[i] += (uint32_t)asked->start;
    }
    return count;
}

static size_t find_sorted(const key_set *keys, const question *asked, answers *into, uint32_t *found) {
    size_t count = 0;
    size_t num_passing = find_hashes(asked->bitset, asked->num_blocks, keys->sorted, keys->count, into->scratch);
    for (size_t i = 0; i < num_passing; i++) {
        size_t rank = load_u32(keys->ranks, into->scratch[i]);
        if (rank >= asked->start && rank < asked->stop) {
            into->bits[rank / 64] |= UINT64_C(1) << rank % 64;
        }
    }
    for (size_t w = asked->start / 64; w * 64 < asked->stop; w++) {
        uint64_t bits = into->bits[w];
        into->bits[w] = 0;
        for (size_t rank = 64 * w; bits != 0; rank++, bits >>= 1) {
            if (bits & 1) {
                found[count++] = (uint32_t)rank;
            }
        }
    }
    return count;
}

/* Adds the owners of the keys that pass a filter; false when there is no memory. */
static int answer(const key_set *keys, const question *asked, answers *into, uint32_t *num_found) {
    size_t run = asked->stop - asked->start, count;
    uint32_t *found;
    if (!make_room(into, run)) {
        return 0;
    }
    found = into->owners + into->count;
    if (asked->num_blocks * BLOCK_BYTES > CACHED_BYTES && 2 * run >= keys->count && keys->sorted != NULL) {
        count = find_sorted(keys, asked, into, found);
    } else {
        count = find_in_order(keys, asked, found);
    }
    for (size_t i = 0; i < count && keys->owners != NULL; i++) {
        found[i] = load_u32(keys->owners, found[i]);
    }
    into->count += count;
    *num_found = (uint32_t)count;
    return 1;
}

static int valid_keys(const Py_buffer *hashes, const Py_buffer *owners, const Py_buffer *sorted,
                      const Py_buffer *ranks) {
    Py_ssize_t count = hashes->len / 8;
    if (hashes->len % 8 != 0 || count > UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the hashes of less than 2**32 keys", hashes->len);
    } else if (owners->len != 0 && owners->len != 4 * count) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the owners of %zd keys", owners->len, count);
    } else if (sorted->len != 2 * ranks->len || (sorted->len != 0 && sorted->len != 8 * count)) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the %zd hashes, sorted", sorted->len, count);
    } else {
        return 1;
    }
    return 0;
}

/* Fills in what is asked of each filter; `held` has the buffers that are to be released, as many as it returns. */
static Py_ssize_t read_questions(PyObject *filters, const Py_buffer *runs, Py_ssize_t count, question *asked,
                                 Py_buffer *held) {
    Py_ssize_t num_held = 0, num_filters = PyTuple_Size(filters);
    if (runs->len != 16 * num_filters) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the runs of %zd filters", runs->len, num_filters);
    }
    for (; num_held < num_filters && !PyErr_Occurred(); num_held++) {
        int64_t run[2];
        if (PyObject_GetBuffer(PyTuple_GetItem(filters, num_held), &held[num_held], PyBUF_SIMPLE) < 0) {
            break;
        }
        memcpy(run, (const char *)runs->buf + 16 * num_held, sizeof run);
        asked[num_held].bitset = held[num_held].buf;
        asked[num_held].num_blocks = (size_t)held[num_held].len / BLOCK_BYTES;
        asked[num_held].start = (size_t)run[0], asked[num_held].stop = (size_t)run[1];
        if (held[num_held].len == 0 || held[num_held].len % BLOCK_BYTES != 0 ||
            held[num_held].len / BLOCK_BYTES > INT32_MAX) {
            PyErr_Format(PyExc_ValueError, "a bitset is one or more blocks of 32 bytes, this one has %zd bytes",
                         held[num_held].len);
        } else if (run[0] < 0 || run[0] > run[1] || run[1] > (int64_t)count) {
            PyErr_Format(PyExc_ValueError, "there are %zd keys, and no run from %lld to %lld", count,
                         (long long)run[0], (long long)run[1]);
        }
    }
    return num_held;
}

const char find_doc[] =
    "find(filters, runs, hashes, owners, sorted_hashes, ranks, /)\n--\n\n"
    "Return which keys pass each filter, as (their owners one after the other, how many of each filter), all uint32.\n\n"
    "`filters` is a tuple of bitsets. `runs` has start and stop for each, as int64: of `hashes`, those between are\n"
    "checked. `owners` has the number, as uint32, that stands for each hash; empty, each stands for its own place.\n"
    "`sorted_hashes` has the same hashes in ascending order, and `ranks` their places in `hashes`, as uint32: filters\n"
    "that are larger than caches are checked in this order. Both may be empty. Answers are in the order of `hashes`.";

PyObject *py_find(PyObject *module, PyObject *args) {
    PyObject *filters, *result = NULL;
    Py_buffer runs, hashes, owners, sorted, ranks, *held;
    Py_ssize_t num_filters, num_held = 0;
    question *asked;
    uint32_t *counts;
    answers found = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "O!y*y*y*y*y*:find", &PyTuple_Type, &filters, &runs, &hashes, &owners, &sorted,
                          &ranks)) {
        return NULL;
    }
    num_filters = PyTuple_Size(filters);
    held = PyMem_Calloc((size_t)num_filters + 1, sizeof *held);
    asked = PyMem_Calloc((size_t)num_filters + 1, sizeof *asked);
    counts = PyMem_Calloc((size_t)num_filters + 1, sizeof *counts);
    if (held == NULL || asked == NULL || counts == NULL) {
        PyErr_NoMemory();
    } else if (valid_keys(&hashes, &owners, &sorted, &ranks)) {
        size_t count = (size_t)hashes.len / 8;
        num_held = read_questions(filters, &runs, (Py_ssize_t)count, asked, held);
        if (!PyErr_Occurred()) {
            const key_set keys = {hashes.buf, owners.len ? owners.buf : NULL, sorted.len ? sorted.buf : NULL,
                                  ranks.buf, count};
            int has_memory = 1;
            if (keys.sorted != NULL) {
                found.scratch = malloc(count * sizeof *found.scratch);
                found.bits = calloc(count / 64 + 1, sizeof *found.bits);
                has_memory = found.scratch != NULL && found.bits != NULL;
            }
            Py_BEGIN_ALLOW_THREADS
            for (Py_ssize_t i = 0; i < num_filters && has_memory; i++) {
                has_memory = answer(&keys, &asked[i], &found, &counts[i]);
            }
            Py_END_ALLOW_THREADS
            result = has_memory ? Py_BuildValue("y#y#", found.owners ? (char *)found.owners : "",
                                                (Py_ssize_t)(4 * found.count), (char *)counts, 4 * num_filters)
                                : PyErr_NoMemory();
            free(found.owners);
            free(found.scratch);
            free(found.bits);
        }
    }
    while (num_held > 0) {
        PyBuffer_Release(&held[--num_held]);
    }
    PyMem_Free(held);
    PyMem_Free(asked);
    PyMem_Free(counts);
    PyBuffer_Release(&runs);
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&owners);
    PyBuffer_Release(&sorted);
    PyBuffer_Release(&ranks);
    return result;
}

/* Returns how many of the values come before `key`, or are equal to it if `takes_equal`; more than `count` if an offset
 * leaves the data. */
static size_t num_before(const uint8_t *offsets, size_t offset_width, const Py_buffer *data, size_t count,
                         const Py_buffer *key, int takes_equal) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        uint64_t bounds[2];
        size_t length, shared;
        int order;
        for (size_t i = 0; i < 2; i++) {
            if (offset_width == 4) {
                bounds[i] = load_u32(offsets, middle + i);
            } else {
                memcpy(&bounds[i], offsets + 8 * (middle + i), 8);
            }
        }
        if (bounds[0] > bounds[1] || bounds[1] > (uint64_t)data->len) {
            return count + 1;
        }
        length = (size_t)(bounds[1] - bounds[0]);
        shared = length < (size_t)key->len ? length : (size_t)key->len;
        order = shared == 0 ? 0 : memcmp((const uint8_t *)data->buf + bounds[0], key->buf, shared);
        if (order == 0) {
            order = (length > (size_t)key->len) - (length < (size_t)key->len);
        }
        if (order < 0 || (order == 0 && takes_equal)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const char run_between_doc[] =
    "run_between(offsets, offset_width, data, start, count, low, high, /)\n--\n\n"
    "Return the start and stop of the values that are neither below `low` nor above `high`, as bytes compare.\n\n"
    "The `count` values from index `start` on are given as in `hash_variable`, in ascending order.";

PyObject *py_run_between(PyObject *module, PyObject *args) {
    Py_buffer offsets, data, low, high;
    Py_ssize_t offset_width, start, count;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*ny*nny*y*:run_between", &offsets, &offset_width, &data, &start, &count, &low,
                          &high)) {
        return NULL;
    }
    if ((offset_width != 4 && offset_width != 8) || start < 0 || count < 0 || start > PY_SSIZE_T_MAX - count - 1 ||
        (count > 0 && start + count + 1 > offsets.len / offset_width)) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the offsets, %zd bytes wide, of %zd values from index %zd on",
                     offsets.len, offset_width, count, start);
    } else {
        const uint8_t *first = (const uint8_t *)offsets.buf + start * offset_width;
        size_t from = num_before(first, (size_t)offset_width, &data, (size_t)count, &low, 0);
        size_t to = num_before(first, (size_t)offset_width, &data, (size_t)count, &high, 1);
        if (from > (size_t)count || to > (size_t)count) {
            PyErr_Format(PyExc_ValueError, "the offsets run backwards or leave the %zd bytes of data", data.len);
        } else {
            result = Py_BuildValue("nn", (Py_ssize_t)from, (Py_ssize_t)to);
        }
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&low);
    PyBuffer_Release(&high);
    return result;
}

const char mark_doc[] =
    "mark(flags, indexes, /)\n--\n\n"
    "Set `flags`, a writable buffer, to 1 at each of the `indexes`, which are uint32. Those beyond its end are a\n"
    "ValueError.";

PyObject *py_mark(PyObject *module, PyObject *args) {
    Py_buffer flags, indexes;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "w*y*:mark", &flags, &indexes)) {
        return NULL;
    }
    if (indexes.len % 4 != 0) {
        PyErr_Format(PyExc_ValueError, "indexes are 4 bytes each, %zd bytes is not a multiple of that", indexes.len);
    } else {
        uint32_t most = 0;
        size_t count = (size_t)indexes.len / 4;
        for (size_t i = 0; i < count; i++) {
            uint32_t index = load_u32(indexes.buf, i);
            most = index > most ? index : most;
        }
        if (count > 0 && most >= flags.len) {
            PyErr_Format(PyExc_ValueError, "there are %zd flags, and none with index %u", flags.len, most);
        } else {
            for (size_t i = 0; i < count; i++) {
                ((uint8_t *)flags.buf)[load_u32(indexes.buf, i)] = 1;
            }
            result = Py_NewRef(Py_None);
        }
    }
    PyBuffer_Release(&flags);
    PyBuffer_Release(&indexes);
    return result;
}
