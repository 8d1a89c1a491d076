/*
 * One pass over a footer (parquet.thrift: FileMetaData), strict: whatever a decoder might understand in another way
 * than this walk does (a field twice, out of order or of another type, a number that does not fit, row groups of
 * different widths) ends the walk, and the generated structs read that footer.
 */
#include "footer.h"

#include <stdlib.h>

/* A field must come after the one before it, or its last value would be what counts elsewhere. */
ALWAYS_INLINE int next_field(cursor *c, field_header *field) {
    int32_t previous = field->id;
    return read_field(c, previous, field) && (field->kind == 0 || field->id > previous);
}

ALWAYS_INLINE int read_binary(cursor *c, span *value) {
    if (!read_length(c, &value->length)) {
        return 0;
    }
    value->start = c->at;
    c->at += value->length;
    return 1;
}

/* Moves past a value and returns where it is. */
ALWAYS_INLINE int read_span(cursor *c, const field_header *field, span *value) {
    value->start = c->at;
    if (!skip_field(c, field, 3)) {
        return 0;
    }
    value->length = c->at - value->start;
    return 1;
}

ALWAYS_INLINE int is(const field_header *field, uint8_t kind) { return field->kind == kind; }

static int read_bool(const field_header *field, uint32_t *flags, uint32_t known, uint32_t is_true) {
    if (field->kind != TRUE_ && field->kind != FALSE_) {
        return 0;
    }
    *flags |= known | (field->kind == TRUE_ ? is_true : 0);
    return 1;
}

static int read_statistics(cursor *c, chunk_record *chunk) {
    field_header field = {0};
    while (next_field(c, &field)) {
        switch (field.id) {
        case 0:
            return 1;
        case 1:
        case 2:
        case 5:
        case 6: {
            static const int SLOT[] = {0, MAX_OLD, MIN_OLD, 0, 0, MAX_VALUE, MIN_VALUE};
            int slot = SLOT[field.id];
            if (!is(&field, BINARY_) || !read_binary(c, &chunk->bounds[slot])) {
                return 0;
            }
            chunk->flags |= HAS_BOUND << slot;
            break;
        }
        case 3:
            if (!is(&field, I64_) || !read_i64(c, &chunk->null_count)) {
                return 0;
            }
            chunk->flags |= HAS_NULL_COUNT;
            break;
        case 7:
        case 8:
            if (!read_bool(&field, &chunk->flags, field.id == 7 ? KNOWS_MAX_EXACT : KNOWS_MIN_EXACT,
                           field.id == 7 ? MAX_IS_EXACT : MIN_IS_EXACT)) {
                return 0;
            }
            break;
        case 4:
            if (!is(&field, I64_)) {
                return 0;
            }
            /* fall through */
        default:
            if (!skip_field(c, &field, 3)) {
                return 0;
            }
        }
    }
    return 0;
}

static int read_path(cursor *c, span *path) {
    size_t count;
    uint8_t kind;
    path->start = c->at;
    if (!read_list(c, &count, &kind) || kind != BINARY_) {
        return 0;
    }
    while (count--) {
        span name;
        if (!read_binary(c, &name)) {
            return 0;
        }
    }
    path->length = c->at - path->start;
    return 1;
}

