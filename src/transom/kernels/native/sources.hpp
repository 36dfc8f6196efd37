// Q, K and V as they lie in memory, in float32 or half precision; whoever reads them sees float32.
#pragma once
#include <algorithm>

#include "attention.hpp"
#include "lanes.hpp"
#include "scratch.hpp"

namespace transom {

constexpr int64_t AT_A_TIME = 128;  // rows widened at a time; as many are mixed at a time: the bits are float32's

typedef uint16_t Halves __attribute__((vector_size(2 * W)));

INLINE Lanes from_bfloat16(Halves x) { return as_lanes(__builtin_convertvector(x, Ints) << 16); }

// The exponent is moved from 5 bits to 8; that of infinity and NaN to the end of its range, and what has none, which is
// below 2⁻¹⁴, is counted in steps of 2⁻²⁴.
INLINE Lanes from_float16(Halves x) {
#if defined(__AVX512F__)
    return (Lanes)_mm512_cvtph_ps((__m256i)x);
#else
    Ints bits = __builtin_convertvector(x, Ints), size = bits & 0x7fff;
    Ints moved = (size << 13) + (112 << 23);
    moved = size >= 0x7c00 ? moved + (112 << 23) : moved;
    Lanes small = __builtin_convertvector(size, Lanes) * 0x1p-24f;
    Ints found = size < 0x0400 ? as_ints(small) : moved;
    return as_lanes(found | (bits & 0x8000) << 16);
#endif
}

static void widen(const uint16_t* from, int64_t count, int64_t precision, float* to) {
    for (int64_t i = 0; i < count; i += W) {
        Halves x{};
        memcpy(&x, from + i, sizeof(uint16_t) * std::min<int64_t>(W, count - i));
        store_few(to + i, precision == BFLOAT16 ? from_bfloat16(x) : from_float16(x), count - i);
    }
}

// Rows of float32.
struct Matrix {
    const float* at;
    int64_t stride;
};

// The rows of one head of Q, K or V.
struct Source {
    const char* memory;
    int64_t stride, d, precision;

    Source(const void* whole, const int64_t* strides, int64_t batch, int64_t head, int64_t d, int64_t precision)
        : memory((const char*)whole), stride(strides[2]), d(d), precision(precision) {
        memory += (batch * strides[0] + head * strides[1]) * bytes();
    }

    // Rows from `first` on, where they lie; half precision is widened into memory that the next call uses again.
    Matrix rows(int64_t first, int64_t count) const {
        const char* begin = memory + first * stride * bytes();
        if (precision == FLOAT32) return {(const float*)begin, stride};
        widened().begin(count * d);
        float* room = widened().take(count * d);
        for (int64_t i = 0; i < count; i++) widen((const uint16_t*)begin + i * stride, d, precision, room + i * d);
        return {room, d};
    }

    // visit(rows, first, last) for runs of rows in [first, last): all in one where they are float32.
    template <class Visit>
    INLINE_MEMBER void read(int64_t first, int64_t last, const Visit& visit) const {
        int64_t many = precision == FLOAT32 ? last - first : AT_A_TIME;
        for (int64_t i = first, next; i < last; i = next) {
            next = std::min(i + many, last);
            visit(rows(i, next - i), i, next);
        }
    }

  private:
    int64_t bytes() const { return precision == FLOAT32 ? sizeof(float) : sizeof(uint16_t); }

    static Scratch& widened() {
        static thread_local Scratch room;
        return room;
    }
};

}  // namespace transom
