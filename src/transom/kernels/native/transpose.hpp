// Transposition and sums across lanes, by shuffles of one instruction each: first within quads of four lanes, then of
// whole quads.
#pragma once
#include "simd.hpp"

namespace transom {

// Which lane of (a, b) each lane of a shuffle takes: a has lanes 0 … W − 1, b has W … 2 W − 1.
struct InterleaveLow {  // a₀ b₀ a₁ b₁ of each quad
    static constexpr int source_lane(int i) { return (i % 2) * W + i / 4 * 4 + i % 4 / 2; }
};
struct InterleaveHigh {  // a₂ b₂ a₃ b₃
    static constexpr int source_lane(int i) { return InterleaveLow::source_lane(i) + 2; }
};
struct LowPairs {  // a₀ a₁ b₀ b₁
    static constexpr int source_lane(int i) { return i % 4 / 2 * W + i / 4 * 4 + i % 2; }
};
struct HighPairs {  // a₂ a₃ b₂ b₃
    static constexpr int source_lane(int i) { return LowPairs::source_lane(i) + 2; }
};
struct EvenQuads {  // the even quads of a, then those of b
    static constexpr int source_lane(int i) { return 2 * i < W ? i / 4 * 8 + i % 4 : W + (i - W / 2) / 4 * 8 + i % 4; }
};
struct OddQuads {
    static constexpr int source_lane(int i) { return EvenQuads::source_lane(i) + 4; }
};

template <class Pattern, int... I>
INLINE Floats shuffle(Floats a, Floats b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, Pattern::source_lane(I)...);
}

template <class Pattern>
INLINE Floats shuffle(Floats a, Floats b) {
    return shuffle<Pattern>(a, b, std::make_integer_sequence<int, W>{});
}

// Replace a and b by two shuffles of them.
template <class First, class Second>
INLINE void shuffle_pair(Floats& a, Floats& b) {
    Floats first = shuffle<First>(a, b);
    b = shuffle<Second>(a, b);
    a = first;
}

// Transpose a W × W matrix in place.
INLINE void transpose(Floats* rows) {
    for (int i = 0; i < W; i += 2) shuffle_pair<InterleaveLow, InterleaveHigh>(rows[i], rows[i + 1]);
    for (int i = 0; i < W; i += 4) {
        shuffle_pair<LowPairs, HighPairs>(rows[i], rows[i + 2]);
        shuffle_pair<LowPairs, HighPairs>(rows[i + 1], rows[i + 3]);
        std::swap(rows[i + 1], rows[i + 2]);
    }
    // Now rows[4 i + c] holds, quad by quad, columns c, 4 + c, … of rows 4 i … 4 i + 3.
    for (int c = 0; c < 4; c++) {
        if constexpr (W == 8) shuffle_pair<EvenQuads, OddQuads>(rows[c], rows[4 + c]);
        if constexpr (W == 16) {
            shuffle_pair<EvenQuads, OddQuads>(rows[c], rows[4 + c]);
            shuffle_pair<EvenQuads, OddQuads>(rows[8 + c], rows[12 + c]);
            shuffle_pair<EvenQuads, OddQuads>(rows[c], rows[8 + c]);
            shuffle_pair<EvenQuads, OddQuads>(rows[4 + c], rows[12 + c]);
        }
    }
}

template <class First, class Second>
INLINE Floats add_shuffles(Floats a, Floats b) {
    return shuffle<First>(a, b) + shuffle<Second>(a, b);
}

// Lane i of the result is the sum of all lanes of rows[i]; each step halves the number of vectors.
INLINE Floats horizontal_sums(Floats* rows) {
    for (int i = 0; i < W / 2; i++) rows[i] = add_shuffles<InterleaveLow, InterleaveHigh>(rows[2 * i], rows[2 * i + 1]);
    for (int i = 0; i < W / 4; i++) rows[i] = add_shuffles<LowPairs, HighPairs>(rows[2 * i], rows[2 * i + 1]);
    if constexpr (W > 4)
        for (int left = W / 8; left > 0; left /= 2)
            for (int i = 0; i < left; i++) rows[i] = add_shuffles<EvenQuads, OddQuads>(rows[2 * i], rows[2 * i + 1]);
    return rows[0];
}

// x with each lane swapped for the one whose index differs in bit S.
template <int S, int... I>
INLINE Floats swap_lanes(Floats x, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(x, x, (I ^ S)...);
}

template <int S = W / 2>
INLINE float horizontal_max(Floats x) {
    x = maximum(x, swap_lanes<S>(x, std::make_integer_sequence<int, W>{}));
    if constexpr (S > 1) return horizontal_max<S / 2>(x);
    return x[0];
}

template <int S = W / 2>
INLINE float horizontal_sum(Floats x) {
    x += swap_lanes<S>(x, std::make_integer_sequence<int, W>{});
    if constexpr (S > 1) return horizontal_sum<S / 2>(x);
    return x[0];
}

}  // namespace transom
