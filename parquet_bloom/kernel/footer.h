#ifndef PARQUET_BLOOM_FOOTER_H
#define PARQUET_BLOOM_FOOTER_H

#include "compact.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

typedef struct {
    size_t start, length;
} span;

enum { MIN_VALUE, MAX_VALUE, MIN_OLD, MAX_OLD }; /* `bounds` of a chunk; the old pair is deprecated */

enum {
    HAS_BOUND = 1u << 0, /* shifted by which of the four */
    HAS_NULL_COUNT = 1u << 4,
    KNOWS_MIN_EXACT = 1u << 5,
    MIN_IS_EXACT = 1u << 6,
    KNOWS_MAX_EXACT = 1u << 7,
    MAX_IS_EXACT = 1u << 8,
    HAS_STATISTICS = 1u << 9,
    HAS_METADATA = 1u << 10,
    HAS_DICTIONARY = 1u << 11,
    HAS_FILTER = 1u << 12,
    HAS_FILTER_LENGTH = 1u << 13,
    IS_ELSEWHERE = 1u << 14, /* in another file */
};

/* What is read of a ColumnChunk; numbers that `flags` does not vouch for are 0. */
typedef struct {
    uint32_t flags;
    uint32_t required; /* bit i: ColumnMetaData has field i */
    size_t metadata_start;
    span path, bounds[4];
    int64_t type, codec, num_values, null_count, compressed_size, data_offset, dictionary_offset;
    int64_t filter_offset, filter_length;
} chunk_record;

typedef struct {
    int64_t num_rows;
    int64_t start, stop; /* the first byte of its pages and the one after the last; 0 without chunks */
    int has_extent;
} group_record;

typedef struct {
    int64_t num_rows;
    size_t num_groups, num_columns, num_chunks, num_filters;
    group_record *groups;
    uint32_t *chunks;  /* where each ColumnChunk starts, row group by row group */
    uint32_t *filters; /* the numbers of those chunks that name a place for a filter */
    span schema, key_values, created_by, column_orders; /* empty where there is none */
    size_t stop;              /* where FileMetaData's stop byte is */
    int is_broken;            /* offsets or sizes that no file has */
    int is_whole;             /* every column chunk has its metadata, and lies in this file */
    int filters_stand_apart;  /* no filter overlaps pages or another filter; if 0, one may */
} footer_walk;

/* Returns whether it is understood in full; `free_walk` in either case. */
int walk_footer(const uint8_t *data, size_t size, footer_walk *walk);
void free_walk(footer_walk *walk);

int read_chunk(cursor *c, chunk_record *chunk);

/* How a type sorts its plain values: as unsigned bytes, or as integers of 4 or 8 bytes, signed or not. */
enum { AS_BYTES, AS_SIGNED, AS_UNSIGNED };

typedef struct {
    int order;
    size_t width;         /* of every plain value; 0 for values of any length */
    const uint8_t *bytes; /* one value: plain for AS_BYTES, else 8 bytes, little-endian */
    size_t size;
} point;

enum { UNUSUAL, OUTSIDE, WITHIN }; /* its min and max */

/* Returns where a value lies in a chunk that has no null alone, no repetition, and statistics; else UNUSUAL. */
int place_point(const uint8_t *data, const chunk_record *chunk, int64_t num_rows, const point *value);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
