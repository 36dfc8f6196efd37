// A window of the changes that one head's edges make, pooled: each cell is their sum, and the largest with its sign.
#pragma once
#include "edge_changes.hpp"

namespace transom {

class InfluenceMap {
  public:
    InfluenceMap(const AttentionParams& params, const InfluenceParams& influence, const MapWindow& window)
        : params(params), window(window), changes(params, influence),
          head(params, window.batch * params.heads + window.head),
          unit_cell_rows(std::max<int64_t>(1, ROW_BLOCK / window.cell_rows)),
          columns((window.last_key - window.first_key + window.cell_keys - 1) / window.cell_keys) {}

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
    const MapWindow& window;
    EdgeChanges changes;
    Head head;
    int64_t unit_cell_rows, columns;

    void pool_rows(const RowBlock& rows) const {
        scratch().reserve(EdgeChanges::scratch_floats(params, CHANGES_KEY_BLOCK));
        ChangeRows block = changes.begin(head, rows, CHANGES_KEY_BLOCK);
        visit_keys(block, window.first_key, window.last_key, true);
        if (!block.any_near()) return;
        int64_t near[ROW_BLOCK];  // what the window holds: a key outside it is not in the map
        std::copy(block.near_key, block.near_key + ROW_BLOCK, near);
        visit_keys(block, rows.key_begin, window.first_key, false);
        visit_keys(block, window.last_key, rows.key_end, false);
        for (int i = 0; i < rows.count; i++)
            if (near[i] >= 0)
                add_to_cell(rows.first + i, column_of(near[i]), block.near_change(i), block.near_change(i));
    }

    int64_t column_of(int64_t key) const { return (key - window.first_key) / window.cell_keys; }

    // The changes of these keys: into the cells, or only into the sums of their rows.
    void visit_keys(ChangeRows& block, int64_t first, int64_t last, bool pooled) const {
        for (int64_t j = first; j < last; j += CHANGES_KEY_BLOCK) {
            KeySpans spans(head, block.rows, j, std::min(j + CHANGES_KEY_BLOCK, last));
            if (!any_visible(head, block.rows, spans)) continue;
            float *S = block.S - j * ROW_BLOCK, *GV = block.GV - j * ROW_BLOCK;
            changes.compute(head, block, spans, S, GV);
            for (int v = 0; v < block.rows.vectors && pooled; v++)
                add_to_cells({head, block.rows, v, spans.begin[v], spans.end[v], S});
        }
    }

    void add_to_cells(const ScoreSlice& slice) const {
        for (int64_t j = slice.key_begin, end; j < slice.key_end; j = end) {
            int64_t column = column_of(j);
            end = std::min(slice.key_end, window.first_key + (column + 1) * window.cell_keys);
            Floats sum{}, most{}, least{};
            for (int64_t i = j; i < end; i++) {
                Floats change = load(slice.at(i));
                sum += change, most = maximum(most, change), least = minimum(least, change);
            }
            for (int i = 0; i < slice.row_count(); i++)
                add_to_cell(slice.first_row() + i, column, sum[i], most[i] >= -least[i] ? most[i] : least[i]);
        }
    }

    INLINE_MEMBER void add_to_cell(int64_t row, int64_t column, float sum, float largest) const {
        int64_t cell = (row - window.first_row) / window.cell_rows * columns + column;
        window.sums[cell] += sum;
        if (std::fabs(largest) > std::fabs(window.maxima[cell])) window.maxima[cell] = largest;
    }
};

}  // namespace transom