static int read_column_metadata(cursor *c, chunk_record *chunk) {
    field_header field = {0};
    while (next_field(c, &field)) {
        int64_t *number = NULL;
        switch (field.id) {
        case 0:
            return 1;
        case 1:
        case 4:
        case 15:
            number = field.id == 1 ? &chunk->type : field.id == 4 ? &chunk->codec : &chunk->filter_length;
            if (!is(&field, I32_) || !read_i32(c, number)) {
                return 0;
            }
            break;
        case 3:
            if (!is(&field, LIST_) || !read_path(c, &chunk->path)) {
                return 0;
            }
            break;
        case 5:
        case 7:
        case 9:
        case 11:
        case 14:
            number = field.id == 5    ? &chunk->num_values
                     : field.id == 7  ? &chunk->compressed_size
                     : field.id == 9  ? &chunk->data_offset
                     : field.id == 11 ? &chunk->dictionary_offset
                                      : &chunk->filter_offset;
            if (!is(&field, I64_) || !read_i64(c, number)) {
                return 0;
            }
            break;
        case 12:
            if (!is(&field, STRUCT_) || !read_statistics(c, chunk)) {
                return 0;
            }
            chunk->flags |= HAS_STATISTICS;
            break;
        default:
            if (!skip_field(c, &field, 3)) {
                return 0;
            }
        }
        chunk->flags |= field.id == 11   ? HAS_DICTIONARY
                        : field.id == 14 ? HAS_FILTER
                        : field.id == 15 ? HAS_FILTER_LENGTH
                                         : 0;
        chunk->required |= field.id < 16 ? 1u << field.id : 0;
    }
    return 0;
}

#define REQUIRED (1u << 1 | 1u << 3 | 1u << 4 | 1u << 5 | 1u << 7 | 1u << 9)

int read_chunk(cursor *c, chunk_record *chunk) {
    field_header field = {0};
    memset(chunk, 0, sizeof *chunk);
    while (next_field(c, &field)) {
        switch (field.id) {
        case 0:
            return !(chunk->flags & HAS_METADATA) || (chunk->required & REQUIRED) == REQUIRED;
        case 1: {
            span path;
            if (!is(&field, BINARY_) || !read_binary(c, &path)) {
                return 0;
            }
            chunk->flags |= path.length > 0 ? IS_ELSEWHERE : 0;
            break;
        }
        case 3:
            if (!is(&field, STRUCT_)) {
                return 0;
            }
            chunk->metadata_start = c->at;
            if (!read_column_metadata(c, chunk)) {
                return 0;
            }
            chunk->flags |= HAS_METADATA;
            break;
        case 8:
            return 0; /* encrypted: rare, and the structs know how */
        default:
            if (!skip_field(c, &field, 2)) {
                return 0;
            }
        }
    }
    return 0;
}

/* ---- regions: a filter that lies where other bytes do is damage ------------------------------------------------ */

typedef struct {
    int64_t start, stop;
    int is_filter;
} region;

static int by_start(const void *a, const void *b) {
    const region *one = a, *other = b;
    return one->start != other->start ? (one->start < other->start ? -1 : 1)
                                      : (one->stop > other->stop) - (one->stop < other->stop);
}

typedef struct {
    region *items;
    size_t count;
    int is_sorted, is_odd;
} region_list;

static void add_region(region_list *list, int64_t start, int64_t length, int is_filter) {
    region *item = &list->items[list->count];
    if (start < 0 || length < 0 || start > INT64_MAX - length) {
        list->is_odd = 1;
        return;
    }
    item->start = start, item->stop = start + length, item->is_filter = is_filter;
    if (list->count && by_start(item - 1, item) > 0) {
        list->is_sorted = 0;
    }
    list->count++;
}

/* Whether it is certain that no filter overlaps pages or another filter. */
static int filters_stand_apart(region_list *list) {
    int64_t end = 0;
    int owner_is_filter = 0;
    if (list->is_odd) {
        return 0;
    }
    if (!list->is_sorted) {
        qsort(list->items, list->count, sizeof(region), by_start);
    }
    for (size_t i = 0; i < list->count; i++) {
        const region *item = &list->items[i];
        if (item->start < end && (item->is_filter || owner_is_filter)) {
            return 0;
        }
        if (item->stop > end) {
            end = item->stop, owner_is_filter = item->is_filter;
        }
    }
    return 1;
}

/* ---- the walk ----------------------------------------------------------------------------------------------------- */

