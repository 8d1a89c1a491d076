#include "compact.h"

static int skip_bytes(cursor *c, uint64_t count) {
    if (count > c->size - c->at) {
        return 0;
    }
    c->at += (size_t)count;
    return 1;
}

static int skip_many(cursor *c, uint8_t kind, size_t count, int depth) {
    if (kind == TRUE_ || kind == FALSE_ || kind == BYTE_) { /* in a list, a boolean is a byte */
        return skip_bytes(c, count);
    }
    while (count--) {
        if (!skip_value(c, kind, depth)) {
            return 0;
        }
    }
    return 1;
}

static int skip_map(cursor *c, int depth) {
    size_t count;
    uint8_t kinds;
    if (!read_length(c, &count)) {
        return 0;
    }
    if (count == 0) {
        return 1;
    }
    if (c->at >= c->size) {
        return 0;
    }
    kinds = c->data[c->at++];
    while (count--) {
        if (!skip_many(c, kinds >> 4, 1, depth) || !skip_many(c, kinds & 15, 1, depth)) {
            return 0;
        }
    }
    return 1;
}

/* Moves past one value that is not a struct's boolean. */
int skip_value(cursor *c, uint8_t kind, int depth) {
    uint64_t number;
    size_t count;
    if (depth > MAX_DEPTH) {
        return 0;
    }
    switch (kind) {
    case BYTE_:
        return skip_bytes(c, 1);
    case I16_:
        return read_narrow(c, MOST_OF_I16, &number);
    case I32_:
        return read_narrow(c, MOST_OF_I32, &number);
    case I64_:
        return read_varint(c, &number);
    case DOUBLE_:
        return skip_bytes(c, 8);
    case UUID_:
        return skip_bytes(c, 16);
    case BINARY_:
        return read_length(c, &count) && skip_bytes(c, count);
    case LIST_:
    case SET_: {
        uint8_t of;
        return read_list(c, &count, &of) && TRUE_ <= of && of <= UUID_ && skip_many(c, of, count, depth + 1);
    }
    case MAP_:
        return skip_map(c, depth + 1);
    case STRUCT_: {
        field_header field = {0};
        while (read_field(c, field.id, &field)) {
            if (field.kind == 0) {
                return 1;
            }
            if (!skip_field(c, &field, depth + 1)) {
                return 0;
            }
        }
        return 0;
    }
    default:
        return 0;
    }
}
