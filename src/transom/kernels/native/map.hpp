// A window of one head's weights as a small picture: each cell the sum, or the largest, of tall × wide weights.
#pragma once
#include "packing.hpp"
#include "scratch.hpp"
#include "softmax.hpp"

namespace transom {

class Map {
  public:
    Map(const Attention& of, const float* lse, const Window& window)
        : of(of), lse(lse), window(window), head(of, window.batch * of.heads + window.head),
          cells_down(std::max<int64_t>(1, ROWS / window.tall)), across((span() + window.wide - 1) / window.wide),
          at_once(std::max<int64_t>(1, 512 / window.wide) * window.wide) {}

    int64_t units() const {
        int64_t tall = cells_down * window.tall;
        return (window.last_row - window.first_row + tall - 1) / tall;
    }

    // Some whole rows of cells, so that no other unit writes into them.
    void run(int64_t unit) const {
        int64_t first = window.first_row + unit * cells_down * window.tall;
        int64_t end = std::min(first + cells_down * window.tall, window.last_row);
        for (; first < end; first += ROWS) pool(Rows(head, first, end));
    }

  private:
    const Attention& of;
    const float* lse;
    const Window& window;
    Head head;
    int64_t cells_down, across, at_once;

    int64_t span() const { return window.last_key - window.first_key; }

    void pool(const Rows& rows) const {
        scratch().begin(
            Scratch::padded(ROWS * of.d_head) + Scratch::padded(ROWS * at_once) + 2 * Scratch::padded(ROWS)
        );
        float *queries = scratch().take(ROWS * of.d_head), *S = scratch().take(ROWS * at_once);
        InLog2 base{scratch().take(ROWS), scratch().take(ROWS)};
        pack(head.Q.rows(rows.first, rows.count), of.d_head, rows.count, query_factor(of), queries);
        base.take(lse + head.number() * of.queries + rows.first, rows.count);
        for (int64_t j = window.first_key; j < window.last_key; j += at_once) {
            Spans spans(head, rows, j, std::min(j + at_once, window.last_key));
            if (!anything_seen(head, rows, spans)) continue;
            Lanes highest[VECTORS];
            score_block(head, rows, spans, queries, S - j * ROWS, nullptr, highest);
            for (int v = 0; v < rows.vectors; v++) {
                Strip strip{head, rows, v, spans.begin[v], spans.end[v], S - j * ROWS};
                weigh<false>(strip, load(base.whole + v * W));
                add_cells(strip, base.correction(v));
            }
        }
    }

    void add_cells(const Strip& strip, Lanes correction) const {
        for (int64_t j = strip.first, end; j < strip.last; j = end) {
            int64_t cell = (j - window.first_key) / window.wide;
            end = std::min(strip.last, window.first_key + (cell + 1) * window.wide);
            Lanes sum{}, most{};
            for (int64_t i = j; i < end; i++) sum += load(strip.at(i)), most = larger(most, load(strip.at(i)));
            sum *= correction, most *= correction;
            for (int i = 0; i < strip.present(); i++) {
                int64_t place = (strip.top() + i - window.first_row) / window.tall * across + cell;
                if (window.sums) window.sums[place] += sum[i];
                if (window.highest) window.highest[place] = std::max(window.highest[place], most[i]);
            }
        }
    }
};

}  // namespace transom
