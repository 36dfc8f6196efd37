// Rows as they lie in memory, turned so that lanes are rows, and back.
#pragma once
#include "lanes.hpp"

namespace transom {

// to[d][ROWS] = factor · from[count][d]; the lanes of rows that are not there are 0.
static void pack(const float* from, int64_t stride, int64_t d, int count, float factor, float* to) {
    for (int v = 0; v * W < count; v++)
        for (int64_t k = 0; k < d; k += W) {
            Lanes row[W];
            for (int i = 0; i < W; i++) {
                int at = v * W + i;
                row[i] = at < count ? load_few(from + at * stride + k, d - k) * factor : Lanes{};
            }
            transpose(row);
            for (int i = 0; i < W && k + i < d; i++) store(to + (k + i) * ROWS + v * W, row[i]);
        }
}

// to[count][d] = factor of each row · from[d][ROWS].
static void unpack(const float* from, int64_t d, int count, const float* factor, float* to, int64_t stride) {
    for (int v = 0; v * W < count; v++) {
        Lanes by = load(factor + v * W);
        for (int64_t k = 0; k < d; k += W) {
            Lanes row[W];
            for (int i = 0; i < W; i++) row[i] = k + i < d ? load(from + (k + i) * ROWS + v * W) * by : Lanes{};
            transpose(row);
            for (int i = 0; i < W && v * W + i < count; i++)
                store_few(to + (v * W + i) * stride + k, row[i], d - k);
        }
    }
}

// Whether any of the [d][ROWS] numbers of these rows is NaN or infinite.
static bool any_wild(const float* numbers, int64_t d, int count) {
    for (int v = 0; v * W < count; v++) {
        Lanes check{};
        for (int64_t k = 0; k < d; k++) check += load(numbers + k * ROWS + v * W) * 0.0f;
        for (int i = 0; i < W && v * W + i < count; i++)
            if (check[i] != 0.0f) return true;
    }
    return false;
}

INLINE void raise_flag(int32_t* flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }

}  // namespace transom
