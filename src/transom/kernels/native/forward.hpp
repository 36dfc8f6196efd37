// The forward pass: output, log-sum-exp and the statistics that are wanted, in one pass over the keys.
#pragma once
#include <vector>

#include "column_sums.hpp"
#include "dropout.hpp"
#include "key_topk.hpp"
#include "online_softmax.hpp"
#include "pack_rows.hpp"
#include "scratch.hpp"
#include "work_split.hpp"

namespace transom {

// A row block on its way over the key blocks.
struct ForwardRowBlock {
    RowBlock rows;
    float *queries, *output;  // [d][ROW_BLOCK]; the output is not yet divided by row_sum
    RunningSoftmax softmax;
    KeyTopK top_k;
    float* weights;  // [keys][ROW_BLOCK], not yet divided by row_sum; null unless received is wanted
    float*
        block_max;  // [key blocks][ROW_BLOCK]: the running maximum that the weights of each key block are relative to
    uint32_t* row_hashes;
};

class Forward {
  public:
    Forward(const AttentionParams& params, const ForwardResult& result)
        : params(params), result(result), split(params, result.received), with_stats(result.entropy || result.distance),
          key_blocks((params.keys + split.key_block - 1) / split.key_block) {}

    int64_t units() const { return params.batch * params.heads * split.chunks; }
    int64_t chunks() const { return split.chunks; }

    void run(int64_t index) const {
        WorkUnit unit(index, split.chunks);
        Head head(params, unit.head);
        float* received = nullptr;
        if (result.received) {
            received = result.partial + (unit.head * split.chunks + unit.chunk) * params.keys;
            std::fill(received, received + params.keys, 0.0f);
        }
        for (int64_t group = split.first_group(unit.chunk); group < split.first_group(unit.chunk + 1); group++)
            run_row_blocks(head, group, received);
    }

    void sum_received(int64_t head) const {
        const float* partial = result.partial + head * split.chunks * params.keys;
        sum_chunks(partial, split.chunks, params.keys, result.received + head * params.keys);
    }

  private:
    const AttentionParams& params;
    const ForwardResult& result;
    WorkSplit split;
    bool with_stats;
    int64_t key_blocks;

    size_t scratch_floats() const {
        auto padded = [](int64_t floats) { return Scratch::padded(floats); };
        size_t row_block = padded(ROW_BLOCK * params.d_head) + padded(ROW_BLOCK * params.d_value) +
                           5 * padded(ROW_BLOCK) + padded(KeyTopK::scratch_floats(result.k));
        if (result.received) row_block += padded(ROW_BLOCK * params.keys) + padded(ROW_BLOCK * key_blocks);
        return split.group_blocks * row_block + padded(ROW_BLOCK * split.key_block) + padded(ROW_BLOCK * KEY_SUBBLOCK);
    }

    ForwardRowBlock allocate(const Head& head, int64_t first) const {
        Scratch& memory = scratch();
        ForwardRowBlock block{
            RowBlock(head, first, params.queries),
            memory.take(ROW_BLOCK * params.d_head),
            memory.take(ROW_BLOCK * params.d_value),
            {},
            {},
            nullptr,
            nullptr,
            nullptr
        };
        block.softmax = {
            memory.take(ROW_BLOCK), memory.take(ROW_BLOCK), memory.take(ROW_BLOCK), memory.take(ROW_BLOCK)
        };
        block.row_hashes = (uint32_t*)memory.take(ROW_BLOCK);
        if (result.k) block.top_k = KeyTopK(result.k, memory.take(KeyTopK::scratch_floats(result.k)));
        if (result.received)
            block.weights = memory.take(ROW_BLOCK * params.keys), block.block_max = memory.take(ROW_BLOCK * key_blocks);
        return block;
    }

    void start(const Head& head, ForwardRowBlock& block) const {
        const RowBlock& rows = block.rows;
        FloatRows Q = head.Q.load_rows(rows.first, rows.count);
        pack_rows(Q, params.d_head, rows.count, query_scale(params), block.queries);
        std::fill(block.output, block.output + ROW_BLOCK * params.d_value, 0.0f);
        block.softmax.reset();
        if (result.k) block.top_k.reset();
        if (params.dropout > 0) hash_rows(head, rows, block.row_hashes);
    }

    // The row blocks of one group take turns at each key block, so that its keys and values stay in the cache.
    void run_row_blocks(const Head& head, int64_t group, float* received) const {
        scratch().reserve(scratch_floats());
        float* S = scratch().take(ROW_BLOCK * split.key_block);
        float* dropped = scratch().take(ROW_BLOCK * KEY_SUBBLOCK);
        int64_t group_rows = split.group_blocks * ROW_BLOCK;
        int64_t first = group * group_rows, last = std::min(first + group_rows, params.queries);
        std::vector<ForwardRowBlock> blocks;
        for (int64_t row = first; row < last; row += ROW_BLOCK) blocks.push_back(allocate(head, row));
        for (ForwardRowBlock& block : blocks) start(head, block);
        for (int64_t b = 0; b < key_blocks; b++)
            for (ForwardRowBlock& block : blocks) process_key_block(head, block, b, S, dropped);
        for (ForwardRowBlock& block : blocks) write_results(head, block, received);
    }

