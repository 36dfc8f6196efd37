// What each key received: the sum of its column of the weights.
#pragma once
#include "row_block.hpp"
#include "transpose.hpp"

namespace transom {

// to[key] += Σ factor · P[key][row] over the rows, W keys at a time.
static void add_column_sums(
    const RowBlock& rows, const KeySpans& spans, const float* P, const Floats* factor, float* to
) {
    int64_t full_begin = spans.key_begin, full_end = spans.key_end;
    for (int v = 0; v < rows.vectors; v++)
        full_begin = std::max(full_begin, spans.begin[v]), full_end = std::min(full_end, spans.end[v]);
    for (int64_t j = spans.key_begin; j < spans.key_end; j += W) {
        Floats column[W] = {};
        if (rows.vectors == ROW_VECTORS && j >= full_begin && j + W <= full_end) {
#pragma GCC unroll 16
            for (int i = 0; i < W; i++)
#pragma GCC unroll 3
                for (int v = 0; v < ROW_VECTORS; v++)
                    column[i] = factor[v] * load(P + (j + i) * ROW_BLOCK + v * W) + column[i];
        } else {
            for (int v = 0; v < rows.vectors; v++)
                for (int64_t i = std::max(j, spans.begin[v]); i < std::min(j + W, spans.end[v]); i++)
                    column[i - j] = factor[v] * load(P + i * ROW_BLOCK + v * W) + column[i - j];
        }
        Floats total = horizontal_sums(column);
        store_partial(to + j, load_partial(to + j, spans.key_end - j) + total, spans.key_end - j);
    }
}

// Add the sums of all chunks in order: the bits do not depend on which thread computed what.
static void sum_chunks(const float* partial, int64_t chunks, int64_t size, float* to) {
    for (int64_t i = 0; i < size; i++) {
        float total = 0.0f;
        for (int64_t c = 0; c < chunks; c++) total += partial[c * size + i];
        to[i] = total;
    }
}

}  // namespace transom
