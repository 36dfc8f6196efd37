// Rows as they lie in memory, turned so that lanes are rows, and back.
#pragma once
#include "lanes.hpp"

namespace transom {

// to[d][ROWS] = factor · from[count][d]; the lanes of rows that are not there are 0.
static void pack(const float* from, int64_t stride, int64_t d, int count, float factor, float* to) {
    static const float nothing[W] = {};
    for (int v = 0; v * W < count; v++)
        for (int64_t k = 0; k < d; k += W) {
            Lanes row[W];
            if (k + W <= d) {
#pragma GCC unroll 16
                for (int i = 0; i < W; i++)
                    row[i] = load(v * W + i < count ? from + (v * W + i) * stride + k : nothing) * factor;
            } else {
                for (int i = 0; i < W; i++)
                    row[i] = v * W + i < count ? load_few(from + (v * W + i) * stride + k, d - k) * factor : Lanes{};
            }
            transpose(row);
#pragma GCC unroll 16
            for (int i = 0; i < W; i++)
                if (k + i < d) store(to + (k + i) * ROWS + v * W, row[i]);
        }
}

// to[count][d] = factor of each row · from[d][ROWS].
static void unpack(const float* from, int64_t d, int count, const float* factor, float* to, int64_t stride) {
    for (int v = 0; v * W < count; v++) {
        Lanes by = load(factor + v * W);
        for (int64_t k = 0; k < d; k += W) {
            Lanes row[W];
#pragma GCC unroll 16
            for (int i = 0; i < W; i++) row[i] = load(from + (k + i < d ? k + i : k) * ROWS + v * W) * by;
            transpose(row);
#pragma GCC unroll 16
            for (int i = 0; i < W; i++)
                if (v * W + i < count) store_few(to + (v * W + i) * stride + k, row[i], d - k);
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
