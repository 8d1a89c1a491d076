/*
 * Hadoop's bloom filter with its Murmur hash: the record-key filters of Hudi.
 *
 * The hash is MurmurHash2 with a tail of its own: the last one to three bytes are sign-extended and combined the
 * last one lowest, where the original has them unsigned and the first one lowest. A key has k positions, and the
 * hash of each is the seed of the next: |hash i| mod m, the hash taken as a signed number. Bit p is bit p % 8,
 * counted from the lowest, of byte p / 8.
 */
#include "kernel.h"

#define M UINT32_C(0x5BD1E995)

/* What a key's groups of four bytes contribute does not depend on the seed, so it is computed once for all of the
 * key's hashes, as long as it fits here. */
#define MOST_GROUPS 64

ALWAYS_INLINE uint32_t mixed(uint32_t group) {
    group *= M;
    group ^= group >> 24;
    return group * M;
}

typedef struct {
    const uint8_t *key;
    uint32_t length; /* modulo 2^32, as is all of the hash */
    size_t groups, held;
    uint32_t tail;
    int has_tail;
    uint32_t mixed[MOST_GROUPS];
} hadoop_key;

static void prepare(hadoop_key *prepared, const uint8_t *key, size_t length) {
    size_t groups = length / 4, tail = length % 4;
    prepared->key = key;
    prepared->length = (uint32_t)length;
    prepared->groups = groups;
    prepared->held = groups < MOST_GROUPS ? groups : MOST_GROUPS;
    for (size_t i = 0; i < prepared->held; i++) {
        prepared->mixed[i] = mixed(load_le32(key + 4 * i));
    }
    prepared->has_tail = tail > 0;
    prepared->tail = 0;
    for (size_t i = 0; i < tail; i++) {
        uint32_t byte = key[4 * groups + i];
        byte |= byte & 0x80 ? UINT32_C(0xFFFFFF00) : 0;
        prepared->tail ^= byte << 8 * (tail - 1 - i);
    }
}

ALWAYS_INLINE uint32_t hadoop_murmur(const hadoop_key *prepared, uint32_t seed) {
    uint32_t hash = seed ^ prepared->length;
    for (size_t i = 0; i < prepared->held; i++) {
        hash = hash * M ^ prepared->mixed[i];
    }
    for (size_t i = prepared->held; i < prepared->groups; i++) {
        hash = hash * M ^ mixed(load_le32(prepared->key + 4 * i));
    }
    if (prepared->has_tail) {
        hash = (hash ^ prepared->tail) * M;
    }
    hash = (hash ^ hash >> 13) * M;
    return hash ^ hash >> 15;
}

ALWAYS_INLINE uint32_t position(uint32_t hash, uint32_t num_bits) {
    return (hash & UINT32_C(0x80000000) ? UINT32_C(0) - hash : hash) % num_bits;
}

/* Both return how many keys were dealt with: fewer than `count` when the offsets of the next one run backwards or
 * past the data. */
size_t hadoop_insert(uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *offsets,
                     size_t offset_width, const uint8_t *data, size_t data_bytes, size_t count) {
    uint64_t run[RUN + 1];
    hadoop_key key;
    for (size_t done = 0; done < count;) {
        size_t wanted = count - done < RUN ? count - done : RUN;
        size_t sound = read_offsets(offsets + done * offset_width, offset_width, wanted, data_bytes, run);
        for (size_t i = 0; i < sound; i++) {
            uint32_t hash = 0;
            prepare(&key, data + run[i], (size_t)(run[i + 1] - run[i]));
            for (uint32_t n = 0; n < num_hashes; n++) {
                uint32_t at;
                hash = hadoop_murmur(&key, hash);
                at = position(hash, num_bits);
                bits[at / 8] = (uint8_t)(bits[at / 8] | 1 << at % 8);
            }
        }
        done += sound;
        if (sound < wanted) {
            return done;
        }
    }
    return count;
}

size_t hadoop_check(const uint8_t *bits, uint32_t num_bits, uint32_t num_hashes, const uint8_t *offsets,
                    size_t offset_width, const uint8_t *data, size_t data_bytes, size_t count, uint8_t *found) {
    uint64_t run[RUN + 1];
    hadoop_key key;
    for (size_t done = 0; done < count;) {
        size_t wanted = count - done < RUN ? count - done : RUN;
        size_t sound = read_offsets(offsets + done * offset_width, offset_width, wanted, data_bytes, run);
        for (size_t i = 0; i < sound; i++) {
            uint32_t hash = 0;
            uint8_t is_set = 1;
            prepare(&key, data + run[i], (size_t)(run[i + 1] - run[i]));
            for (uint32_t n = 0; n < num_hashes && is_set; n++) {
                uint32_t at;
                hash = hadoop_murmur(&key, hash);
                at = position(hash, num_bits);
                is_set = bits[at / 8] >> at % 8 & 1;
            }
            found[done + i] = is_set;
        }
        done += sound;
        if (sound < wanted) {
            return done;
        }
    }
    return count;
}
