/*
 * Thrift's compact encoding (thrift-compact-protocol.md), walked within bounds: no read leaves the buffer, no depth
 * exceeds MAX_DEPTH, and a count that the rest of the buffer cannot hold is refused before anything is done with it.
 */
#ifndef PARQUET_BLOOM_COMPACT_H
#define PARQUET_BLOOM_COMPACT_H

#include "kernel.h"

enum { TRUE_ = 1, FALSE_, BYTE_, I16_, I32_, I64_, DOUBLE_, BINARY_, LIST_, SET_, MAP_, STRUCT_, UUID_ };

#define MAX_DEPTH 60

enum { MOST_OF_I16 = 3, MOST_OF_I32 = 5 };

typedef struct {
    const uint8_t *data;
    size_t size;
    size_t at;
} cursor;

typedef struct {
    int32_t id;
    uint8_t kind;     /* 0 for the end of the struct, whose id is 0, too */
    uint8_t is_short; /* the header is one byte: id = the id before + delta */
    size_t start;     /* of the header; of the stop byte at the end of the struct */
} field_header;

/* Each returns 0 when the bytes cannot be what they should be; the cursor is then anywhere within the buffer. */

ALWAYS_INLINE int read_varint(cursor *c, uint64_t *value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        uint8_t byte;
        if (c->at >= c->size) {
            return 0;
        }
        byte = c->data[c->at++];
        if (shift == 63 && byte > 1) {
            return 0; /* more than 64 bits */
        }
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *value = result;
            return 1;
        }
    }
    return 0;
}

/* The same for numbers of 16 and 32 bits, which Thrift's runtimes refuse in more than 3 and 5 bytes. */
ALWAYS_INLINE int read_narrow(cursor *c, size_t most, uint64_t *value) {
    size_t start = c->at;
    return read_varint(c, value) && c->at - start <= most;
}

ALWAYS_INLINE int64_t unzigzag(uint64_t value) { return (int64_t)(value >> 1 ^ (0 - (value & 1))); }

ALWAYS_INLINE int read_i64(cursor *c, int64_t *value) {
    uint64_t raw;
    if (!read_varint(c, &raw)) {
        return 0;
    }
    *value = unzigzag(raw);
    return 1;
}

ALWAYS_INLINE int read_i32(cursor *c, int64_t *value) {
    uint64_t raw;
    if (!read_narrow(c, MOST_OF_I32, &raw)) {
        return 0;
    }
    *value = unzigzag(raw);
    return *value >= INT32_MIN && *value <= INT32_MAX;
}

ALWAYS_INLINE int read_length(cursor *c, size_t *length) {
    uint64_t raw;
    if (!read_narrow(c, MOST_OF_I32, &raw) || raw > c->size - c->at) {
        return 0;
    }
    *length = (size_t)raw;
    return 1;
}

/* Every element takes a byte at least, so a count is at most the bytes that are left. */
ALWAYS_INLINE int read_list(cursor *c, size_t *count, uint8_t *kind) {
    uint8_t head;
    if (c->at >= c->size) {
        return 0;
    }
    head = c->data[c->at++];
    *kind = head & 15;
    *count = head >> 4;
    return *count == 15 ? read_length(c, count) : *count <= c->size - c->at;
}

/* The next field of a struct; `id` is the one before. */
ALWAYS_INLINE int read_field(cursor *c, int32_t id, field_header *field) {
    uint8_t head;
    field->start = c->at;
    if (c->at >= c->size) {
        return 0;
    }
    head = c->data[c->at++];
    field->kind = head & 15;
    field->is_short = head >> 4 != 0;
    if (head == 0) {
        field->id = 0;
        return 1;
    }
    if (field->is_short) {
        field->id = id + (head >> 4);
    } else {
        uint64_t raw;
        int64_t long_id;
        if (!read_narrow(c, MOST_OF_I16, &raw)) {
            return 0;
        }
        long_id = unzigzag(raw);
        if (long_id < INT16_MIN || long_id > INT16_MAX) {
            return 0;
        }
        field->id = (int32_t)long_id;
    }
    return field->kind != 0 && field->id <= INT16_MAX;
}

int skip_value(cursor *c, uint8_t kind, int depth);

/* A boolean's value is in the header of its field. */
ALWAYS_INLINE int skip_field(cursor *c, const field_header *field, int depth) {
    return field->kind == TRUE_ || field->kind == FALSE_ || skip_value(c, field->kind, depth);
}

#endif
