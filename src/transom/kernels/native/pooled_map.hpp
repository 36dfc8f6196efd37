// A window of one head's weights, pooled: each cell is the sum, or the maximum, of cell_rows × cell_keys weights.
#pragma once
#include "online_softmax.hpp"
#include "pack_rows.hpp"
#include "scratch.hpp"

namespace transom {

class PooledMap {
  public:
    PooledMap(const AttentionParams& params, const float* lse, const MapWindow& window)
        : params(params), lse(lse), window(window), head(params, window.batch * params.heads + window.head),
          unit_cell_rows(std::max<int64_t>(1, ROW_BLOCK / window.cell_rows)),
          columns((window.last_key - window.first_key + window.cell_keys - 1) / window.cell_keys),
          key_block(std::max<int64_t>(1, 512 / window.cell_keys) * window.cell_keys) {}

    int64_t units() const {
        int64_t unit_rows = unit_cell_rows * window.cell_rows;
        return (window.last_row - window.first_row + unit_rows - 1) / unit_rows;
    }

    // A unit is some whole rows of cells, so that no other unit writes into them.
    void run(int64_t unit) const {
        int64_t first = window.first_row + unit * unit_cell_rows * window.cell_rows;
        int64_t end = std::min(first + unit_cell_rows * window.cell_rows, window.last_row);
        for (; first < end; first += ROW_BLOCK) pool_rows(RowBlock(head, first, end));
    }

  private:
    const AttentionParams& params;
    const float* lse;
    const MapWindow& window;
    Head head;
    int64_t unit_cell_rows, columns, key_block;

    void pool_rows(const RowBlock& rows) const {
        scratch().reserve(
            Scratch::padded(ROW_BLOCK * params.d_head) + Scratch::padded(ROW_BLOCK * key_block) +
            2 * Scratch::padded(ROW_BLOCK)
        );
        float *queries = scratch().take(ROW_BLOCK * params.d_head), *S = scratch().take(ROW_BLOCK * key_block);
        LogSumExp2 lse2{scratch().take(ROW_BLOCK), scratch().take(ROW_BLOCK)};
        pack_rows(head.Q.load_rows(rows.first, rows.count), params.d_head, rows.count, query_scale(params), queries);
        lse2.set(lse + head.index() * params.queries + rows.first, rows.count);
        for (int64_t j = window.first_key; j < window.last_key; j += key_block) {
            KeySpans spans(head, rows, j, std::min(j + key_block, window.last_key));
            if (!any_visible(head, rows, spans)) continue;
            Floats row_max[ROW_VECTORS];
            compute_scores(head, rows, spans, queries, S - j * ROW_BLOCK, nullptr, row_max);
            for (int v = 0; v < rows.vectors; v++) {
                ScoreSlice slice{head, rows, v, spans.begin[v], spans.end[v], S - j * ROW_BLOCK};
                exp_scores<false>(slice, load(lse2.high + v * W));
                add_to_cells(slice, lse2.correction(v));
            }
        }
    }

    void add_to_cells(const ScoreSlice& slice, Floats correction) const {
        for (int64_t j = slice.key_begin, end; j < slice.key_end; j = end) {
            int64_t column = (j - window.first_key) / window.cell_keys;
            end = std::min(slice.key_end, window.first_key + (column + 1) * window.cell_keys);
            Floats sum{}, max{};
            for (int64_t i = j; i < end; i++) sum += load(slice.at(i)), max = maximum(max, load(slice.at(i)));
            sum *= correction, max *= correction;
            for (int i = 0; i < slice.row_count(); i++) {
                int64_t cell = (slice.first_row() + i - window.first_row) / window.cell_rows * columns + column;
                if (window.sums) window.sums[cell] += sum[i];
                if (window.maxima) window.maxima[cell] = std::max(window.maxima[cell], max[i]);
            }
        }
    }
};

}  // namespace transom
