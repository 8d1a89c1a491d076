/* Many keys: sorted, and which of them are among the values of a column: by their hashes, which the caller confirms.
 *
 * The keys' hashes are sorted. A hash is found by its first bits: `prefixes` has, for each value of these bits, where
 * the hashes that begin with it start. There are about as many prefixes as hashes, so one or two are looked at. Behind
 * them it has a bit for each value of three bits more, whether a hash begins with it: these fit into caches.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>

#include "kernel.h"
#include "module_matching.h"

#define BATCH 64 /* so many hashes wait for memory together */
#define MOST_BITS 26

typedef struct {
    uint64_t head; /* its first bytes behind those that all values begin with, zeros behind its end */
    uint32_t index;
} item;

typedef struct {
    const uint8_t *offsets, *data;
    size_t offset_width, shared;
} values;

typedef struct {
    const uint8_t *sorted, *prefixes, *begun, *flags;
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

static uint64_t load_offset(const values *all, size_t i) {
    uint64_t offset;
    if (all->offset_width == 4) {
        return load_u32(all->offsets, i);
    }
    memcpy(&offset, all->offsets + 8 * i, sizeof offset);
    return offset;
}

static int comes_before(const values *all, const item *one, const item *other) {
    uint64_t start, other_start;
    size_t length, other_length, common;
    int order;
    if (one->head != other->head) {
        return one->head < other->head;
    }
    start = load_offset(all, one->index), other_start = load_offset(all, other->index);
    length = (size_t)(load_offset(all, (size_t)one->index + 1) - start);
    other_length = (size_t)(load_offset(all, (size_t)other->index + 1) - other_start);
    common = length < other_length ? length : other_length;
    order = memcmp(all->data + start, all->data + other_start, common);
    return order != 0 ? order < 0 : length < other_length;
}

/* Sorts stably, from the one buffer to the other and back; returns the one that has the sorted items. */
static item *merge_sort(const values *all, item *from, item *to, size_t count) {
    for (size_t width = 1; width < count; width *= 2) {
        item *swapped = from;
        for (size_t start = 0; start < count; start += 2 * width) {
            size_t middle = count - start > width ? start + width : count;
            size_t stop = count - start > 2 * width ? start + 2 * width : count;
            size_t left = start, right = middle;
            for (size_t at = start; at < stop; at++) {
                int takes_right =
                    left == middle || (right < stop && comes_before(all, &from[right], &from[left]));
                to[at] = takes_right ? from[right++] : from[left++];
            }
        }
        from = to, to = swapped;
    }
    return from;
}

static size_t shared_bytes(const values *all, size_t count) {
    uint64_t first = load_offset(all, 0);
    size_t shared = (size_t)(load_offset(all, 1) - first);
    for (size_t i = 1; i < count && shared > 0; i++) {
        uint64_t start = load_offset(all, i);
        size_t length = (size_t)(load_offset(all, i + 1) - start);
        shared = length < shared ? length : shared;
        while (shared > 0 && memcmp(all->data + first, all->data + start, shared) != 0) {
            shared--;
        }
    }
    return shared;
}

static uint64_t head_of(const values *all, size_t i) {
    uint64_t start = load_offset(all, i) + all->shared, stop = load_offset(all, i + 1), head = 0;
    for (size_t byte = 0; byte < 8; byte++) {
        head = head << 8 | (start + byte < stop ? all->data[start + byte] : 0);
    }
    return head;
}

const char order_doc[] =
    "order(offsets, offset_width, data, start, count, /)\n--\n\n"
    "Return the indexes, from 0, of the `count` values from index `start` on in ascending order, as uint32.\n\n"
    "The values are given as in `hash_variable`, and compared byte by byte. Equal ones keep their order.";

PyObject *py_order(PyObject *module, PyObject *args) {
    Py_buffer offsets, data;
    Py_ssize_t offset_width, start, count;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*ny*nn:order", &offsets, &offset_width, &data, &start, &count)) {
        return NULL;
    }
    if ((offset_width != 4 && offset_width != 8) || start < 0 || count < 0 || count > (Py_ssize_t)UINT32_MAX ||
        start > PY_SSIZE_T_MAX - count - 1 || (count > 0 && start + count + 1 > offsets.len / offset_width)) {
        PyErr_Format(PyExc_ValueError, "%zd bytes are not the offsets, %zd bytes wide, of %zd values from index %zd on",
                     offsets.len, offset_width, count, start);
    } else {
        values all = {(const uint8_t *)offsets.buf + start * offset_width, data.buf, (size_t)offset_width, 0};
        size_t num = (size_t)count;
        int is_sound = 1;
        for (size_t i = 0; i < num && is_sound; i++) {
            is_sound = load_offset(&all, i) <= load_offset(&all, i + 1);
        }
        if (!is_sound || (num > 0 && load_offset(&all, num) > (uint64_t)data.len)) {
            PyErr_Format(PyExc_ValueError, "the offsets run backwards or leave the %zd bytes of data", data.len);
        } else {
            item *items = malloc((2 * num + 1) * sizeof *items);
            result = items == NULL ? PyErr_NoMemory() : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * num));
            if (result != NULL && num > 0) {
                uint8_t *out = (uint8_t *)PyBytes_AsString(result);
                Py_BEGIN_ALLOW_THREADS
                all.shared = shared_bytes(&all, num);
                for (size_t i = 0; i < num; i++) {
                    items[i].head = head_of(&all, i), items[i].index = (uint32_t)i;
                }
                item *sorted = merge_sort(&all, items, items + num, num);
                for (size_t i = 0; i < num; i++) {
                    memcpy(out + 4 * i, &sorted[i].index, 4);
                }
                Py_END_ALLOW_THREADS
            }
            free(items);
        }
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return result;
}

