/* The door to the walks of compact structs and of footers; what they refuse is None or a ValueError here. */
#include <Python.h>

#include "footer.h"
#include "module_footer.h"

static int valid_place(const Py_buffer *data, Py_ssize_t at) {
    if (at >= 0 && at <= data->len) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "%zd is not a place in %zd bytes", at, data->len);
    return 0;
}

static PyObject *not_compact(size_t at) {
    return PyErr_Format(PyExc_ValueError, "no thrift compact struct at %zu", at);
}

const char struct_fields_doc[] =
    "struct_fields(data, at, /)\n--\n\n"
    "Return the fields of the compact struct at `at`, as (id, kind, start of its header, start of its value, end,\n"
    "whether the header is one byte), and the place of the stop byte. Bytes that are not a struct are a ValueError.";

PyObject *py_struct_fields(PyObject *module, PyObject *args) {
    Py_buffer data;
    Py_ssize_t at;
    PyObject *fields = NULL, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*n:struct_fields", &data, &at)) {
        return NULL;
    }
    if (valid_place(&data, at) && (fields = PyList_New(0)) != NULL) {
        cursor c = {data.buf, (size_t)data.len, (size_t)at};
        field_header field = {0};
        for (;;) {
            PyObject *item;
            size_t value;
            int appended;
            if (!read_field(&c, field.id, &field)) {
                not_compact(c.at);
                break;
            }
            if (field.kind == 0) {
                result = Py_BuildValue("On", fields, (Py_ssize_t)field.start);
                break;
            }
            value = c.at;
            if (!skip_field(&c, &field, 0)) {
                not_compact(c.at);
                break;
            }
            item = Py_BuildValue("iinnnO", (int)field.id, (int)field.kind, (Py_ssize_t)field.start, (Py_ssize_t)value,
                                 (Py_ssize_t)c.at, field.is_short ? Py_True : Py_False);
            appended = item != NULL && PyList_Append(fields, item) == 0;
            Py_XDECREF(item);
            if (!appended) {
                break;
            }
        }
        Py_DECREF(fields);
    }
    PyBuffer_Release(&data);
    return result;
}

const char list_structs_doc[] =
    "list_structs(data, at, /)\n--\n\n"
    "Return where the structs of the compact list at `at` start, and where the list ends, as one list of ints.\n\n"
    "Bytes that are not a list of structs are a ValueError; an empty list may be of any kind.";

PyObject *py_list_structs(PyObject *module, PyObject *args) {
    Py_buffer data;
    Py_ssize_t at;
    PyObject *places = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*n:list_structs", &data, &at)) {
        return NULL;
    }
    if (valid_place(&data, at)) {
        cursor c = {data.buf, (size_t)data.len, (size_t)at};
        size_t count;
        uint8_t kind;
        if (!read_list(&c, &count, &kind) || (count > 0 && kind != STRUCT_)) {
            not_compact(c.at);
        } else if ((places = PyList_New((Py_ssize_t)count + 1)) != NULL) {
            for (size_t i = 0; i <= count; i++) {
                PyObject *place = PyLong_FromSize_t(c.at);
                if (place == NULL || PyList_SetItem(places, (Py_ssize_t)i, place) < 0) {
                    Py_CLEAR(places);
                    break;
                }
                if (i < count && !skip_value(&c, STRUCT_, 0)) {
                    not_compact(c.at);
                    Py_CLEAR(places);
                    break;
                }
            }
        }
    }
    PyBuffer_Release(&data);
    return places;
}

const char walk_footer_doc[] =
    "walk_footer(data, /)\n--\n\n"
    "Return what the FileMetaData in `data` consists of, or None where it is not understood in full.\n\n"
    "The result is (rows, column chunks in a row group, whether all of them lie in this file, whether all filters stand\n"
    "apart from pages and from each other, row groups, column chunks, those with filters, places): of each row group the\n"
    "rows and the first byte of its pages and the one after the last, as int64; of each column chunk where its struct\n"
    "starts, as uint32; the numbers of those that name a place for a filter, as uint32; and start and stop of the values\n"
    "of schema, key_value_metadata, created_by and column_orders (0 and 0 without one), and the stop byte.";

