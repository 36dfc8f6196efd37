// Rows to columns, by shuffles that each take one instruction: within quarters of four numbers first, then whole
// quarters.
#pragma once
#include "lanes.hpp"

namespace transom {

// Where each lane of a shuffle comes from: a has lanes 0 … W − 1, b those after it.
struct LowOnes {  // a₀ b₀ a₁ b₁ of each quarter
    static constexpr int from(int i) { return (i % 2) * W + i / 4 * 4 + i % 4 / 2; }
};
struct HighOnes {  // a₂ b₂ a₃ b₃
    static constexpr int from(int i) { return LowOnes::from(i) + 2; }
};
struct LowPairs {  // a₀ a₁ b₀ b₁
    static constexpr int from(int i) { return i % 4 / 2 * W + i / 4 * 4 + i % 2; }
};
struct HighPairs {  // a₂ a₃ b₂ b₃
    static constexpr int from(int i) { return LowPairs::from(i) + 2; }
};
struct EvenQuarters {  // the even quarters of a, then those of b
    static constexpr int from(int i) { return 2 * i < W ? i / 4 * 8 + i % 4 : W + (i - W / 2) / 4 * 8 + i % 4; }
};
struct OddQuarters {
    static constexpr int from(int i) { return EvenQuarters::from(i) + 4; }
};

template <class Pick, int... I>
INLINE Lanes shuffled(Lanes a, Lanes b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, Pick::from(I)...);
}

template <class Pick>
INLINE Lanes shuffled(Lanes a, Lanes b) {
    return shuffled<Pick>(a, b, std::make_integer_sequence<int, W>{});
}

// a and b become two shuffles of both.
template <class First, class Second>
INLINE void exchange(Lanes& a, Lanes& b) {
    Lanes first = shuffled<First>(a, b);
    b = shuffled<Second>(a, b);
    a = first;
}

// W vectors of W numbers, rows to columns.
INLINE void transpose(Lanes* rows) {
    for (int i = 0; i < W; i += 2) exchange<LowOnes, HighOnes>(rows[i], rows[i + 1]);
    for (int i = 0; i < W; i += 4) {
        exchange<LowPairs, HighPairs>(rows[i], rows[i + 2]);
        exchange<LowPairs, HighPairs>(rows[i + 1], rows[i + 3]);
        std::swap(rows[i + 1], rows[i + 2]);
    }
    // Now rows[4 i + c] holds, quarter by quarter, columns c, 4 + c, … of rows 4 i … 4 i + 3.
    for (int c = 0; c < 4; c++) {
        if constexpr (W == 8) exchange<EvenQuarters, OddQuarters>(rows[c], rows[4 + c]);
        if constexpr (W == 16) {
            exchange<EvenQuarters, OddQuarters>(rows[c], rows[4 + c]);
            exchange<EvenQuarters, OddQuarters>(rows[8 + c], rows[12 + c]);
            exchange<EvenQuarters, OddQuarters>(rows[c], rows[8 + c]);
            exchange<EvenQuarters, OddQuarters>(rows[4 + c], rows[12 + c]);
        }
    }
}

template <class First, class Second>
INLINE Lanes folded(Lanes a, Lanes b) {
    return shuffled<First>(a, b) + shuffled<Second>(a, b);
}

// Lane i of the result is the sum of all lanes of rows[i]: half as many vectors after each step.
INLINE Lanes sums(Lanes* rows) {
    for (int i = 0; i < W / 2; i++) rows[i] = folded<LowOnes, HighOnes>(rows[2 * i], rows[2 * i + 1]);
    for (int i = 0; i < W / 4; i++) rows[i] = folded<LowPairs, HighPairs>(rows[2 * i], rows[2 * i + 1]);
    if constexpr (W > 4)
        for (int left = W / 8; left > 0; left /= 2)
            for (int i = 0; i < left; i++) rows[i] = folded<EvenQuarters, OddQuarters>(rows[2 * i], rows[2 * i + 1]);
    return rows[0];
}

}  // namespace transom
