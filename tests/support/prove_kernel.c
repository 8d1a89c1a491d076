/*
 * The kernel's filters against the definition in the Parquet format's BloomFilter.md: `prove_kernel PART PARTS STEP`.
 *
 * Compiled together with parquet_bloom/kernel/sbbf.c itself, so that its functions are the ones that are called, in
 * plain C and with AVX2. STEP 1 takes every half of a hash; a larger one takes the first and the last batch of so many.
 * `find`, which differs from `check` in what it returns, is asked of an eighth of them.
 * The last line has the number of cases and of differences.
 *
 *   lows    insert of every lower half sets the eight bits of the definition and no other; check and find then find it,
 *           and do not in blocks in which nothing but one of its bits is missing
 *   highs   with every upper half and every number of blocks that is a power of two, insert, check and find take the
 *           block of the definition: each block gets a lower half of its own, and in the end has the bits of that alone
 *   others  any number of blocks, any hash, blocks with any bits
 */
#define _GNU_SOURCE
#include "sbbf.c"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#if defined(__x86_64__)
#define FAST __attribute__((target("avx2")))
#else
#define FAST
#endif

#define BATCH 1024
#define MOST_BLOCKS (UINT64_C(67108863)) /* numBytes is an int32, and a block has 32 bytes */
#define MOST_LOG 25
#define FILTER_BYTES ((size_t)1 << 31)

/* ---- the definition ---- */

static const uint32_t salt_of_specification[8] = {0x47b6137bU, 0x44974d91U, 0x8824ad5bU, 0xa2b7289dU,
                                                  0x705495c7U, 0x2df1424bU, 0x9efc4947U, 0x5c6bfb31U};

/* mask(x): in word i the bit (x * salt[i]) >> 27. */
FAST static void define_bits(uint32_t first_low, uint32_t bits[8][BATCH]) {
    for (int word = 0; word < 8; word++) {
        for (uint32_t i = 0; i < BATCH; i++) {
            uint32_t product = (first_low + i) * salt_of_specification[word];
            bits[word][i] = product >> 27;
        }
    }
}

static void define_mask(uint32_t low, uint32_t mask[8]) {
    for (int word = 0; word < 8; word++) {
        uint32_t product = low * salt_of_specification[word];
        mask[word] = UINT32_C(1) << (product >> 27);
    }
}

/* i = ((h >> 32) * z) >> 32. */
static uint64_t define_block(uint64_t hash, uint64_t num_blocks) {
    uint64_t high = hash >> 32;
    return (high * num_blocks) >> 32; /* high < 2^32 and num_blocks < 2^26 */
}

/* ---- what is compared with it ---- */

typedef struct {
    const char *name;
    void (*insert)(uint8_t *, size_t, const uint8_t *, size_t);
    void (*check)(const uint8_t *, size_t, const uint8_t *, size_t, uint8_t *);
    size_t (*find)(const uint8_t *, size_t, const uint8_t *, size_t, uint32_t *);
} kernel_path;

static const kernel_path paths[] = {
    {"plain C", insert_plain, check_plain, find_plain},
    {"AVX2", insert_avx2, check_avx2, find_avx2},
};
static int num_paths = 2;

static uint64_t part, parts, step;
static uint64_t cases, differences;
static uint8_t *filter; /* zeros, between pages that nobody may touch */

static uint64_t hashes[BATCH];
static uint8_t found[BATCH], all[BATCH], none[BATCH];
static uint32_t numbers[BATCH], in_order[BATCH];
#define HASHES ((const uint8_t *)hashes)

static void differ(uint64_t count, const char *what, const char *path, uint64_t hash, uint64_t num_blocks) {
    if (count > 0 && differences == 0) {
        fprintf(stderr, "%s of %s, %s: near hash %016llx, %llu blocks\n", path, what, count > 1 ? "and more" : "once",
                (unsigned long long)hash, (unsigned long long)num_blocks);
    }
    differences += count;
}

static void expect_found(const kernel_path *path, const uint8_t *bitset, uint64_t num_blocks, int asks_find) {
    path->check(bitset, num_blocks, HASHES, BATCH, found);
    differ(memcmp(found, all, sizeof all) != 0, "check", path->name, hashes[0], num_blocks);
    cases += BATCH;
    if (!asks_find) {
        return;
    }
    size_t count = path->find(bitset, num_blocks, HASHES, BATCH, numbers);
    differ(count != BATCH || memcmp(numbers, in_order, sizeof in_order) != 0, "find", path->name, hashes[0], num_blocks);
    cases += BATCH;
}

static void expect_absent(const kernel_path *path, const uint8_t *bitset, uint64_t num_blocks, int asks_find) {
    path->check(bitset, num_blocks, HASHES, BATCH, found);
    differ(memcmp(found, none, sizeof none) != 0, "check of an absent hash", path->name, hashes[0], num_blocks);
    cases += BATCH;
    if (asks_find) {
        size_t count = path->find(bitset, num_blocks, HASHES, BATCH, numbers);
        differ(count != 0, "find of an absent hash", path->name, hashes[0], num_blocks);
        cases += BATCH;
    }
}

