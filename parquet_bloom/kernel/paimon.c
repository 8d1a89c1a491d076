/*
 * Paimon's bloom filter over 64-bit hashes, and the hash that it has for numbers.
 *
 * A hash sets k bits: number i = 1 ... k is low + i * high, the hash's two halves, in 32 bits that wrap around; where
 * that is negative as a signed number, all its bits are inverted; modulo m. Bit p is bit p % 8, counted from the lowest,
 * of byte p / 8.
 *
 * Numbers are hashed by Thomas Wang's 64-bit function with shifts to the right that keep the sign.
 */
#include "kernel.h"

/* A signed shift, which C leaves to the compiler. */
ALWAYS_INLINE uint64_t shifted(uint64_t value, int by) {
    return value >> by | (UINT64_C(0) - (value >> 63)) << (64 - by);
}

ALWAYS_INLINE uint64_t wang64(uint64_t value) {
    value = ~value + (value << 21);
    value ^= shifted(value, 24);
    value *= 265;
    value ^= shifted(value, 14);
    value *= 21;
    value ^= shifted(value, 28);
    return value + (value << 31);
}

MULTIVERSION void hash_wang64(const uint8_t *values, size_t count, uint8_t *hashes) {
    for (size_t i = 0; i < count; i++) {
        store_hash(hashes, i, wang64(load_hash(values, i)));
    }
}

/* The place that comes after `at`, which is advanced. */
ALWAYS_INLINE uint32_t next_place(uint32_t *at, uint32_t high, uint32_t num_bits) {
    *at += high;
    return (*at & UINT32_C(0x80000000) ? ~*at : *at) % num_bits;
}

void paimon_insert(uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *hashes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        uint32_t at = (uint32_t)hash, high = (uint32_t)(hash >> 32);
        for (uint32_t n = 0; n < num_hashes; n++) {
            uint32_t place = next_place(&at, high, num_bits);
            bits[place / 8] = (uint8_t)(bits[place / 8] | 1 << place % 8);
        }
    }
}

void paimon_check(const uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *hashes, size_t count,
                  uint8_t *found) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = load_hash(hashes, i);
        uint32_t at = (uint32_t)hash, high = (uint32_t)(hash >> 32);
        uint8_t is_set = 1;
        for (uint32_t n = 0; n < num_hashes && is_set; n++) {
            uint32_t place = next_place(&at, high, num_bits);
            is_set = bits[place / 8] >> place % 8 & 1;
        }
        found[i] = is_set;
    }
}