static void note_extent(const chunk_record *chunk, footer_walk *walk, group_record *group, region_list *regions) {
    int64_t start = chunk->data_offset;
    walk->is_whole &= (chunk->flags & (HAS_METADATA | IS_ELSEWHERE)) == HAS_METADATA;
    if (!(chunk->flags & HAS_METADATA)) {
        return;
    }
    if (chunk->flags & HAS_DICTIONARY && 0 < chunk->dictionary_offset && chunk->dictionary_offset < start) {
        start = chunk->dictionary_offset;
    }
    if (start < 0 || chunk->compressed_size < 0 || start > INT64_MAX - chunk->compressed_size) {
        regions->is_odd = 1;
        walk->is_broken = 1;
        return;
    }
    if (!group->has_extent || start < group->start) {
        group->start = start;
    }
    if (!group->has_extent || start + chunk->compressed_size > group->stop) {
        group->stop = start + chunk->compressed_size;
    }
    group->has_extent = 1;
    if (chunk->flags & IS_ELSEWHERE) {
        return;
    }
    add_region(regions, start, chunk->compressed_size, 0);
    if (chunk->flags & HAS_FILTER && chunk->filter_offset > 4) {
        int64_t length = chunk->flags & HAS_FILTER_LENGTH && chunk->filter_length > 1 ? chunk->filter_length : 1;
        add_region(regions, chunk->filter_offset, length, 1);
    }
}

static int read_columns(cursor *c, footer_walk *walk, group_record *group, region_list *regions) {
    size_t count;
    uint8_t kind;
    if (!read_list(c, &count, &kind) || kind != STRUCT_) {
        return 0;
    }
    if (walk->chunks == NULL) {
        walk->num_columns = count;
        if (count > 0 && walk->num_groups > c->size / count) {
            return 0; /* more chunks than bytes */
        }
        walk->chunks = malloc((walk->num_groups * count + 1) * sizeof *walk->chunks);
        walk->filters = malloc((walk->num_groups * count + 1) * sizeof *walk->filters);
        regions->items = malloc((walk->num_groups * count * 2 + 1) * sizeof *regions->items);
        if (walk->chunks == NULL || walk->filters == NULL || regions->items == NULL) {
            return 0;
        }
    } else if (count != walk->num_columns) {
        return 0;
    }
    for (size_t column = 0; column < count; column++) {
        chunk_record chunk;
        walk->chunks[walk->num_chunks] = (uint32_t)c->at;
        if (!read_chunk(c, &chunk)) {
            return 0;
        }
        if (chunk.flags & HAS_FILTER) {
            walk->filters[walk->num_filters++] = (uint32_t)walk->num_chunks;
        }
        walk->num_chunks++;
        note_extent(&chunk, walk, group, regions);
    }
    return 1;
}

static int read_row_group(cursor *c, footer_walk *walk, group_record *group, region_list *regions) {
    field_header field = {0};
    int has = 0;
    memset(group, 0, sizeof *group);
    while (next_field(c, &field)) {
        switch (field.id) {
        case 0:
            return has == 3 && group->num_rows >= 0;
        case 1:
            if (!is(&field, LIST_) || !read_columns(c, walk, group, regions)) {
                return 0;
            }
            has |= 1;
            break;
        case 3:
            if (!is(&field, I64_) || !read_i64(c, &group->num_rows)) {
                return 0;
            }
            has |= 2;
            break;
        default:
            if ((field.id == 6 && !is(&field, I64_)) || !skip_field(c, &field, 2)) {
                return 0;
            }
        }
    }
    return 0;
}

static int read_row_groups(cursor *c, footer_walk *walk, region_list *regions) {
    uint8_t kind;
    if (!read_list(c, &walk->num_groups, &kind) || kind != STRUCT_) {
        return 0;
    }
    walk->groups = malloc((walk->num_groups + 1) * sizeof *walk->groups);
    if (walk->groups == NULL) {
        return 0;
    }
    for (size_t group = 0; group < walk->num_groups; group++) {
        if (!read_row_group(c, walk, &walk->groups[group], regions)) {
            return 0;
        }
    }
    return 1;
}

