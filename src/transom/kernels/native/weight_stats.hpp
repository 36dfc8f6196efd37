// Statistics of the weights of an attention whose log-sum-exp is known: scores and exponentials, no values.
#pragma once
#include "column_sums.hpp"
#include "key_topk.hpp"
#include "online_softmax.hpp"
#include "pack_rows.hpp"
#include "scratch.hpp"
#include "work_split.hpp"

namespace transom {

constexpr int64_t STATS_KEY_BLOCK = 512;  // keys at a time

// A row block on its way over the key blocks.
struct StatsRowBlock {
    RowBlock rows;
    float *queries, *S;  // [d_head][ROW_BLOCK], [STATS_KEY_BLOCK][ROW_BLOCK]
    float* peak_exponent;  // the highest score so far, relative to the log-sum-exp
    RunningSoftmax softmax;  // its maximum is the log-sum-exp from the start, so nothing is ever rescaled
    LogSumExp2 lse;
    KeyTopK top_k;
};

class WeightStats {
  public:
    // result.lse is read, not written.
    WeightStats(const AttentionParams& params, const ForwardResult& result)
        : params(params), result(result), with_stats(result.entropy || result.distance || result.peak),
          row_blocks((params.queries + ROW_BLOCK - 1) / ROW_BLOCK),
          chunk_count(std::min(row_blocks, (MIN_UNITS + heads() - 1) / std::max<int64_t>(1, heads()))) {}

    int64_t heads() const { return params.batch * params.heads; }
    int64_t units() const { return heads() * chunk_count; }
    int64_t chunks() const { return chunk_count; }

    void run(int64_t index) const {
        WorkUnit unit(index, chunk_count);
        Head head(params, unit.head);
        float* received = nullptr;
        if (result.received) {
            received = result.partial + (unit.head * chunk_count + unit.chunk) * params.keys;
            std::fill(received, received + params.keys, 0.0f);
        }
        int64_t first = unit.chunk * row_blocks / chunk_count, last = (unit.chunk + 1) * row_blocks / chunk_count;
        for (int64_t b = first; b < last; b++) run_row_block(head, b * ROW_BLOCK, received);
    }

    void sum_received(int64_t head) const {
        const float* partial = result.partial + head * chunk_count * params.keys;
        sum_chunks(partial, chunk_count, params.keys, result.received + head * params.keys);
    }

  private:
    const AttentionParams& params;
    const ForwardResult& result;
    bool with_stats;
    int64_t row_blocks, chunk_count;

    StatsRowBlock allocate(const Head& head, int64_t first) const {
        Scratch& memory = scratch();
        auto padded = [](int64_t floats) { return Scratch::padded(floats); };
        size_t top_k_floats = KeyTopK::scratch_floats(result.k);
        memory.reserve(
            padded(ROW_BLOCK * params.d_head) + padded(ROW_BLOCK * STATS_KEY_BLOCK) + 6 * padded(ROW_BLOCK) +
            padded(top_k_floats)
        );
        StatsRowBlock block{
            RowBlock(head, first, params.queries),
            memory.take(ROW_BLOCK * params.d_head),
            memory.take(ROW_BLOCK * STATS_KEY_BLOCK),
            memory.take(ROW_BLOCK),
            {memory.take(ROW_BLOCK), memory.take(ROW_BLOCK), memory.take(ROW_BLOCK), memory.take(ROW_BLOCK)},
            {},
            {}
        };
        block.lse = {block.softmax.row_max, memory.take(ROW_BLOCK)};
        if (result.k) block.top_k = KeyTopK(result.k, memory.take(top_k_floats));
        return block;
    }

    void run_row_block(const Head& head, int64_t first, float* received) const {
        StatsRowBlock block = allocate(head, first);
        const RowBlock& rows = block.rows;
        int64_t first_row = head.index() * params.queries + first;
        pack_rows(head.Q.load_rows(first, rows.count), params.d_head, rows.count, query_scale(params), block.queries);
        block.softmax.reset();
        block.lse.set(result.lse + first_row, rows.count);
        if (result.k) block.top_k.reset();
        std::fill(block.peak_exponent, block.peak_exponent + ROW_BLOCK, NEG_INF);
        int64_t j = rows.key_begin / STATS_KEY_BLOCK * STATS_KEY_BLOCK;
        for (; j < rows.key_end; j += STATS_KEY_BLOCK)
            process_key_block(head, block, KeySpans(head, rows, j, j + STATS_KEY_BLOCK), j * ROW_BLOCK, received);
        RowStats(rows, block.softmax, block.peak_exponent).write(result, first_row, rows.count);
        if (result.k) write_top_keys(block, first_row);
    }

    // One key block; `offset` moves the scores so that they are indexed from key 0.
    void process_key_block(
        const Head& head, StatsRowBlock& block, const KeySpans& spans, int64_t offset, float* received
    ) const {
        const RowBlock& rows = block.rows;
        if (!any_visible(head, rows, spans)) return;
        float* S = block.S - offset;
        Floats row_max[ROW_VECTORS], correction[ROW_VECTORS];
        compute_scores(head, rows, spans, block.queries, S, nullptr, row_max);
        for (int v = 0; v < rows.vectors; v++) {
            Floats base = load(block.softmax.row_max + v * W);
            ScoreSlice slice{head, rows, v, spans.begin[v], spans.end[v], S};
            float* peak_exponent = block.peak_exponent + v * W;
            store(peak_exponent, maximum(load(peak_exponent), row_max[v] - base));
            if (result.k) block.top_k.update(slice);
            for (int64_t j = slice.key_begin; j < slice.key_end && (with_stats || received); j += KEY_SUBBLOCK) {
                ScoreSlice part{head, rows, v, j, std::min(j + KEY_SUBBLOCK, slice.key_end), S};
                block.softmax.add(v, exp_scores(part, base, with_stats));
            }
            correction[v] = block.lse.correction(v);
        }
        if (received) add_column_sums(rows, spans, S, correction, received);
    }

    void write_top_keys(const StatsRowBlock& block, int64_t first_row) const {
        float factor[ROW_BLOCK];
        for (int v = 0; v < block.rows.vectors; v++) store(factor + v * W, block.lse.correction(v));
        for (int i = 0; i < block.rows.count; i++)
            block.top_k.write(i, block.lse.high[i], factor[i], first_row + i, result);
    }
};

}  // namespace transom