    // One key block: scores, top keys, new running maximum, weights, and weights times values.
    void process_key_block(const Head& head, ForwardRowBlock& block, int64_t b, float* S, float* dropped) const {
        const RowBlock& rows = block.rows;
        KeySpans spans(head, rows, b * split.key_block, (b + 1) * split.key_block);
        if (!any_visible(head, rows, spans)) {
            if (block.weights) std::fill_n(block.block_max + b * ROW_BLOCK, ROW_BLOCK, __builtin_inff());
            return;
        }
        S = block.weights ? block.weights : S - b * split.key_block * ROW_BLOCK;
        Floats row_max[ROW_VECTORS];
        compute_scores(head, rows, spans, block.queries, S, nullptr, row_max);
        for (int v = 0; v < rows.vectors; v++) {
            if (result.k) block.top_k.update(ScoreSlice{head, rows, v, spans.begin[v], spans.end[v], S});
            rescale_output(block, v, block.softmax.rescale(v, row_max[v]));
            float* block_max = block.block_max + b * ROW_BLOCK + v * W;
            if (block.weights) store(block_max, finite_max(load(block.softmax.row_max + v * W)));
        }
        for (int64_t first = b * split.key_block; first < spans.key_end; first += KEY_SUBBLOCK) {
            int64_t begin = std::max(first, spans.key_begin), end = std::min(first + KEY_SUBBLOCK, spans.key_end);
            accumulate_values(head, block, spans, begin, end, S, dropped);
        }
    }

    void rescale_output(ForwardRowBlock& block, int v, Floats factor) const {
        if (!greater_mask(broadcast(1.0f), factor)) return;
        for (int64_t k = 0; k < params.d_value; k++) {
            float* at = block.output + k * ROW_BLOCK + v * W;
            store(at, load(at) * factor);
        }
    }

    void accumulate_values(
        const Head& head, ForwardRowBlock& block, const KeySpans& spans, int64_t first, int64_t last, float* S,
        float* dropped
    ) const {
        const RowBlock& rows = block.rows;
        float* P = S;
        if (params.dropout > 0) P = dropped - first * ROW_BLOCK;
        for (int v = 0; v < rows.vectors; v++) {
            ScoreSlice slice{head, rows, v, std::max(first, spans.begin[v]), std::min(last, spans.end[v]), S};
            Floats base = finite_max(load(block.softmax.row_max + v * W));
            block.softmax.add(v, exp_scores(slice, base, with_stats));
            if (params.dropout > 0) apply_dropout(slice, block.row_hashes, S, P);
        }
        for_each_segment(spans, rows.vectors, first, last, [&](int64_t j, int64_t end, int v0, int v1) {
            head.V.for_each_run(j, end, [&](const FloatRows& V, int64_t j, int64_t end) {
                accumulate_pv(V.data, V.stride, params.d_value, P + j * ROW_BLOCK, block.output, end - j, v0, v1);
            });
        });
    }

    void write_results(const Head& head, const ForwardRowBlock& block, float* received) const {
        float zeros[ROW_BLOCK] = {};
        const RowBlock& rows = block.rows;
        int64_t first_row = head.index() * params.queries + rows.first;
        RowStats stats(rows, block.softmax, zeros);  // the largest weight is 2^0 before the division
        stats.write(result, first_row, rows.count);
        if (result.lse) memcpy(result.lse + first_row, stats.lse, sizeof(float) * rows.count);
        for (int i = 0; result.k && i < rows.count; i++)
            block.top_k.write(i, stats.base[i], stats.inv_sum[i], first_row + i, result);
        const int64_t* strides = result.output_strides;
        float* output = result.output + head.batch * strides[0] + head.head * strides[1] + rows.first * strides[2];
        unpack_rows(block.output, params.d_value, rows.count, stats.inv_sum, output, strides[2]);
        if (result.nonfinite && any_nonfinite(block.output, params.d_value, rows.count)) set_flag(result.nonfinite);
        if (received) add_received(head, block, stats, received);
    }

    // The stored weights are relative to the maximum at their time; now the last maximum and the sum are known.
    void add_received(const Head& head, const ForwardRowBlock& block, RowStats& stats, float* received) const {
        const RowBlock& rows = block.rows;
        std::fill(stats.inv_sum + rows.count, stats.inv_sum + ROW_BLOCK, 0.0f);  // rows past the end add nothing
        for (int64_t b = 0; b < key_blocks; b++) {
            KeySpans spans(head, rows, b * split.key_block, (b + 1) * split.key_block);
            const float* block_max = block.block_max + b * ROW_BLOCK;
            if (spans.empty() || block_max[0] == __builtin_inff()) continue;
            Floats factor[ROW_VECTORS];
            for (int v = 0; v < rows.vectors; v++) {
                Floats gap = load(block_max + v * W) - finite_max(load(block.softmax.row_max + v * W));
                factor[v] = exp2(gap) * load(stats.inv_sum + v * W);
            }
            add_column_sums(rows, spans, block.weights, factor, received);
        }
    }
};

}  // namespace transom
