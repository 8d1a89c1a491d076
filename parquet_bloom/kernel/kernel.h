/*
 * The loops that touch every value: hash values, insert hashes, check hashes, and walk a bitset.
 *
 * Nothing here knows Python or Parquet files: flat buffers in, flat buffers out, no allocation, no errors but
 * bad offsets. Buffers may be unaligned, hence the memcpy loads and stores, which compile to plain moves.
 * Hashes are uint64 in the machine's own byte order; bitsets are little-endian, as the format has them.
 */
#ifndef PARQUET_BLOOM_KERNEL_H
#define PARQUET_BLOOM_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && defined(__ORDER_BIG_ENDIAN__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define BIG_ENDIAN_MACHINE 1
#elif defined(__BYTE_ORDER__) || defined(_WIN32)
#define BIG_ENDIAN_MACHINE 0
#else
#error "unknown byte order"
#endif

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define ALWAYS_INLINE static inline
#define PREFETCH(address) ((void)(address))
#endif

/* One machine code per generation of x86-64 processors, chosen when the module is loaded. CMakeLists.txt
 * defines PARQUET_BLOOM_CLONES where compiler and C library can do that; elsewhere the baseline is all. */
#if defined(PARQUET_BLOOM_CLONES)
#define MULTIVERSION __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define MULTIVERSION
#endif

#define BLOCK_BYTES 32
#define WORDS_PER_BLOCK 8

ALWAYS_INLINE uint32_t load_le32(const uint8_t *p) {
    uint32_t v;
    if (BIG_ENDIAN_MACHINE) {
        return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    }
    memcpy(&v, p, sizeof v);
    return v;
}

ALWAYS_INLINE uint64_t load_le64(const uint8_t *p) {
    uint64_t v;
    if (BIG_ENDIAN_MACHINE) {
        return (uint64_t)load_le32(p) | (uint64_t)load_le32(p + 4) << 32;
    }
    memcpy(&v, p, sizeof v);
    return v;
}

ALWAYS_INLINE void store_le32(uint8_t *p, uint32_t v) {
    if (BIG_ENDIAN_MACHINE) {
        p[0] = (uint8_t)v, p[1] = (uint8_t)(v >> 8), p[2] = (uint8_t)(v >> 16), p[3] = (uint8_t)(v >> 24);
    } else {
        memcpy(p, &v, sizeof v);
    }
}

ALWAYS_INLINE uint64_t load_hash(const uint8_t *hashes, size_t i) {
    uint64_t h;
    memcpy(&h, hashes + i * sizeof h, sizeof h);
    return h;
}

ALWAYS_INLINE void store_hash(uint8_t *hashes, size_t i, uint64_t h) {
    memcpy(hashes + i * sizeof h, &h, sizeof h);
}

/* -fvisibility=hidden does not reach multiversioned functions, this does. */
#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* offsets.c */

/* How many offsets are looked at together: enough to pay for a vector loop, few enough to stay in L1. */
#define RUN 256

size_t read_offsets(const uint8_t *offsets, size_t offset_width, size_t count, size_t data_bytes,
                    uint64_t run[RUN + 1]);

/* xxh64.c */
void hash_fixed(const uint8_t *values, size_t width, size_t count, uint8_t *hashes);
size_t hash_variable(const uint8_t *offsets, size_t offset_width, const uint8_t *data, size_t data_bytes,
                     size_t count, uint8_t *hashes);

/* sbbf.c */
typedef struct {
    uint64_t bits_set;
    double rate;       /* mean over blocks of the chance that an absent hash finds its eight bits set */
    double worst_rate; /* the same of the fullest block */
} bitset_census;

void insert_hashes(uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count);
void check_hashes(const uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count, uint8_t *found);
size_t find_hashes(const uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count, uint32_t *found);
void fold_bitset(const uint8_t *bitset, size_t num_blocks, uint8_t *folded);
void merge_bitsets(const uint8_t *one, const uint8_t *other, size_t num_blocks, uint8_t *both);
bitset_census take_census(const uint8_t *bitset, size_t num_blocks);

/* hadoop.c */
size_t hadoop_insert(uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *offsets,
                     size_t offset_width, const uint8_t *data, size_t data_bytes, size_t count);
size_t hadoop_check(const uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *offsets,
                    size_t offset_width, const uint8_t *data, size_t data_bytes, size_t count, uint8_t *found);

/* paimon.c */
void hash_wang64(const uint8_t *values, size_t count, uint8_t *hashes);
void paimon_insert(uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *hashes, size_t count);
void paimon_check(const uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *hashes, size_t count,
                  uint8_t *found);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
