// Rows as they lie in memory, turned so that lanes are rows, and back.
#pragma once
#include <cmath>

#include "sources.hpp"
#include "transpose.hpp"

namespace transom {

// A factor in two parts, so that its own rounding does not go into every score. Both have the same sign and neither is
// 0: infinity times one of them, plus infinity times the other, is infinity.
struct Factor {
    float high, low;

    explicit Factor(double exact) : high((float)exact) {
        if (std::fabs(high) >= std::fabs(exact)) high = std::nextafter(high, 0.0f);
        low = (float)(exact - high);
    }

    INLINE_MEMBER Lanes of(Lanes x) const {
        Lanes rest = x * low;
        return x * high + rest;
    }
};

struct Unchanged {
    INLINE_MEMBER Lanes of(Lanes x) const { return x; }
};

// W rows of W numbers as lanes; `whole` where all of them are there.
template <bool whole, class By>
INLINE void pack_tile(const float* from, int64_t stride, int64_t d, int64_t count, const By& factor, float* to) {
    Lanes row[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        row[i] =
            whole || i < count ? factor.of(whole ? load(from + i * stride) : load_few(from + i * stride, d)) : Lanes{};
    transpose(row);
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        if (whole || i < d) store(to + i * ROWS, row[i]);
}

// to[d][ROWS] = factor · from[count][d]; the lanes of rows that are not there are 0.
template <class By>
static void pack(const Matrix& from, int64_t d, int count, const By& factor, float* to) {
    for (int v = 0; v < count; v += W)
        for (int64_t k = 0; k < d; k += W) {
            const float* at = from.at + v * from.stride + k;
            if (v + W <= count && k + W <= d)
                pack_tile<true>(at, from.stride, W, W, factor, to + k * ROWS + v);
            else
                pack_tile<false>(at, from.stride, d - k, count - v, factor, to + k * ROWS + v);
        }
}

// W rows of W numbers, back from lanes.
template <bool whole>
INLINE void unpack_tile(const float* from, int64_t d, int64_t count, Lanes factor, float* to, int64_t stride) {
    Lanes row[W];
#pragma GCC unroll 16
    for (int i = 0; i < W; i++) row[i] = whole || i < d ? load(from + i * ROWS) * factor : Lanes{};
    transpose(row);
#pragma GCC unroll 16
    for (int i = 0; i < W; i++)
        if (whole || i < count) store_few(to + i * stride, row[i], whole ? W : d);
}

// to[count][d] = factor of each row · from[d][ROWS].
static void unpack(const float* from, int64_t d, int count, const float* factor, float* to, int64_t stride) {
    for (int v = 0; v < count; v += W)
        for (int64_t k = 0; k < d; k += W) {
            const float* at = from + k * ROWS + v;
            if (v + W <= count && k + W <= d)
                unpack_tile<true>(at, W, W, load(factor + v), to + v * stride + k, stride);
            else
                unpack_tile<false>(at, d - k, count - v, load(factor + v), to + v * stride + k, stride);
        }
}

// Whether any of the [d][ROWS] numbers of these rows is NaN or infinite; lanes of rows that are not there count too.
static bool any_wild(const float* numbers, int64_t d, int count) {
    Lanes check{};
    for (int v = 0; v < count; v += W)
        for (int64_t k = 0; k < d; k++) check += load(numbers + k * ROWS + v) * 0.0f;
    Lanes none = choose(check == 0.0f, Lanes{}, all(1.0f));
    return above(none, Lanes{}) != 0;
}

INLINE void raise_flag(int32_t* flag) { __atomic_store_n(flag, 1, __ATOMIC_RELAXED); }

}  // namespace transom