static int walk_fields(cursor *c, footer_walk *walk, region_list *regions) {
    field_header field = {0};
    int has = 0;
    while (next_field(c, &field)) {
        span *place = NULL;
        uint8_t kind = LIST_;
        switch (field.id) {
        case 0:
            walk->stop = field.start;
            return has == 7 && walk->num_rows >= 0;
        case 2:
            has |= 1;
            place = &walk->schema;
            break;
        case 3:
            if (!is(&field, I64_) || !read_i64(c, &walk->num_rows)) {
                return 0;
            }
            has |= 2;
            break;
        case 4:
            if (!is(&field, LIST_) || !read_row_groups(c, walk, regions)) {
                return 0;
            }
            has |= 4;
            break;
        case 5:
            place = &walk->key_values;
            break;
        case 6:
            place = &walk->created_by;
            kind = BINARY_;
            break;
        case 7:
            place = &walk->column_orders;
            break;
        case 8:
            return 0; /* encrypted columns */
        default:
            if (!skip_field(c, &field, 1)) {
                return 0;
            }
        }
        if (place != NULL && (!is(&field, kind) || !read_span(c, &field, place))) {
            return 0;
        }
    }
    return 0;
}

int walk_footer(const uint8_t *data, size_t size, footer_walk *walk) {
    cursor c = {data, size, 0};
    region_list regions = {NULL, 0, 1, 0};
    int is_understood;
    memset(walk, 0, sizeof *walk);
    walk->is_whole = 1;
    is_understood = size <= UINT32_MAX && walk_fields(&c, walk, &regions);
    walk->filters_stand_apart = is_understood && filters_stand_apart(&regions);
    free(regions.items);
    return is_understood && !walk->is_broken;
}

void free_walk(footer_walk *walk) {
    free(walk->groups);
    free(walk->chunks);
    free(walk->filters);
}

static uint64_t load_sortable(const uint8_t *bytes, size_t width, int is_signed) {
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++) {
        value |= (uint64_t)bytes[i] << 8 * i;
    }
    if (is_signed) {
        const uint64_t sign = (uint64_t)1 << (8 * width - 1);
        value = (value ^ sign) - sign; /* extended to 64 bits */
        value ^= (uint64_t)1 << 63;
    }
    return value;
}

static int compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    const size_t common = a_size < b_size ? a_size : b_size;
    const int difference = common ? memcmp(a, b, common) : 0;
    return difference != 0 ? difference : (a_size > b_size) - (a_size < b_size);
}

static int compare_plain(const point *how, const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    uint64_t x, y;
    if (how->order == AS_BYTES) {
        return compare_bytes(a, a_size, b, b_size);
    }
    x = load_sortable(a, a_size, how->order == AS_SIGNED);
    y = load_sortable(b, b_size, how->order == AS_SIGNED);
    return (x > y) - (x < y);
}

int place_point(const uint8_t *data, const chunk_record *chunk, int64_t num_rows, const point *value) {
    const uint32_t needed = HAS_METADATA | HAS_STATISTICS | HAS_BOUND << MIN_VALUE | HAS_BOUND << MAX_VALUE;
    const span *low = &chunk->bounds[MIN_VALUE], *high = &chunk->bounds[MAX_VALUE];
    const uint8_t *least = data + low->start, *most = data + high->start;
    if ((chunk->flags & (needed | IS_ELSEWHERE)) != needed || chunk->num_values < 1 || chunk->num_values != num_rows) {
        return UNUSUAL;
    }
    if (chunk->flags & HAS_NULL_COUNT && (chunk->null_count < 0 || chunk->null_count >= chunk->num_values)) {
        return UNUSUAL;
    }
    if (value->width != 0 && (low->length != value->width || high->length != value->width)) {
        return UNUSUAL;
    }
    if (compare_plain(value, least, low->length, most, high->length) > 0) {
        return UNUSUAL;
    }
    return compare_plain(value, least, low->length, value->bytes, value->size) <= 0 &&
                   compare_plain(value, value->bytes, value->size, most, high->length) <= 0
               ? WITHIN
               : OUTSIDE;
}
