/*
 * The offsets of values of any length, as Arrow has them, checked before they are used.
 */
#include "kernel.h"

/* Copies the offsets of `count` values (one more than that) to `run`, whatever their width, and returns how many
 * of the values lie inside the data. What is checked is the copy, so what is used has been checked even if
 * somebody writes to the buffer meanwhile. */
size_t read_offsets(const uint8_t *offsets, size_t offset_width, size_t count, size_t data_bytes,
                    uint64_t run[RUN + 1]) {
    for (size_t i = 0; i <= count; i++) {
        /* A negative offset becomes a huge one, which is past the end. */
        if (offset_width == 4) {
            int32_t offset;
            memcpy(&offset, offsets + i * 4, 4);
            run[i] = (uint64_t)(int64_t)offset;
        } else {
            memcpy(&run[i], offsets + i * 8, 8);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (run[i] > run[i + 1] || run[i + 1] > data_bytes) {
            return i;
        }
    }
    return count;
}
