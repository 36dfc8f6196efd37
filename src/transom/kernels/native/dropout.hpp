// Dropout that can be asked again: whether a weight is kept follows from a seed and its place alone, with the same bits
// as in transom.equations.dropout.
#pragma once
#include "softmax.hpp"

namespace transom {

INLINE uint64_t stirred(uint64_t x) {
    x = ((x ^ (x >> 16)) * 0x45D9F3Bu) & 0xFFFFFFFFu;
    x = ((x ^ (x >> 15)) * 0x2C1B3C6Du) & 0xFFFFFFFFu;
    return x ^ (x >> 16);
}

INLINE Bits stirred(Bits x) {
    x = (x ^ (x >> 16)) * 0x45D9F3Bu;
    x = (x ^ (x >> 15)) * 0x2C1B3C6Du;
    return x ^ (x >> 16);
}

// The half of the answer that a row gives, for each row of the block.
static void stir_rows(const Head& head, const Rows& rows, uint32_t* stirs) {
    uint64_t seed = head.of.seed;
    for (int i = 0; i < ROWS; i++) {
        uint64_t line = (uint64_t)head.number() * head.of.queries + rows.first + i;
        stirs[i] = (uint32_t)stirred(stirred((line + seed) & 0xFFFFFFFFu) + (line >> 32) + (seed >> 32));
    }
}

// to = from, with 0 where a weight is dropped, and the rest scaled up. Both are [keys][ROWS], of key 0, were it there.
static void drop(const Strip& strip, const uint32_t* stirs, const float* from, float* to) {
    Bits own;
    memcpy(&own, stirs + strip.v * W, sizeof own);
    double share = strip.head.of.dropout;
    uint32_t bound = (uint32_t)(share * 4294967296.0);
    float scaled = (float)(1.0 / (1.0 - share));
    for (int64_t j = strip.first; j < strip.last; j++) {
        uint32_t of_key = (uint32_t)stirred((uint64_t)((uint32_t)j + 0x9E3779B9u));
        Ints kept = (Ints)(stirred(own ^ of_key) >= bound);
        int64_t at = j * ROWS + strip.v * W;
        store(to + at, choose(kept, load(from + at) * scaled, Lanes{}));
    }
}

}  // namespace transom
