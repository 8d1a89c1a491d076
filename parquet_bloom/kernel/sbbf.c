/*
 * Split-block bloom filter: insert, check, fold, merge and count, as in the Parquet format's BloomFilter.md.
 *
 * The upper half of a hash picks one of the z blocks, any number of them; the lower half, times eight odd
 * constants, picks one bit in each of the block's eight words.
 */
#include "kernel.h"

static const uint32_t SALT[WORDS_PER_BLOCK] = {
    0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU, 0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U,
};

/* A filter is larger than the caches and hashes are random, so every block is a cache miss. Asking for blocks
 * this many hashes ahead lets the misses overlap. */
#define AHEAD 16

ALWAYS_INLINE size_t block_offset(uint64_t hash, uint64_t num_blocks) {
    return (size_t)((hash >> 32) * num_blocks >> 32) * BLOCK_BYTES;
}

ALWAYS_INLINE uint32_t bit_in_word(uint64_t hash, int word) {
    return UINT32_C(1) << ((uint32_t)hash * SALT[word] >> 27);
}

ALWAYS_INLINE void prefetch_block(const uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t i,
                                  size_t count) {
    if (i < count) {
        PREFETCH(bitset + block_offset(load_hash(hashes, i), num_blocks));
    }
}

/* Plain C: what the code below must equal, and all there is on other processors. */

static void insert_plain(uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        uint8_t *block = bitset + block_offset(hash, num_blocks);
        prefetch_block(bitset, num_blocks, hashes, i + AHEAD, count);
        for (int w = 0; w < WORDS_PER_BLOCK; w++) {
            store_le32(block + 4 * w, load_le32(block + 4 * w) | bit_in_word(hash, w));
        }
    }
}

static void check_plain(const uint8_t *restrict bitset, size_t num_blocks, const uint8_t *restrict hashes,
                        size_t count, uint8_t *restrict found) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        const uint8_t *block = bitset + block_offset(hash, num_blocks);
        uint32_t missing = 0;
        prefetch_block(bitset, num_blocks, hashes, i + AHEAD, count);
        for (int w = 0; w < WORDS_PER_BLOCK; w++) {
            missing |= bit_in_word(hash, w) & ~load_le32(block + 4 * w);
        }
        found[i] = missing == 0;
    }
}

static size_t find_plain(const uint8_t *restrict bitset, size_t num_blocks, const uint8_t *restrict hashes,
                         size_t count, uint32_t *restrict found) {
    size_t num_found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        const uint8_t *block = bitset + block_offset(hash, num_blocks);
        uint32_t missing = 0;
        for (int w = 0; w < WORDS_PER_BLOCK; w++) {
            missing |= bit_in_word(hash, w) & ~load_le32(block + 4 * w);
        }
        if (missing == 0) {
            found[num_found++] = (uint32_t)i;
        }
    }
    return num_found;
}

#if defined(PARQUET_BLOOM_SIMD) && defined(__GNUC__) && defined(__x86_64__)
#define HAS_AVX2 __builtin_cpu_supports("avx2")
#define AVX2 __attribute__((target("avx2")))
#include <immintrin.h>

/* The eight bits of a hash, in one register as wide as a block. */
AVX2 static inline __m256i bits_of(uint64_t hash) {
    const __m256i salt = _mm256_loadu_si256((const __m256i *)SALT);
    const __m256i product = _mm256_mullo_epi32(_mm256_set1_epi32((int)(uint32_t)hash), salt);
    return _mm256_sllv_epi32(_mm256_set1_epi32(1), _mm256_srli_epi32(product, 27));
}

AVX2 static void insert_avx2(uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        __m256i *block = (__m256i *)(bitset + block_offset(hash, num_blocks));
        prefetch_block(bitset, num_blocks, hashes, i + AHEAD, count);
        _mm256_storeu_si256(block, _mm256_or_si256(_mm256_loadu_si256(block), bits_of(hash)));
    }
}

AVX2 static void check_avx2(const uint8_t *restrict bitset, size_t num_blocks, const uint8_t *restrict hashes,
                            size_t count, uint8_t *restrict found) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        const __m256i *block = (const __m256i *)(bitset + block_offset(hash, num_blocks));
        prefetch_block(bitset, num_blocks, hashes, i + AHEAD, count);
        found[i] = (uint8_t)_mm256_testc_si256(_mm256_loadu_si256(block), bits_of(hash));
    }
}

