/* Which of many keys are among the values of a column: by their hashes, which the caller confirms by the values.
 *
 * The keys' hashes are sorted. A hash is found by its first bits: `prefixes` has, for each value of these bits, where
 * the hashes that begin with it start. There are about as many prefixes as hashes, so one or two are looked at.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "kernel.h"
#include "module_matching.h"

#define BATCH 64 /* so many hashes wait for memory together */
#define MOST_BITS 26

typedef struct {
    const uint8_t *sorted, *prefixes, *flags;
    size_t count;
    int bits;
} hash_table;

typedef struct {
    uint32_t *places, *ranks;
    size_t count, room;
} meetings;

static uint32_t load_u32(const uint8_t *numbers, size_t i) {
    uint32_t number;
    memcpy(&number, numbers + 4 * i, sizeof number);
    return number;
}

static int bits_for(size_t count) {
    int bits = 1;
    while (bits < MOST_BITS && ((size_t)1 << bits) < count) {
        bits++;
    }
    return bits;
}

const char prefixes_doc[] =
    "prefixes(sorted_hashes, /)\n--\n\n"
    "Return where the hashes with each value of their first bits start, and where the last ones end, as uint32.";

PyObject *py_prefixes(PyObject *module, PyObject *args) {
    Py_buffer sorted;
    PyObject *result = NULL;
    size_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*:prefixes", &sorted)) {
        return NULL;
    }
    count = (size_t)sorted.len / 8;
    if (sorted.len % 8 != 0 || count >= UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the hashes of less than 2**32 keys", sorted.len);
    } else {
        int bits = bits_for(count);
        size_t num_prefixes = (size_t)1 << bits;
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * (num_prefixes + 1)));
        if (result != NULL) {
            uint8_t *starts = (uint8_t *)PyBytes_AsString(result);
            size_t next = 0;
            for (size_t rank = 0; rank <= count; rank++) {
                uint32_t start = (uint32_t)rank;
                size_t prefix = rank < count ? (size_t)(load_hash(sorted.buf, rank) >> (64 - bits)) : num_prefixes;
                for (; next <= prefix; next++) {
                    memcpy(starts + 4 * next, &start, sizeof start);
                }
            }
        }
    }
    PyBuffer_Release(&sorted);
    return result;
}

static int add(meetings *into, uint32_t place, uint32_t rank) {
    if (into->count == into->room) {
        size_t room = into->room ? 2 * into->room : 1024;
        uint32_t *places = realloc(into->places, room * sizeof *places), *ranks;
        if (places == NULL) {
            return 0;
        }
        into->places = places;
        ranks = realloc(into->ranks, room * sizeof *ranks);
        if (ranks == NULL) {
            return 0;
        }
        into->ranks = ranks, into->room = room;
    }
    into->places[into->count] = place, into->ranks[into->count++] = rank;
    return 1;
}

/* Adds the hashes that are keys', each key once; `told` has a bit for each key. */
static int meet(const hash_table *keys, const uint8_t *hashes, size_t count, uint64_t *told, meetings *into) {
    size_t starts[BATCH], stops[BATCH];
    for (size_t first = 0; first < count; first += BATCH) {
        size_t num = count - first < BATCH ? count - first : BATCH;
        for (size_t i = 0; i < num; i++) {
            PREFETCH(keys->prefixes + 4 * (load_hash(hashes, first + i) >> (64 - keys->bits)));
        }
        for (size_t i = 0; i < num; i++) {
            size_t prefix = (size_t)(load_hash(hashes, first + i) >> (64 - keys->bits));
            size_t stop = load_u32(keys->prefixes, prefix + 1);
            starts[i] = load_u32(keys->prefixes, prefix);
            stops[i] = stop < keys->count ? stop : keys->count;
            PREFETCH(keys->sorted + 8 * (starts[i] < keys->count ? starts[i] : 0));
        }
        for (size_t i = 0; i < num; i++) {
            uint64_t hash = load_hash(hashes, first + i);
            for (size_t rank = starts[i]; rank < stops[i]; rank++) {
                uint64_t bit = UINT64_C(1) << rank % 64;
                if (load_hash(keys->sorted, rank) != hash || keys->flags[rank] || (told[rank / 64] & bit)) {
                    continue;
                }
                told[rank / 64] |= bit;
                if (!add(into, (uint32_t)(first + i), (uint32_t)rank)) {
                    return 0;
                }
            }
        }
    }
    return 1;
}

const char meet_doc[] =
    "meet(hashes, sorted_hashes, prefixes, flags, /)\n--\n\n"
    "Return the places of hashes that are among the keys', and the ranks of these keys: two arrays of uint32.\n\n"
    "A key's rank is its place in `sorted_hashes`, of which `prefixes` is `prefixes(sorted_hashes)`. Each key comes\n"
    "once at most, with the first such hash, and not at all if it has a flag, a byte that is not 0.";

PyObject *py_meet(PyObject *module, PyObject *args) {
    Py_buffer hashes, sorted, prefixes, flags;
    PyObject *result = NULL;
    size_t count;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*y*:meet", &hashes, &sorted, &prefixes, &flags)) {
        return NULL;
    }
    count = (size_t)sorted.len / 8;
    if (hashes.len % 8 != 0 || hashes.len / 8 > UINT32_MAX || sorted.len % 8 != 0 || count >= UINT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%zd and %zd bytes are not the hashes of less than 2**32 values", hashes.len,
                     sorted.len);
    } else if (flags.len != (Py_ssize_t)count ||
               prefixes.len != (Py_ssize_t)(4 * (((size_t)1 << bits_for(count)) + 1))) {
        PyErr_Format(PyExc_ValueError, "%zd flags and %zd bytes of prefixes are not those of %zd keys", flags.len,
                     prefixes.len, (Py_ssize_t)count);
    } else {
        const hash_table keys = {sorted.buf, prefixes.buf, flags.buf, count, bits_for(count)};
        meetings found = {0};
        uint64_t *told = calloc(count / 64 + 1, sizeof *told);
        int has_memory = told != NULL;
        Py_BEGIN_ALLOW_THREADS
        has_memory = has_memory && meet(&keys, hashes.buf, (size_t)hashes.len / 8, told, &found);
        Py_END_ALLOW_THREADS
        result = has_memory ? Py_BuildValue("y#y#", found.count ? (char *)found.places : "",
                                            (Py_ssize_t)(4 * found.count), found.count ? (char *)found.ranks : "",
                                            (Py_ssize_t)(4 * found.count))
                            : PyErr_NoMemory();
        free(told);
        free(found.places);
        free(found.ranks);
    }
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&sorted);
    PyBuffer_Release(&prefixes);
    PyBuffer_Release(&flags);
    return result;
}
