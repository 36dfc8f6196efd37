// The backward pass from Q, K, V, output and log-sum-exp. The weights P are computed again, key block by key block
// (Dao et al. 2022, FlashAttention, section 3.1). With dO the gradient of the output and D = Σ dO · O of each row:
//   dV = Pᵀ dO,   dS = P ∘ (dO Vᵀ − D),   dQ = scale · dS K,   dK = scale · dSᵀ Q.
#pragma once
#include "column_sums.hpp"
#include "dropout.hpp"
#include "pack_rows.hpp"
#include "scratch.hpp"
#include "work_split.hpp"

namespace transom {

constexpr int64_t KEY_BLOCK_BACKWARD = 96;  // keys at a time: P, dS and what they are multiplied by stay in the cache

// A row block and everything that belongs to it.
struct BackwardRowBlock {
    RowBlock rows;
    float *queries, *dO;  // Q and dO, packed: [d][ROW_BLOCK]
    float *Q_rows, *dO_rows;  // scale · Q and dO as rows, padded with zeros: [ROW_BLOCK][padded d]
    float* delta;  // D
    LogSumExp2 lse;
    float* dQ;  // [d][ROW_BLOCK]
    float *P, *dS, *softcap_grad, *dropped_P;  // [KEY_BLOCK_BACKWARD][ROW_BLOCK]
    uint32_t* row_hashes;
};

class Backward {
  public:
    Backward(const AttentionParams& params, const BackwardParams& gradients)
        : params(params), gradients(gradients), heads_per_kv_head(params.heads / std::max<int64_t>(1, params.kv_heads)),
          row_blocks((params.queries + ROW_BLOCK - 1) / ROW_BLOCK), padded_d_head(padded(params.d_head)),
          padded_d_value(padded(params.d_value)) {
        int64_t heads = std::max<int64_t>(1, kv_heads()), blocks = heads_per_kv_head * row_blocks;
        chunks = std::max<int64_t>(1, std::min(blocks, (MIN_UNITS / 2 + heads - 1) / heads));
    }

    int64_t kv_heads() const { return params.batch * params.kv_heads; }
    int64_t units() const { return kv_heads() * chunks; }
    // Whether dK and dV are summed where they are wanted; if not, each chunk of rows has its own, added up at the end.
    bool sums_in_place() const {
        return chunks == 1 && padded_d_head == params.d_head && padded_d_value == params.d_value;
    }
    // Floats of `partial` that each head of K and V needs.
    int64_t partial_floats() const {
        return sums_in_place() ? 0 : chunks * params.keys * (padded_d_head + padded_d_value);
    }

    void run(int64_t index) const {
        WorkUnit unit(index, chunks);
        int64_t K_floats = params.keys * padded_d_head, V_floats = params.keys * padded_d_value;
        int64_t partial = (unit.head * chunks + unit.chunk) * (K_floats + V_floats);
        float* dK = sums_in_place() ? gradients.dK + unit.head * K_floats : gradients.partial + partial;
        float* dV = sums_in_place() ? gradients.dV + unit.head * V_floats : dK + K_floats;
        std::fill(dK, dK + K_floats, 0.0f);
        std::fill(dV, dV + V_floats, 0.0f);
        int64_t blocks = heads_per_kv_head * row_blocks;
        for (int64_t b = unit.chunk * blocks / chunks; b < (unit.chunk + 1) * blocks / chunks; b++) {
            Head head(params, unit.head * heads_per_kv_head + b / row_blocks);
            backward_row_block(head, b % row_blocks * ROW_BLOCK, dK, dV);
        }
    }

    // dK and dV of one head of K and V, from what each chunk of rows gave, added in their order.
    void sum_partials(int64_t head) const {
        int64_t size = params.keys * (padded_d_head + padded_d_value);
        const float *dK = gradients.partial + head * chunks * size, *dV = dK + params.keys * padded_d_head;
        for (int64_t j = 0; j < params.keys; j++) {
            int64_t key = head * params.keys + j;
            sum_row(dK + j * padded_d_head, size, params.d_head, gradients.dK + key * params.d_head);
            sum_row(dV + j * padded_d_value, size, params.d_value, gradients.dV + key * params.d_value);
        }
    }