PyObject *py_walk_footer(PyObject *module, PyObject *args) {
    Py_buffer data;
    footer_walk walk;
    PyObject *result = NULL, *groups = NULL, *chunks = NULL, *filters = NULL;
    int is_understood;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*:walk_footer", &data)) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    is_understood = walk_footer(data.buf, (size_t)data.len, &walk);
    Py_END_ALLOW_THREADS
    if (!is_understood) {
        result = Py_NewRef(Py_None);
    } else if ((groups = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)walk.num_groups * 24)) != NULL &&
               (chunks = PyBytes_FromStringAndSize((const char *)walk.chunks, (Py_ssize_t)walk.num_chunks * 4)) !=
                   NULL &&
               (filters = PyBytes_FromStringAndSize((const char *)walk.filters, (Py_ssize_t)walk.num_filters * 4)) !=
                   NULL) {
        char *out = PyBytes_AsString(groups);
        const span *places[] = {&walk.schema, &walk.key_values, &walk.created_by, &walk.column_orders};
        Py_ssize_t at[8];
        for (size_t i = 0; i < walk.num_groups; i++) {
            const int64_t record[3] = {walk.groups[i].num_rows, walk.groups[i].start, walk.groups[i].stop};
            memcpy(out + 24 * i, record, 24);
        }
        for (int i = 0; i < 4; i++) {
            at[2 * i] = (Py_ssize_t)places[i]->start;
            at[2 * i + 1] = (Py_ssize_t)(places[i]->start + places[i]->length);
        }
        result = Py_BuildValue("LnOOOOO(nnnnnnnnn)", (long long)walk.num_rows, (Py_ssize_t)walk.num_columns,
                               walk.is_whole ? Py_True : Py_False, walk.filters_stand_apart ? Py_True : Py_False, groups, chunks, filters, at[0], at[1], at[2],
                               at[3], at[4], at[5], at[6], at[7], (Py_ssize_t)walk.stop);
    }
    free_walk(&walk);
    Py_XDECREF(groups);
    Py_XDECREF(chunks);
    Py_XDECREF(filters);
    PyBuffer_Release(&data);
    return result;
}

#define CHUNK_NUMBERS 13

static const char other_chunks[] = "the column chunks are not those of this footer";

static int valid_column(const Py_buffer *chunks, Py_ssize_t column, Py_ssize_t columns) {
    if (columns >= 1 && column >= 0 && column < columns && chunks->len % (4 * columns) == 0) {
        return 1;
    }
    PyErr_Format(PyExc_ValueError, "%zd bytes have no column %zd of %zd", chunks->len, column, columns);
    return 0;
}

static int read_chunk_at(const Py_buffer *data, const Py_buffer *chunks, Py_ssize_t number, chunk_record *chunk) {
    cursor c = {data->buf, (size_t)data->len, 0};
    uint32_t at;
    memcpy(&at, (const char *)chunks->buf + 4 * number, 4);
    c.at = at;
    return at <= c.size && read_chunk(&c, chunk);
}

/* Whether a chunk lies in this file and is, by its type and path, of the column that it should be of. */
static int is_of_column(const chunk_record *chunk, const Py_buffer *data, int type, const Py_buffer *path) {
    return (chunk->flags & (HAS_METADATA | IS_ELSEWHERE)) == HAS_METADATA && chunk->type == type &&
           chunk->num_values >= 0 && chunk->path.length == (size_t)path->len &&
           memcmp((const char *)data->buf + chunk->path.start, path->buf, (size_t)path->len) == 0;
}

const char read_chunks_doc[] =
    "read_chunks(data, chunks, column, columns, type, path, /)\n--\n\n"
    "Return what a column's chunks say of themselves: 13 int64 for each row group.\n\n"
    "`chunks` is what `walk_footer` returned of the same `data`. The numbers are: flags, values, nulls, compressed size,\n"
    "data page offset, dictionary page offset, filter offset, filter length, start and stop of the least value, start\n"
    "and stop of the greatest value, codec. Flags (footer.h) say which of them are there; bit 15 says that the chunk\n"
    "lies in this file and has the `type` and the `path` (an encoded list) that the schema gives the column.";

PyObject *py_read_chunks(PyObject *module, PyObject *args) {
    Py_buffer data, chunks, path;
    Py_ssize_t column, columns;
    int type;
    PyObject *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*nniy*:read_chunks", &data, &chunks, &column, &columns, &type, &path)) {
        return NULL;
    }
    if (valid_column(&chunks, column, columns) &&
        (result = PyBytes_FromStringAndSize(NULL, chunks.len / (4 * columns) * CHUNK_NUMBERS * 8)) != NULL) {
        char *out = PyBytes_AsString(result);
        int is_sound = 1;
        for (Py_ssize_t i = column; i < chunks.len / 4; i += columns, out += CHUNK_NUMBERS * 8) {
            chunk_record chunk;
            if (!read_chunk_at(&data, &chunks, i, &chunk)) {
                is_sound = 0;
                break;
            }
            const span *low = &chunk.bounds[MIN_VALUE], *high = &chunk.bounds[MAX_VALUE];
            const int is_here = is_of_column(&chunk, &data, type, &path);
            const int64_t record[CHUNK_NUMBERS] = {
                (int64_t)(chunk.flags | (is_here ? 1u << 15 : 0)),
                chunk.num_values,
                chunk.null_count,
                chunk.compressed_size,
                chunk.data_offset,
                chunk.dictionary_offset,
                chunk.filter_offset,
                chunk.filter_length,
                (int64_t)low->start,
                (int64_t)(low->start + low->length),
                (int64_t)high->start,
                (int64_t)(high->start + high->length),
                chunk.codec,
            };
            memcpy(out, record, sizeof record);
        }
        if (!is_sound) {
            Py_CLEAR(result);
            PyErr_SetString(PyExc_ValueError, other_chunks);
        }
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&chunks);
    PyBuffer_Release(&path);
    return result;
}

