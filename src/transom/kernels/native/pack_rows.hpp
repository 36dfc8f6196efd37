// Rows from memory packed so that lanes are rows, and back.
#pragma once
#include <cmath>

#include "input_rows.hpp"
#include "transpose.hpp"

namespace transom {

// A factor as high + low, so that its rounding error does not enter every score. Both parts have the same sign and
// neither is 0: infinity times one plus infinity times the other is infinity, not NaN.
struct SplitFactor {
    float high, low;

    explicit SplitFactor(double exact) : high((float)exact) {
        if (std::fabs(high) >= std::fabs(exact)) high = std::nextafter(high, 0.0f);
        low = (float)(exact - high);
    }

    INLINE_MEMBER Floats apply(Floats x) const {
        Floats rest = x * low;
        return x * high + rest;
    }
};

struct UnitFactor {
    INLINE_MEMBER Floats apply(Floats x) const { return x; }
};

// Pack W rows of W numbers; `full` if all of them exist.
template <bool full, class Scale>
INLINE void pack_tile(const float* from, int64_t stride, int64_t d, int64_t count, const Scale& factor, float* to) {
    Floats row[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        row[i] = full || i < count ? factor.apply(full ? load(from + i * stride) : load_partial(from + i * stride, d))
                                   : Floats{};
    transpose(row);
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        if (full || i < d) store(to + i * ROW_BLOCK, row[i]);
}

// to[d][ROW_BLOCK] = factor · from[count][d]; the lanes of rows past the end are 0.
template <class Scale>
static void pack_rows(const FloatRows& from, int64_t d, int count, const Scale& factor, float* to) {
    for (int v = 0; v < count; v += W)
        for (int64_t k = 0; k < d; k += W) {
            const float* at = from.data + v * from.stride + k;
            if (v + W <= count && k + W <= d)
                pack_tile<true>(at, from.stride, W, W, factor, to + k * ROW_BLOCK + v);
            else
                pack_tile<false>(at, from.stride, d - k, count - v, factor, to + k * ROW_BLOCK + v);
        }
}

// Unpack W rows of W numbers.
template <bool full>
INLINE void unpack_tile(const float* from, int64_t d, int64_t count, Floats factor, float* to, int64_t stride) {
    Floats row[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; i++) row[i] = full || i < d ? load(from + i * ROW_BLOCK) * factor : Floats{};
    transpose(row);
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        if (full || i < count) store_partial(to + i * stride, row[i], full ? W : d);
}

// to[count][d] = the row's factor · from[d][ROW_BLOCK].
static void unpack_rows(const float* from, int64_t d, int count, const float* factor, float* to, int64_t stride) {
    for (int v = 0; v < count; v += W)
        for (int64_t k = 0; k < d; k += W) {
            const float* at = from + k * ROW_BLOCK + v;
            if (v + W <= count && k + W <= d)
                unpack_tile<true>(at, W, W, load(factor + v), to + v * stride + k, stride);
            else
                unpack_tile<false>(at, d - k, count - v, load(factor + v), to + v * stride + k, stride);
        }
}

// Whether any of numbers[d][ROW_BLOCK] is NaN or infinite; lanes of rows past the end count too.
static bool any_nonfinite(const float* numbers, int64_t d, int count) {
    Floats check{};
    for (int v = 0; v < count; v += W)
        for (int64_t k = 0; k < d; k++) check += load(numbers + k * ROW_BLOCK + v) * 0.0f;
    Floats flags = select(check == 0.0f, Floats{}, broadcast(1.0f));
    return greater_mask(flags, Floats{}) != 0;
}

INLINE void set_flag(int32_t* flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }

}  // namespace transom