  private:
    const AttentionParams& params;
    const BackwardParams& gradients;
    int64_t heads_per_kv_head, row_blocks, padded_d_head, padded_d_value, chunks;

    static int64_t padded(int64_t d) { return (d + W - 1) / W * W; }

    void sum_row(const float* partial, int64_t stride, int64_t d, float* to) const {
        for (int64_t k = 0; k < d; k++) {
            float total = 0.0f;
            for (int64_t c = 0; c < chunks; c++) total += partial[c * stride + k];
            to[k] = total;
        }
    }

    BackwardRowBlock allocate(const Head& head, int64_t first) const {
        Scratch& memory = scratch();
        auto floats = [](int64_t count) { return Scratch::padded(count); };
        memory.reserve(
            2 * floats(ROW_BLOCK * params.d_head) + floats(ROW_BLOCK * params.d_value) +
            floats(ROW_BLOCK * padded_d_head) + floats(ROW_BLOCK * padded_d_value) + 4 * floats(ROW_BLOCK) +
            4 * floats(ROW_BLOCK * KEY_BLOCK_BACKWARD)
        );
        return BackwardRowBlock{
            RowBlock(head, first, params.queries),
            memory.take(ROW_BLOCK * params.d_head),
            memory.take(ROW_BLOCK * params.d_value),
            memory.take(ROW_BLOCK * padded_d_head),
            memory.take(ROW_BLOCK * padded_d_value),
            memory.take(ROW_BLOCK),
            {memory.take(ROW_BLOCK), memory.take(ROW_BLOCK)},
            memory.take(ROW_BLOCK * params.d_head),
            memory.take(ROW_BLOCK * KEY_BLOCK_BACKWARD),
            memory.take(ROW_BLOCK * KEY_BLOCK_BACKWARD),
            memory.take(ROW_BLOCK * KEY_BLOCK_BACKWARD),
            memory.take(ROW_BLOCK * KEY_BLOCK_BACKWARD),
            (uint32_t*)memory.take(ROW_BLOCK)
        };
    }

    BackwardRowBlock prepare(const Head& head, int64_t first) const {
        BackwardRowBlock block = allocate(head, first);
        int count = block.rows.count;
        FloatRows Q = head.Q.load_rows(first, count);
        int64_t first_row = head.index() * params.queries + first;
        const float *dO = gradients.dO + first_row * params.d_value, *O = gradients.output + first_row * params.d_value;
        pack_rows(Q, params.d_head, count, query_scale(params), block.queries);
        pack_rows({dO, params.d_value}, params.d_value, count, UnitFactor{}, block.dO);
        copy_rows(Q, params.d_head, count, SplitFactor(params.scale), block.Q_rows, padded_d_head);
        copy_rows({dO, params.d_value}, params.d_value, count, UnitFactor{}, block.dO_rows, padded_d_value);
        for (int v = 0; v < block.rows.vectors; v++) compute_delta(dO, O, block, v);
        block.lse.set(gradients.lse + first_row, count);
        for (int i = 0; i < count; i++)  // the weights of a fully masked row are 0, but 0 · NaN in its query is NaN
            if (gradients.lse[first_row + i] == NEG_INF)
                std::fill_n(block.Q_rows + i * padded_d_head, padded_d_head, 0.0f);
        std::fill(block.dQ, block.dQ + ROW_BLOCK * params.d_head, 0.0f);
        if (params.dropout > 0) hash_rows(head, block.rows, block.row_hashes);
        return block;
    }

    template <class Scale>
    static void copy_rows(const FloatRows& from, int64_t d, int count, const Scale& factor, float* to, int64_t width) {
        for (int i = 0; i < count; i++)
            for (int64_t k = 0; k < width; k += W)
                store(to + i * width + k, factor.apply(load_partial(from.data + i * from.stride + k, d - k)));
    }

    // D = Σ dO · O of each row of one vector.
    void compute_delta(const float* dO, const float* O, const BackwardRowBlock& block, int v) const {
        Floats products[W] = {};
        for (int i = 0; i < W && v * W + i < block.rows.count; i++)
            for (int64_t k = 0; k < params.d_value; k += W) {
                int64_t at = (v * W + i) * params.d_value + k, left = params.d_value - k;
                products[i] = load_partial(dO + at, left) * load_partial(O + at, left) + products[i];
            }
        store(block.delta + v * W, horizontal_sums(products));
    }

