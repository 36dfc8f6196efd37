// Dropout that the backward pass can repeat: a hash of the seed and the index decides whether a weight is kept, with
// the same bits as in transom.equations.dropout.
#pragma once
#include "online_softmax.hpp"

namespace transom {

INLINE uint64_t hash(uint64_t x) {
    x = ((x ^ (x >> 16)) * 0x45D9F3Bu) & 0xFFFFFFFFu;
    x = ((x ^ (x >> 15)) * 0x2C1B3C6Du) & 0xFFFFFFFFu;
    return x ^ (x >> 16);
}

INLINE UInts hash(UInts x) {
    x = (x ^ (x >> 16)) * 0x45D9F3Bu;
    x = (x ^ (x >> 15)) * 0x2C1B3C6Du;
    return x ^ (x >> 16);
}

// The part of the hash that depends on the row, for each row of the block.
static void hash_rows(const Head& head, const RowBlock& rows, uint32_t* row_hashes) {
    uint64_t seed = head.params.seed;
    for (int i = 0; i < ROW_BLOCK; i++) {
        uint64_t row = (uint64_t)head.index() * head.params.queries + rows.first + i;
        row_hashes[i] = (uint32_t)hash(hash((row + seed) & 0xFFFFFFFFu) + (row >> 32) + (seed >> 32));
    }
}

// to = from, with 0 where a weight is dropped and the others scaled up. Both are [keys][ROW_BLOCK], indexed from key 0.
static void apply_dropout(const ScoreSlice& slice, const uint32_t* row_hashes, const float* from, float* to) {
    UInts row_hash;
    memcpy(&row_hash, row_hashes + slice.v * W, sizeof row_hash);
    double dropout = slice.head.params.dropout;
    uint32_t threshold = (uint32_t)(dropout * 4294967296.0);
    float scale = (float)(1.0 / (1.0 - dropout));
    for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
        uint32_t key_hash = (uint32_t)hash((uint64_t)((uint32_t)j + 0x9E3779B9u));
        Ints keep = (Ints)(hash(row_hash ^ key_hash) >= threshold);
        int64_t at = j * ROW_BLOCK + slice.v * W;
        store(to + at, select(keep, load(from + at) * scale, Floats{}));
    }
}

}  // namespace transom
