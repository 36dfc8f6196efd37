// What each key received: the sum of its column of weights.
#pragma once
#include "rows.hpp"
#include "transpose.hpp"

namespace transom {

// to[key] += Σ over rows of factor · P[key][row], W keys at a time.
static void add_columns(const Rows& rows, const Spans& spans, const float* P, const Lanes* factor, float* to) {
    int64_t inner_from = spans.from, inner_to = spans.to;
    for (int v = 0; v < rows.vectors; v++)
        inner_from = std::max(inner_from, spans.begin[v]), inner_to = std::min(inner_to, spans.end[v]);
    for (int64_t j = spans.from; j < spans.to; j += W) {
        Lanes column[W] = {};
        if (rows.vectors == VECTORS && j >= inner_from && j + W <= inner_to) {
#pragma GCC unroll 16
            for (int i = 0; i < W; i++)
#pragma GCC unroll 3
                for (int v = 0; v < VECTORS; v++) column[i] = factor[v] * load(P + (j + i) * ROWS + v * W) + column[i];
        } else {
            for (int v = 0; v < rows.vectors; v++)
                for (int64_t i = std::max(j, spans.begin[v]); i < std::min(j + W, spans.end[v]); i++)
                    column[i - j] = factor[v] * load(P + i * ROWS + v * W) + column[i - j];
        }
        Lanes found = sums(column);
        store_few(to + j, load_few(to + j, spans.to - j) + found, spans.to - j);
    }
}

// The parts that chunks of rows gave, added in their order: the same bits whoever computed them.
static void add_up(const float* parts, int64_t chunks, int64_t size, float* to) {
    for (int64_t i = 0; i < size; i++) {
        float total = 0.0f;
        for (int64_t c = 0; c < chunks; c++) total += parts[c * size + i];
        to[i] = total;
    }
}

}  // namespace transom