static int bits_for(size_t count) {
    int bits = 1;
    while (bits < MOST_BITS && ((size_t)1 << bits) < count) {
        bits++;
    }
    return bits;
}

static size_t size_of_prefixes(int bits) { return 4 * (((size_t)1 << bits) + 1) + ((size_t)1 << bits); }

static int is_begun(const hash_table *keys, uint64_t hash) {
    uint64_t begin = hash >> (64 - keys->bits - 3);
    return keys->begun[begin / 8] >> (begin % 8) & 1;
}

const char prefixes_doc[] =
    "prefixes(sorted_hashes, /)\n--\n\n"
    "Return where the hashes with each value of their first bits start, and where the last ones end, as uint32; and a\n"
    "bit for each value of three bits more, whether there are such hashes.";

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
        result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size_of_prefixes(bits));
        if (result != NULL) {
            uint8_t *starts = (uint8_t *)PyBytes_AsString(result);
            uint8_t *begun = starts + 4 * (num_prefixes + 1);
            size_t next = 0;
            memset(begun, 0, num_prefixes);
            for (size_t rank = 0; rank <= count; rank++) {
                uint32_t start = (uint32_t)rank;
                size_t prefix = rank < count ? (size_t)(load_hash(sorted.buf, rank) >> (64 - bits)) : num_prefixes;
                for (; next <= prefix; next++) {
                    memcpy(starts + 4 * next, &start, sizeof start);
                }
                if (rank < count) {
                    uint64_t begin = load_hash(sorted.buf, rank) >> (64 - bits - 3);
                    begun[begin / 8] |= (uint8_t)(1 << begin % 8);
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
    size_t starts[BATCH], stops[BATCH], waiting[BATCH], first = 0;
    while (first < count) {
        size_t num = 0;
        for (; first < count && num < BATCH; first++) {
            if (is_begun(keys, load_hash(hashes, first))) {
                PREFETCH(keys->prefixes + 4 * (load_hash(hashes, first) >> (64 - keys->bits)));
                waiting[num++] = first;
            }
        }
        for (size_t i = 0; i < num; i++) {
            size_t prefix = (size_t)(load_hash(hashes, waiting[i]) >> (64 - keys->bits));
            size_t stop = load_u32(keys->prefixes, prefix + 1);
            starts[i] = load_u32(keys->prefixes, prefix);
            stops[i] = stop < keys->count ? stop : keys->count;
            PREFETCH(keys->sorted + 8 * (starts[i] < keys->count ? starts[i] : 0));
        }
        for (size_t i = 0; i < num; i++) {
            uint64_t hash = load_hash(hashes, waiting[i]);
            for (size_t rank = starts[i]; rank < stops[i]; rank++) {
                uint64_t bit = UINT64_C(1) << rank % 64;
                if (load_hash(keys->sorted, rank) != hash || keys->flags[rank] || (told[rank / 64] & bit)) {
                    continue;
                }
                told[rank / 64] |= bit;
                if (!add(into, (uint32_t)waiting[i], (uint32_t)rank)) {
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
               prefixes.len != (Py_ssize_t)size_of_prefixes(bits_for(count))) {
        PyErr_Format(PyExc_ValueError, "%zd flags and %zd bytes of prefixes are not those of %zd keys", flags.len,
                     prefixes.len, (Py_ssize_t)count);
    } else {
        const int bits = bits_for(count);
        const uint8_t *begun = (const uint8_t *)prefixes.buf + 4 * (((size_t)1 << bits) + 1);
        const hash_table keys = {sorted.buf, prefixes.buf, begun, flags.buf, count, bits};
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