    void backward_row_block(const Head& head, int64_t first, float* dK, float* dV) const {
        BackwardRowBlock block = prepare(head, first);
        int64_t j = block.rows.key_begin / KEY_BLOCK_BACKWARD * KEY_BLOCK_BACKWARD;
        for (; j < block.rows.key_end; j += KEY_BLOCK_BACKWARD) {
            KeySpans spans(head, block.rows, j, j + KEY_BLOCK_BACKWARD);
            if (any_visible(head, block.rows, spans)) process_key_block(head, block, spans, j * ROW_BLOCK, dK, dV);
        }
        if (any_nonfinite(block.dQ, params.d_head, block.rows.count)) set_flag(gradients.nonfinite);
        float factor[ROW_BLOCK];
        std::fill(factor, factor + ROW_BLOCK, (float)params.scale);
        float* dQ = gradients.dQ + (head.index() * params.queries + first) * params.d_head;
        unpack_rows(block.dQ, params.d_head, block.rows.count, factor, dQ, params.d_head);
    }

    // One key block; `offset` moves the block's own arrays so that they are indexed from key 0.
    void process_key_block(
        const Head& head, BackwardRowBlock& block, const KeySpans& spans, int64_t offset, float* dK, float* dV
    ) const {
        const RowBlock& rows = block.rows;
        float *P = block.P - offset, *dS = block.dS - offset;
        float *softcap_grad = block.softcap_grad - offset, *dropped_P = block.dropped_P - offset;
        Floats row_max[ROW_VECTORS];
        compute_scores(head, rows, spans, block.queries, P, softcap_grad, row_max);
        for_each_segment(
            spans, rows.vectors, spans.key_begin, spans.key_end, [&](int64_t j, int64_t end, int v0, int v1) {
                head.V.for_each_run(j, end, [&](const FloatRows& V, int64_t j, int64_t end) {
                    multiply_kq(
                        V.data, V.stride, block.dO, params.d_value, dS + j * ROW_BLOCK, end - j, v0, v1, row_max
                    );
                });
            }
        );
        for (int v = 0; v < rows.vectors; v++) {
            ScoreSlice slice{head, rows, v, spans.begin[v], spans.end[v], P};
            compute_dS(slice, block, dS, softcap_grad, dropped_P);
        }
        if (params.dropout > 0) P = dropped_P;
        for_each_segment(
            spans, rows.vectors, spans.key_begin, spans.key_end, [&](int64_t j, int64_t end, int v0, int v1) {
                int64_t top = v0 * W, bottom = std::min(v1 * W, rows.count);
                head.K.for_each_run(j, end, [&](const FloatRows& K, int64_t j, int64_t end) {
                    accumulate_pv(K.data, K.stride, params.d_head, dS + j * ROW_BLOCK, block.dQ, end - j, v0, v1);
                });
                float *dK_rows = dK + j * padded_d_head, *dV_rows = dV + j * padded_d_value;
                accumulate_outer(dS + j * ROW_BLOCK, block.Q_rows, padded_d_head, dK_rows, end - j, top, bottom);
                accumulate_outer(P + j * ROW_BLOCK, block.dO_rows, padded_d_value, dV_rows, end - j, top, bottom);
            }
        );
    }

    // Turn the slice's scores into weights P, and the gradient of the weights, dO Vᵀ, into that of the scores.
    void compute_dS(
        const ScoreSlice& slice, const BackwardRowBlock& block, float* dS, const float* softcap_grad, float* dropped_P
    ) const {
        Floats high = load(block.lse.high + slice.v * W), low = load(block.lse.low + slice.v * W);
        Floats delta = load(block.delta + slice.v * W);
        if (params.dropout > 0) apply_dropout(slice, block.row_hashes, dS, dS);
        for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
            int64_t at = j * ROW_BLOCK + slice.v * W;
            Floats w = exp2(load(slice.at(j)) - high - low);
            Floats gradient = w * (load(dS + at) - delta);
            if (params.softcap) gradient *= load(softcap_grad + at);
            store(slice.at(j), w);
            store(dS + at, select(w == 0.0f, Floats{}, gradient));  // a masked value may be NaN
        }
        if (params.dropout > 0) apply_dropout(slice, block.row_hashes, slice.S, dropped_P);
    }
};

}  // namespace transom