AVX2 static size_t find_avx2(const uint8_t *restrict bitset, size_t num_blocks, const uint8_t *restrict hashes,
                             size_t count, uint32_t *restrict found) {
    size_t num_found = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        const __m256i *block = (const __m256i *)(bitset + block_offset(hash, num_blocks));
        if (_mm256_testc_si256(_mm256_loadu_si256(block), bits_of(hash))) {
            found[num_found++] = (uint32_t)i;
        }
    }
    return num_found;
}
#else
#define HAS_AVX2 0
#define insert_avx2 insert_plain
#define check_avx2 check_plain
#define find_avx2 find_plain
#endif

void insert_hashes(uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count) {
    if (HAS_AVX2) {
        insert_avx2(bitset, num_blocks, hashes, count);
    } else {
        insert_plain(bitset, num_blocks, hashes, count);
    }
}

void check_hashes(const uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count, uint8_t *found) {
    if (HAS_AVX2) {
        check_avx2(bitset, num_blocks, hashes, count, found);
    } else {
        check_plain(bitset, num_blocks, hashes, count, found);
    }
}

/* Few hashes are found, so that branches are cheaper than stores, and hashes come either for a small filter or sorted,
 * so that there is nothing to prefetch. */
size_t find_hashes(const uint8_t *bitset, size_t num_blocks, const uint8_t *hashes, size_t count, uint32_t *found) {
    return HAS_AVX2 ? find_avx2(bitset, num_blocks, hashes, count, found)
                    : find_plain(bitset, num_blocks, hashes, count, found);
}

/* The block of a hash in a filter half the size is half its block here, rounded down, and its bits stay: so a
 * union of neighbours holds exactly what a filter built at half the size would hold. */
MULTIVERSION void fold_bitset(const uint8_t *restrict bitset, size_t num_blocks, uint8_t *restrict folded) {
    for (size_t i = 0; i < num_blocks / 2; i++, bitset += 2 * BLOCK_BYTES, folded += BLOCK_BYTES) {
        for (int b = 0; b < BLOCK_BYTES; b++) {
            folded[b] = bitset[b] | bitset[BLOCK_BYTES + b];
        }
    }
}

MULTIVERSION void merge_bitsets(const uint8_t *restrict one, const uint8_t *restrict other, size_t num_blocks,
                                uint8_t *restrict both) {
    for (size_t b = 0; b < num_blocks * BLOCK_BYTES; b++) {
        both[b] = one[b] | other[b];
    }
}

ALWAYS_INLINE uint32_t bits_set_in(uint32_t word) {
    word -= word >> 1 & 0x55555555U;
    word = (word & 0x33333333U) + (word >> 2 & 0x33333333U);
    return ((word + (word >> 4)) & 0x0f0f0f0fU) * 0x01010101U >> 24;
}

/* An absent hash finds a word's bit set with probability popcount/32, a block's with the product of eight. The
 * product of the popcounts is at most 2^40 and so exact in an integer, as is the sum over 2^20 blocks. */
MULTIVERSION bitset_census take_census(const uint8_t *bitset, size_t num_blocks) {
    const double scale = 1.0 / (double)(UINT64_C(1) << 40);
    const size_t stretch = (size_t)1 << 20;
    bitset_census census = {0, 0.0, 0.0};
    uint64_t worst = 0;
    for (size_t start = 0; start < num_blocks; start += stretch) {
        size_t end = num_blocks - start < stretch ? num_blocks : start + stretch;
        uint64_t sum = 0;
        for (size_t i = start; i < end; i++) {
            uint64_t product = 1;
            for (int w = 0; w < WORDS_PER_BLOCK; w++) {
                uint32_t bits = bits_set_in(load_le32(bitset + i * BLOCK_BYTES + 4 * w));
                census.bits_set += bits;
                product *= bits;
            }
            sum += product;
            worst = product > worst ? product : worst;
        }
        census.rate += (double)sum * scale;
    }
    census.rate /= (double)num_blocks;
    census.worst_rate = (double)worst * scale;
    return census;
}