static int is_taken(uint64_t batch) { return batch % step == 0 || batch % step == step - 1; }

static int asks_find(uint64_t batch) { return batch % 16 == 0 || batch % 16 == 15; }

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void report(const char *where) {
    static double last;
    double now = seconds(CLOCK_MONOTONIC);
    if (now - last >= 20) {
        fprintf(stderr, "process %llu: %s, %llu million cases, %.0f s of processor time\n", (unsigned long long)part + 1,
                where, (unsigned long long)(cases / 1000000), seconds(CLOCK_PROCESS_CPUTIME_ID));
        last = now;
    }
}

/* ---- every lower half ---- */

FAST static void fill_lows(uint32_t first_low) { /* hash i for block i of BATCH blocks */
    for (uint64_t i = 0; i < BATCH; i++) {
        hashes[i] = (i * (UINT64_C(0x100000000) / BATCH)) << 32 | (uint32_t)(first_low + (uint32_t)i);
    }
}

FAST static void fill_lacking(uint32_t first_low, const uint32_t bits[BATCH], uint64_t word) {
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t block = word * 32 + bits[i]; /* of 256 */
        hashes[i] = block << 56 | (uint32_t)(first_low + (uint32_t)i);
    }
}

FAST static void write_masks(uint32_t bits[8][BATCH], uint32_t masks[BATCH][8]) {
    for (int i = 0; i < BATCH; i++) {
        for (int word = 0; word < 8; word++) {
            masks[i][word] = UINT32_C(1) << bits[word][i];
        }
    }
}

static void prove_lows(void) {
    static uint32_t bits[8][BATCH], masks[BATCH][8], built[BATCH][8], lacking[256][8];
    memset(lacking, 0xff, sizeof lacking);
    for (int block = 0; block < 256; block++) { /* all bits but bit `block % 32` of word `block / 32` */
        lacking[block][block / 32] = ~(UINT32_C(1) << block % 32);
    }
    const uint64_t batches = (UINT64_C(1) << 32) / BATCH;
    for (uint64_t batch = batches / parts * part; batch < batches / parts * (part + 1); batch++) {
        if (!is_taken(batch)) {
            continue;
        }
        uint32_t low = (uint32_t)(batch * BATCH);
        define_bits(low, bits);
        write_masks(bits, masks);
        for (int p = 0; p < num_paths; p++) {
            const kernel_path *path = &paths[p];
            fill_lows(low);
            memset(built, 0, sizeof built);
            path->insert((uint8_t *)built, BATCH, HASHES, BATCH);
            differ(memcmp(built, masks, sizeof masks) != 0, "insert", path->name, hashes[0], BATCH);
            cases += BATCH;
            expect_found(path, (const uint8_t *)built, BATCH, asks_find(batch));
            for (uint64_t word = 0; word < 8; word++) {
                fill_lacking(low, bits[word], word);
                expect_absent(path, (const uint8_t *)lacking, 256, asks_find(batch));
            }
        }
        report("lower halves");
    }
}

/* ---- every upper half, every power of two ---- */

/* The lower half of block b is b. No two of them have the same mask: for each difference of two there is a word in
 * which the products are at least 2^27 apart, in either direction, and so have other bits. */
static void prove_masks_differ(void) {
    for (uint32_t d = 1; d < UINT32_C(1) << MOST_LOG; d++) {
        int apart = 0;
        for (int word = 0; word < 8; word++) {
            uint32_t product = d * salt_of_specification[word];
            apart |= product >= UINT32_C(1) << 27 && product <= UINT32_MAX - (UINT32_C(1) << 27) + 1;
        }
        if (!apart) {
            fprintf(stderr, "lower halves %u apart may have the same mask\n", d);
            exit(2);
        }
    }
}

/* A batch has 64 upper halves from each sixteenth of them, in turn: neighbours, which have the same block, would wait
 * for each other. */
#define RUNS 16
#define RUN_LENGTH (BATCH / RUNS)

static uint64_t high_of(uint64_t batch, uint64_t run, uint64_t i) {
    return run * (UINT64_C(0x100000000) / RUNS) + batch * RUN_LENGTH + i;
}

FAST static void fill_highs(uint64_t batch, uint64_t num_blocks) {
    for (uint64_t i = 0; i < BATCH; i++) {
        uint64_t high = high_of(batch, i % RUNS, i / RUNS);
        hashes[i] = high << 32 | define_block(high << 32, num_blocks);
    }
}