const char place_in_chunks_doc[] =
    "place_in_chunks(data, chunks, groups, end, column, columns, type, path, order, width, value, /)\n--\n\n"
    "Return where a value lies in a column's chunks, and the filters of those that it lies within; None where one chunk\n"
    "is not as usual: without nulls alone, with sound bounds, and with a filter that ends before `end`.\n\n"
    "`chunks` and `groups` are what `walk_footer` returned of the same `data`. `order` is 0 for values that sort as\n"
    "unsigned bytes, 1 and 2 for integers with and without a sign, of `width` bytes (0 for any); an integer `value` has 8\n"
    "bytes. The result is a byte for each row group, 1 outside the bounds and 2 within them; the offsets of the filters;\n"
    "and the length that they share, -1 where they have different ones.";

PyObject *py_place_in_chunks(PyObject *module, PyObject *args) {
    Py_buffer data, chunks, groups, path, bytes;
    Py_ssize_t column, columns, width;
    long long end;
    int type;
    point value;
    PyObject *codes = NULL, *offsets = NULL, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*Lnniy*iny*:place_in_chunks", &data, &chunks, &groups, &end, &column, &columns,
                          &type, &path, &value.order, &width, &bytes)) {
        return NULL;
    }
    value.width = (size_t)width;
    value.bytes = bytes.buf;
    value.size = (size_t)bytes.len;
    if (!valid_column(&chunks, column, columns)) {
    } else if (groups.len % 24 != 0 || groups.len / 24 != chunks.len / (4 * columns)) {
        PyErr_SetString(PyExc_ValueError, "not as many row groups as chunks of the column");
    } else if (value.order < AS_BYTES || value.order > AS_UNSIGNED || width < 0 ||
               (value.order != AS_BYTES && ((width != 4 && width != 8) || bytes.len != 8))) {
        PyErr_SetString(PyExc_ValueError, "there is no such order");
    } else if ((codes = PyBytes_FromStringAndSize(NULL, groups.len / 24)) != NULL && (offsets = PyList_New(0)) != NULL) {
        char *out = PyBytes_AsString(codes);
        int64_t length = 0;
        int is_usual = 1, failed = 0;
        for (Py_ssize_t group = 0; group < groups.len / 24 && is_usual && !failed; group++) {
            chunk_record chunk;
            int64_t num_rows;
            int place;
            memcpy(&num_rows, (const char *)groups.buf + 24 * group, 8);
            if (!read_chunk_at(&data, &chunks, group * columns + column, &chunk)) {
                PyErr_SetString(PyExc_ValueError, other_chunks);
                failed = 1;
                break;
            }
            place = is_of_column(&chunk, &data, type, &path) ? place_point(data.buf, &chunk, num_rows, &value) : UNUSUAL;
            is_usual = place != UNUSUAL;
            out[group] = (char)place;
            if (place == WITHIN) {
                PyObject *offset;
                /* Without a filter its offset is 0; the first bytes of a file are the magic. */
                is_usual = chunk.filter_offset > 4 && chunk.filter_length > 0 && chunk.filter_offset <= end &&
                           chunk.filter_length <= end - chunk.filter_offset;
                length = length == 0 || length == chunk.filter_length ? chunk.filter_length : -1;
                offset = PyLong_FromLongLong(chunk.filter_offset);
                failed = offset == NULL || PyList_Append(offsets, offset) < 0;
                Py_XDECREF(offset);
            }
        }
        if (!failed) {
            result = is_usual ? Py_BuildValue("OOL", codes, offsets, (long long)length) : Py_NewRef(Py_None);
        }
    }
    Py_XDECREF(codes);
    Py_XDECREF(offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&chunks);
    PyBuffer_Release(&groups);
    PyBuffer_Release(&path);
    PyBuffer_Release(&bytes);
    return result;
}
