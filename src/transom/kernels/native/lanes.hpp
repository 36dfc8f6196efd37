// Many numbers at once: the widest vector this file is compiled for, and the few things done with it.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace transom {

#if defined(__AVX512F__)
constexpr int W = 16;  // numbers in one vector
constexpr int TILE = 8;  // rows of a product kept in registers: TILE × VECTORS sums, VECTORS + 1 more registers
#elif defined(__AVX2__)
constexpr int W = 8;
constexpr int TILE = 4;
#else
constexpr int W = 4;
constexpr int TILE = 4;
#endif
constexpr int VECTORS = 3;  // vectors of queries in one block
constexpr int ROWS = VECTORS * W;  // queries in one block

typedef float Lanes __attribute__((vector_size(4 * W)));
typedef int32_t Ints __attribute__((vector_size(4 * W)));
typedef uint32_t Bits __attribute__((vector_size(4 * W)));

constexpr float LOG2_E = 1.44269504088896341f;
constexpr double LN_2 = 0.693147180559945309;
constexpr double PER_LN_2 = 1 / LN_2;
constexpr float NEVER = -__builtin_inff();  // the score of a key that a row may not look at

#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

INLINE Lanes all(float x) { return x - Lanes{}; }
INLINE Ints all_ints(int32_t x) { return x - Ints{}; }

INLINE Lanes load(const float* from) {
    Lanes x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store(float* to, Lanes x) { memcpy(to, &x, sizeof x); }

// The first `count` numbers, zeros after them; reads no further than that.
INLINE Lanes load_few(const float* from, int64_t count) {
    if (count >= W) return load(from);
    Lanes x{};
    if (count > 0) memcpy(&x, from, sizeof(float) * count);
    return x;
}

INLINE void store_few(float* to, Lanes x, int64_t count) {
    if (count >= W) return store(to, x);
    if (count > 0) memcpy(to, &x, sizeof(float) * count);
}

// 0, 1, 2, …
template <int... I>
INLINE Ints counted(std::integer_sequence<int, I...>) {
    return Ints{I...};
}
INLINE Ints lane_numbers() { return counted(std::make_integer_sequence<int, W>{}); }

// The larger of both; a NaN in b stays, a NaN in a gives b.
#if defined(__AVX512F__)
INLINE Lanes larger(Lanes a, Lanes b) { return (Lanes)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE Lanes smaller(Lanes a, Lanes b) { return (Lanes)_mm512_min_ps((__m512)a, (__m512)b); }
#else
INLINE Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
INLINE Lanes smaller(Lanes a, Lanes b) { return a < b ? a : b; }
#endif
INLINE Lanes at_least(Lanes x, float bound) { return larger(all(bound), x); }

INLINE Lanes choose(Ints mask, Lanes yes, Lanes no) { return mask ? yes : no; }

INLINE Lanes as_lanes(Ints x) { return (Lanes)x; }
INLINE Ints as_ints(Lanes x) { return (Ints)x; }
INLINE Lanes absolute(Lanes x) { return as_lanes(as_ints(x) & 0x7fffffff); }

// One bit per lane, set where a > b.
INLINE uint32_t above(Lanes a, Lanes b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)(a > b));
#else
    Ints mask = a > b;
    uint32_t found = 0;
    for (int i = 0; i < W; i++) found |= (mask[i] & 1u) << i;
    return found;
#endif
}

// 2 to the power of t, for t ≤ 127: exactly 0 for t below −126 and for −∞; NaN stays NaN.
INLINE Lanes exp2(Lanes t) {
#if defined(__AVX512F__)
    t = at_least(t, -1e30f);  // −∞ less its own rounding would be NaN
    Lanes whole = (Lanes)_mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    t = at_least(t, -127.0f);
    const Lanes rounder = all(12582912.0f);  // 1.5 · 2²³: what is added to it loses its fraction
    Lanes shifted = t + rounder;
    Lanes whole = shifted - rounder;
#endif
    Lanes r = t - whole;  // in [−½, ½]; minimax polynomial of 2^r, relative error 2e-9
    Lanes p = all(1.534581200e-04f);
    p = p * r + 1.339993122e-03f;
    p = p * r + 9.618488957e-03f;
    p = p * r + 5.550328777e-02f;
    p = p * r + 2.402264689e-01f;
    p = p * r + 6.931472057e-01f;
    p = p * r + 1.0f;
#if defined(__AVX512F__)
    return (Lanes)_mm512_scalef_ps((__m512)p, (__m512)whole);
#else
    Ints exponent = (as_ints(shifted) - as_ints(rounder) + 127) << 23;
    return p * as_lanes(exponent);
#endif
}

// The natural logarithm of positive numbers that are not denormal (after Cephes' logf); relative error 1e-7.
INLINE Lanes log(Lanes x) {
    Ints bits = as_ints(x) - 0x3f3504f3;  // √½: what is left of x lies between it and √2
    Lanes exponent = __builtin_convertvector(bits >> 23, Lanes);
    Lanes r = as_lanes((bits & 0x007fffff) + 0x3f3504f3) - 1.0f, square = r * r;
    Lanes p = all(7.0376836292e-2f);
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    Lanes rest = p * r * square - 2.12194440e-4f * exponent - 0.5f * square;
    return choose(x == x, 0.693359375f * exponent + (r + rest), x);
}

// tanh: a polynomial near 0, where (e − 1) / (e + 1) would lose digits (after Cephes' tanhf).
INLINE Lanes tanh(Lanes x) {
    Lanes size = absolute(x), square = x * x;
    Lanes p = all(-5.70498872745e-3f);
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    Lanes near = p * square * x + x;
    Lanes grown = exp2(smaller(size * (2.0f * LOG2_E), all(60.0f)));
    Lanes far = 1.0f - 2.0f / (grown + 1.0f);
    far = as_lanes(as_ints(far) | (as_ints(x) & INT32_MIN));
    Lanes found = choose(size < 0.625f, near, far);
    return choose(x == x, found, x);
}

}  // namespace transom
