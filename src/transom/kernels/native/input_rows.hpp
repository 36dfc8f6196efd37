// Q, K and V, in float32 or half precision; they are read as float32.
#pragma once
#include <algorithm>

#include "params.hpp"
#include "scratch.hpp"
#include "simd.hpp"

namespace transom {

constexpr int64_t WIDEN_ROWS =
    128;  // rows widened at a time: as many as KEY_SUBBLOCK, so that sums have float32's bits

typedef uint16_t Halves __attribute__((vector_size(2 * W)));

INLINE Floats from_bfloat16(Halves x) { return as_floats(__builtin_convertvector(x, Ints) << 16); }

// The exponent grows from 5 bits to 8, that of infinity and NaN to the largest; subnormal numbers, which are below
// 2⁻¹⁴, are multiples of 2⁻²⁴.
INLINE Floats from_float16(Halves x) {
#if defined(__AVX512F__)
    return (Floats)_mm512_cvtph_ps((__m256i)x);
#else
    Ints bits = __builtin_convertvector(x, Ints), magnitude = bits & 0x7fff;
    Ints normal = (magnitude << 13) + (112 << 23);
    normal = magnitude >= 0x7c00 ? normal + (112 << 23) : normal;
    Floats subnormal = __builtin_convertvector(magnitude, Floats) * 0x1p-24f;
    Ints result = magnitude < 0x0400 ? as_ints(subnormal) : normal;
    return as_floats(result | (bits & 0x8000) << 16);
#endif
}

static void widen(const uint16_t* from, int64_t count, int64_t dtype, float* to) {
    for (int64_t i = 0; i < count; i += W) {
        Halves x{};
        memcpy(&x, from + i, sizeof(uint16_t) * std::min<int64_t>(W, count - i));
        store_partial(to + i, dtype == BFLOAT16 ? from_bfloat16(x) : from_float16(x), count - i);
    }
}

// Rows of float32.
struct FloatRows {
    const float* data;
    int64_t stride;
};

// The rows of one head of Q, K or V.
struct InputRows {
    const char* data;
    int64_t stride, d, dtype;

    InputRows(const void* tensor, const int64_t* strides, int64_t batch, int64_t head, int64_t d, int64_t dtype)
        : data((const char*)tensor), stride(strides[2]), d(d), dtype(dtype) {
        data += (batch * strides[0] + head * strides[1]) * element_size();
    }

    // float32 rows are returned where they are; others are widened into a buffer that the next call overwrites.
    FloatRows load_rows(int64_t first, int64_t count) const {
        const char* begin = data + first * stride * element_size();
        if (dtype == FLOAT32) return {(const float*)begin, stride};
        widen_buffer().reserve(count * d);
        float* buffer = widen_buffer().take(count * d);
        for (int64_t i = 0; i < count; i++) widen((const uint16_t*)begin + i * stride, d, dtype, buffer + i * d);
        return {buffer, d};
    }

    // visit(rows, begin, end) for runs of rows that make up [first, last): a single run if they are float32.
    template <class Visit>
    INLINE_MEMBER void for_each_run(int64_t first, int64_t last, const Visit& visit) const {
        int64_t length = dtype == FLOAT32 ? last - first : WIDEN_ROWS;
        for (int64_t i = first, next; i < last; i = next) {
            next = std::min(i + length, last);
            visit(load_rows(i, next - i), i, next);
        }
    }

  private:
    int64_t element_size() const { return dtype == FLOAT32 ? sizeof(float) : sizeof(uint16_t); }

    static Scratch& widen_buffer() {
        static thread_local Scratch buffer;
        return buffer;
    }
};

}  // namespace transom