/* The filter's blocks that batches reached have the mask of their own number, all others nothing. */
static void expect_masks(const kernel_path *path, uint64_t num_blocks, uint64_t from, uint64_t to) {
    static uint8_t is_reached[(size_t)1 << MOST_LOG];
    memset(is_reached, 0, num_blocks);
    for (uint64_t batch = from; batch < to; batch++) {
        for (uint64_t run = 0; is_taken(batch) && run < RUNS; run++) {
            uint64_t last = define_block(high_of(batch, run, RUN_LENGTH - 1) << 32, num_blocks);
            for (uint64_t b = define_block(high_of(batch, run, 0) << 32, num_blocks); b <= last; b++) {
                is_reached[b] = 1;
            }
        }
    }
    for (uint64_t b = 0; b < num_blocks; b++) {
        uint32_t mask[8] = {0};
        if (is_reached[b]) {
            define_mask((uint32_t)b, mask);
        }
        differ(memcmp(filter + b * 32, mask, sizeof mask) != 0, "insert", path->name, b, num_blocks);
    }
}

static void prove_highs(uint64_t num_blocks) {
    const uint64_t batches = (UINT64_C(1) << 32) / BATCH, from = batches / parts * part, to = from + batches / parts;
    char where[32];
    snprintf(where, sizeof where, "%llu blocks", (unsigned long long)num_blocks);
    for (int p = 0; p < num_paths; p++) {
        const kernel_path *path = &paths[p];
        for (uint64_t batch = from; batch < to; batch++) {
            if (!is_taken(batch)) {
                continue;
            }
            fill_highs(batch, num_blocks);
            path->insert(filter, num_blocks, HASHES, BATCH);
            cases += BATCH;
            expect_found(path, filter, num_blocks, asks_find(batch));
            if (batch % 4096 == 0) {
                report(where);
            }
        }
        expect_masks(path, num_blocks, from, to);
        madvise(filter, FILTER_BYTES, MADV_DONTNEED); /* zeros again */
    }
}

/* ---- others ---- */

static uint64_t next_random(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void prove_others(uint64_t count) {
    uint64_t random = part;
    for (uint64_t n = 0; n < count; n++) {
        uint64_t hash = next_random(&random), num_blocks = 1 + (next_random(&random) >> next_random(&random) % 26) % MOST_BLOCKS;
        uint8_t *block = filter + 32 * (uint64_t)((unsigned __int128)(hash >> 32) * num_blocks / ((unsigned __int128)1 << 32));
        uint32_t mask[8], any[8], both[8];
        int is_in = 1;
        define_mask((uint32_t)hash, mask);
        for (int word = 0; word < 8; word++) {
            any[word] = (uint32_t)(next_random(&random) | next_random(&random) | next_random(&random) | next_random(&random));
            is_in &= (any[word] & mask[word]) != 0;
            both[word] = any[word] | mask[word];
        }
        for (int p = 0; p <= num_paths; p++) {
            static const kernel_path chosen = {"the chosen path", insert_hashes, check_hashes, find_hashes};
            const kernel_path *path = p < num_paths ? &paths[p] : &chosen;
            uint8_t is_found = 2;
            memcpy(block, any, sizeof any);
            path->check(filter, num_blocks, (const uint8_t *)&hash, 1, &is_found);
            differ(is_found != is_in, "check", path->name, hash, num_blocks);
            differ(path->find(filter, num_blocks, (const uint8_t *)&hash, 1, numbers) != (size_t)is_in, "find", path->name,
                   hash, num_blocks);
            path->insert(filter, num_blocks, (const uint8_t *)&hash, 1);
            differ(memcmp(block, both, sizeof both) != 0, "insert", path->name, hash, num_blocks);
            path->check(filter, num_blocks, (const uint8_t *)&hash, 1, &is_found);
            differ(is_found != 1, "check", path->name, hash, num_blocks);
            memset(block, 0, 32);
            cases += 4;
        }
        if (n % 10000 == 9999) {
            madvise(filter, FILTER_BYTES, MADV_DONTNEED);
            report("others");
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        return 2;
    }
    part = strtoull(argv[1], NULL, 10), parts = strtoull(argv[2], NULL, 10), step = strtoull(argv[3], NULL, 10);
    num_paths = HAS_AVX2 ? 2 : 1;
    memset(all, 1, sizeof all);
    for (uint32_t i = 0; i < BATCH; i++) {
        in_order[i] = i;
    }
    const size_t guard = (size_t)1 << 20;
    uint8_t *room = mmap(NULL, FILTER_BYTES + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    filter = room + guard;
    if (room == MAP_FAILED || mprotect(filter, FILTER_BYTES, PROT_READ | PROT_WRITE) != 0) {
        perror("no room for a filter");
        return 2;
    }
    prove_masks_differ();
    prove_lows();
    for (int log = 0; log <= MOST_LOG; log++) {
        prove_highs(UINT64_C(1) << log);
    }
    prove_others(step == 1 ? 1000000 / parts : 20000);
    printf("%llu %llu %.2f of %s\n", (unsigned long long)cases, (unsigned long long)differences,
           seconds(CLOCK_PROCESS_CPUTIME_ID), num_paths == 2 ? "plain C and AVX2" : "plain C");
    return differences != 0;
}
