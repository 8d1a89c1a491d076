/*
 * XXH64 with seed 0, from the specification of xxHash ("xxHash fast digest algorithm", section XXH64).
 *
 * A value of 32 bytes or more goes, 32 at a time, through four independent accumulators, which are then merged
 * into one; the rest goes in by 8, 4 and 1 bytes; an avalanche of shifts and multiplications ends it.
 */
#include "kernel.h"

#define P1 UINT64_C(0x9E3779B185EBCA87)
#define P2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define P3 UINT64_C(0x165667B19E3779F9)
#define P4 UINT64_C(0x85EBCA77C2B2AE63)
#define P5 UINT64_C(0x27D4EB2F165667C5)

ALWAYS_INLINE uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

ALWAYS_INLINE uint64_t round_of(uint64_t accumulator, uint64_t lane) {
    return rotate(accumulator + lane * P2, 31) * P1;
}

ALWAYS_INLINE uint64_t merge(uint64_t hash, uint64_t accumulator) {
    return (hash ^ round_of(0, accumulator)) * P1 + P4;
}

ALWAYS_INLINE uint64_t avalanche(uint64_t hash) {
    hash = (hash ^ hash >> 33) * P2;
    hash = (hash ^ hash >> 29) * P3;
    return hash ^ hash >> 32;
}

ALWAYS_INLINE uint64_t xxh64(const uint8_t *p, size_t length) {
    uint64_t hash = P5;
    size_t left = length;
    if (left >= 32) {
        uint64_t a = P1 + P2, b = P2, c = 0, d = UINT64_C(0) - P1;
        for (; left >= 32; left -= 32, p += 32) {
            a = round_of(a, load_le64(p));
            b = round_of(b, load_le64(p + 8));
            c = round_of(c, load_le64(p + 16));
            d = round_of(d, load_le64(p + 24));
        }
        hash = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
        hash = merge(merge(merge(merge(hash, a), b), c), d);
    }
    hash += length;
    for (; left >= 8; left -= 8, p += 8) {
        hash = rotate(hash ^ round_of(0, load_le64(p)), 27) * P1 + P4;
    }
    if (left >= 4) {
        hash = rotate(hash ^ load_le32(p) * P1, 23) * P2 + P3;
        left -= 4, p += 4;
    }
    for (; left > 0; left--, p++) {
        hash = rotate(hash ^ *p * P5, 11) * P1;
    }
    return avalanche(hash);
}

/* Inlined with a constant width the branches and loops of xxh64 fall away, and the compiler hashes several
 * values at a time in vector registers. */
ALWAYS_INLINE void hash_all(const uint8_t *restrict values, size_t width, size_t count,
                            uint8_t *restrict hashes) {
    for (size_t i = 0; i < count; i++) {
        store_hash(hashes, i, xxh64(values + i * width, width));
    }
}

MULTIVERSION void hash_fixed(const uint8_t *restrict values, size_t width, size_t count,
                             uint8_t *restrict hashes) {
    switch (width) {
    case 4: hash_all(values, 4, count, hashes); break;
    case 8: hash_all(values, 8, count, hashes); break;
    case 12: hash_all(values, 12, count, hashes); break; /* INT96 */
    case 16: hash_all(values, 16, count, hashes); break; /* UUID, DECIMAL(38) */
    case 32: hash_all(values, 32, count, hashes); break; /* MD5 in hexadecimal */
    case 36: hash_all(values, 36, count, hashes); break; /* UUID as text */
    default: hash_all(values, width, count, hashes);
    }
}

static int all_as_long(const uint64_t *run, size_t count) {
    uint64_t width = run[1] - run[0], differs = 0;
    for (size_t i = 1; i < count; i++) {
        differs |= (run[i + 1] - run[i]) ^ width;
    }
    return differs == 0;
}

/* Returns how many values were hashed: fewer than `count` when the offsets of the next one run backwards or past
 * the data. Offsets are in the machine's own byte order, as Arrow has them. */
size_t hash_variable(const uint8_t *offsets, size_t offset_width, const uint8_t *data, size_t data_bytes,
                     size_t count, uint8_t *hashes) {
    uint64_t run[RUN + 1];
    for (size_t done = 0; done < count;) {
        size_t wanted = count - done < RUN ? count - done : RUN;
        size_t sound = read_offsets(offsets + done * offset_width, offset_width, wanted, data_bytes, run);
        if (sound > 0 && run[1] > run[0] && all_as_long(run, sound)) {
            /* Keys are often all of one length, and then they are fixed-width values. */
            hash_fixed(data + run[0], (size_t)(run[1] - run[0]), sound, hashes + done * 8);
        } else {
            for (size_t i = 0; i < sound; i++) {
                store_hash(hashes, done + i, xxh64(data + run[i], (size_t)(run[i + 1] - run[i])));
            }
        }
        done += sound;
        if (sound < wanted) {
            return done;
        }
    }
    return count;
}
