// SIMD vectors: the widest that the compiler flags allow, and the few operations that the kernels need.
#pragma once
#include <cstdint>
#include <cstring>
#include <utility>
#if defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

namespace transom {

#if defined(__AVX512F__)
constexpr int W = 16;  // floats in one vector
constexpr int TILE_ROWS = 8;  // TILE_ROWS × ROW_VECTORS sums stay in registers, beside ROW_VECTORS + 1 others
#elif defined(__AVX2__)
constexpr int W = 8;
constexpr int TILE_ROWS = 4;
#else
constexpr int W = 4;
constexpr int TILE_ROWS = 4;
#endif
constexpr int ROW_VECTORS = 3;  // vectors of queries in one row block
constexpr int ROW_BLOCK = ROW_VECTORS * W;  // queries in one row block

typedef float Floats __attribute__((vector_size(4 * W)));
typedef int32_t Ints __attribute__((vector_size(4 * W)));
typedef uint32_t UInts __attribute__((vector_size(4 * W)));

constexpr float LOG2_E = 1.44269504088896341f;
constexpr double LN_2 = 0.693147180559945309;
constexpr double LOG2_E_F64 = 1 / LN_2;  // log₂e in double precision
constexpr float NEG_INF = -__builtin_inff();  // a masked score

#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

INLINE Floats broadcast(float x) { return x - Floats{}; }
INLINE Ints broadcast_int(int32_t x) { return x - Ints{}; }

INLINE Floats load(const float* from) {
    Floats x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store(float* to, Floats x) { memcpy(to, &x, sizeof x); }

// The first `count` floats, then zeros; reads no further than that.
INLINE Floats load_partial(const float* from, int64_t count) {
    if (count >= W) return load(from);
    Floats x{};
    if (count > 0) memcpy(&x, from, sizeof(float) * count);
    return x;
}

INLINE void store_partial(float* to, Floats x, int64_t count) {
    if (count >= W) return store(to, x);
    if (count > 0) memcpy(to, &x, sizeof(float) * count);
}

// 0, 1, 2, …
template <int... I>
INLINE Ints iota(std::integer_sequence<int, I...>) {
    return Ints{I...};
}
INLINE Ints lane_index() { return iota(std::make_integer_sequence<int, W>{}); }

// If one of the two is NaN, the result is b.
#if defined(__AVX512F__)
INLINE Floats maximum(Floats a, Floats b) { return (Floats)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE Floats minimum(Floats a, Floats b) { return (Floats)_mm512_min_ps((__m512)a, (__m512)b); }
#else
INLINE Floats maximum(Floats a, Floats b) { return a > b ? a : b; }
INLINE Floats minimum(Floats a, Floats b) { return a < b ? a : b; }
#endif
INLINE Floats clamp_min(Floats x, float bound) { return maximum(broadcast(bound), x); }

INLINE Floats select(Ints mask, Floats yes, Floats no) { return mask ? yes : no; }

INLINE Floats as_floats(Ints x) { return (Floats)x; }
INLINE Ints as_ints(Floats x) { return (Ints)x; }
INLINE Floats abs(Floats x) { return as_floats(as_ints(x) & 0x7fffffff); }

// One bit per lane, set where a > b.
INLINE uint32_t greater_mask(Floats a, Floats b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
#elif defined(__AVX2__)
    return _mm256_movemask_ps((__m256)(a > b));
#else
    Ints mask = a > b;
    uint32_t result = 0;
    for (int i = 0; i < W; i++) result |= (mask[i] & 1u) << i;
    return result;
#endif
}

// 2^t for t ≤ 127; exactly 0 for t below −126 and for −∞; NaN stays NaN.
INLINE Floats exp2(Floats t) {
#if defined(__AVX512F__)
    t = clamp_min(t, -1e30f);  // −∞ − (−∞) would be NaN
    Floats rounded = (Floats)_mm512_roundscale_ps((__m512)t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    t = clamp_min(t, -127.0f);
    const Floats magic = broadcast(12582912.0f);  // 1.5 · 2²³: adding it rounds to an integer
    Floats shifted = t + magic;
    Floats rounded = shifted - magic;
#endif
    Floats r = t - rounded;  // in [−½, ½]; minimax polynomial of 2^r, relative error 2e-9
    Floats p = broadcast(1.534581200e-04f);
    p = p * r + 1.339993122e-03f;
    p = p * r + 9.618488957e-03f;
    p = p * r + 5.550328777e-02f;
    p = p * r + 2.402264689e-01f;
    p = p * r + 6.931472057e-01f;
    p = p * r + 1.0f;
#if defined(__AVX512F__)
    return (Floats)_mm512_scalef_ps((__m512)p, (__m512)rounded);
#else
    Ints exponent = (as_ints(shifted) - as_ints(magic) + 127) << 23;
    return p * as_floats(exponent);
#endif
}

// The natural logarithm of positive numbers that are not denormal (after Cephes' logf); relative error 1e-7.
INLINE Floats log(Floats x) {
    Ints bits = as_ints(x) - 0x3f3504f3;  // √½: the mantissa lies between √½ and √2
    Floats exponent = __builtin_convertvector(bits >> 23, Floats);
    Floats r = as_floats((bits & 0x007fffff) + 0x3f3504f3) - 1.0f, square = r * r;
    Floats p = broadcast(7.0376836292e-2f);
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    Floats rest = p * r * square - 2.12194440e-4f * exponent - 0.5f * square;
    return select(x == x, 0.693359375f * exponent + (r + rest), x);
}

// tanh: a polynomial near 0, where (e − 1) / (e + 1) would lose digits (after Cephes' tanhf).
INLINE Floats tanh(Floats x) {
    Floats magnitude = abs(x), square = x * x;
    Floats p = broadcast(-5.70498872745e-3f);
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    Floats small = p * square * x + x;
    Floats exp_2x = exp2(minimum(magnitude * (2.0f * LOG2_E), broadcast(60.0f)));
    Floats large = 1.0f - 2.0f / (exp_2x + 1.0f);
    large = as_floats(as_ints(large) | (as_ints(x) & INT32_MIN));
    Floats result = select(magnitude < 0.625f, small, large);
    return select(x == x, result, x);
}

}  // namespace transom
