// The change of a number without each edge, to first order: A / (1 − A) · (g·o − g·v), or −A g·v after the softmax.
//
// A block of rows goes over the keys: scores as for the weights, and a second product, of the values with the gradient
// of the rows. An edge with nearly all weight of its row is computed at the end, from the row's other keys.
#pragma once
#include "online_softmax.hpp"
#include "pack_rows.hpp"
#include "scratch.hpp"

namespace transom {

constexpr float NEAR_ONE = 0.9f;  // above this weight, 1 − A has lost digits
constexpr int64_t CHANGES_KEY_BLOCK = 256;  // keys at a time: scores and products stay in the L2 cache

// A row block on its way over the key blocks.
struct ChangeRows {
    RowBlock rows;
    float *queries, *gradients;  // [d_head][ROW_BLOCK], [d_value][ROW_BLOCK]
    float *S, *GV;  // [key block][ROW_BLOCK]: scores, then changes; g·v
    float *GO, *rest, *GV_rest;  // [ROW_BLOCK]: g·o; Σ A and Σ A g·v over the keys that are not near one
    LogSumExp2 lse;
    int64_t near_key[ROW_BLOCK];  // the key with nearly all weight, or −1

    bool any_near() const {
        return std::any_of(near_key, near_key + rows.count, [](int64_t key) { return key >= 0; });
    }

    // The change without the key that has nearly all weight: what the other keys say instead.
    float near_change(int i) const { return rest[i] > 0.0f ? GV_rest[i] / rest[i] - GO[i] : -GO[i]; }
};

class EdgeChanges {
  public:
    EdgeChanges(const AttentionParams& params, const InfluenceParams& influence)
        : params(params), influence(influence) {}

    static size_t scratch_floats(const AttentionParams& params, int64_t key_block) {
        auto padded = [](int64_t floats) { return Scratch::padded(floats); };
        return padded(ROW_BLOCK * params.d_head) + padded(ROW_BLOCK * params.d_value) +
               2 * padded(ROW_BLOCK * key_block) + 5 * padded(ROW_BLOCK);
    }

    // The rows from `first` on, with memory that the scratch has reserved.
    ChangeRows begin(const Head& head, const RowBlock& rows, int64_t key_block) const {
        Scratch& memory = scratch();
        float *queries = memory.take(ROW_BLOCK * params.d_head), *gradients = memory.take(ROW_BLOCK * params.d_value);
        float *S = memory.take(ROW_BLOCK * key_block), *GV = memory.take(ROW_BLOCK * key_block);
        float *GO = memory.take(ROW_BLOCK), *rest = memory.take(ROW_BLOCK), *GV_rest = memory.take(ROW_BLOCK);
        ChangeRows block{rows, queries, gradients, S, GV, GO, rest, GV_rest, {}, {}};
        block.lse = {memory.take(ROW_BLOCK), memory.take(ROW_BLOCK)};
        int64_t row = head.index() * params.queries + rows.first;
        pack_rows(head.Q.load_rows(rows.first, rows.count), params.d_head, rows.count, query_scale(params), queries);
        FloatRows G{influence.gradient + row * params.d_value, params.d_value};
        pack_rows(G, params.d_value, rows.count, UnitFactor(), gradients);
        block.lse.set(influence.lse + row, rows.count);
        for (int i = 0; i < ROW_BLOCK; i++) {
            GO[i] = i < rows.count ? influence.GO[row + i] : 0.0f;
            rest[i] = GV_rest[i] = 0.0f, block.near_key[i] = -1;
        }
        return block;
    }

    // The changes of the spans' keys into S; 0 for masked edges, and for now for one near one. S and GV are indexed
    // from key 0.
    void compute(const Head& head, ChangeRows& block, const KeySpans& spans, float* S, float* GV) const {
        const RowBlock& rows = block.rows;
        Floats row_max[ROW_VECTORS];
        compute_scores(head, rows, spans, block.queries, S, nullptr, row_max);
        Floats unused[ROW_VECTORS] = {};
        for_each_segment(
            spans, rows.vectors, spans.key_begin, spans.key_end, [&](int64_t j, int64_t end, int v0, int v1) {
                head.V.for_each_run(j, end, [&](const FloatRows& V, int64_t j, int64_t end) {
                    float* to = GV + j * ROW_BLOCK;
                    multiply_kq(V.data, V.stride, block.gradients, params.d_value, to, end - j, v0, v1, unused);
                });
            }
        );
        for (int v = 0; v < rows.vectors; v++) {
            ScoreSlice slice{head, rows, v, spans.begin[v], spans.end[v], S};
            if (influence.after)
                compute_zeroing(block, slice, GV);
            else
                compute_removal(block, slice, GV);
        }
    }

  private:
    const AttentionParams& params;
    const InfluenceParams& influence;

    void compute_zeroing(const ChangeRows& block, const ScoreSlice& slice, const float* GV) const {
        Floats base = load(block.lse.high + slice.v * W), correction = block.lse.correction(slice.v);
        for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
            Floats A = exp2(load(slice.at(j)) - base) * correction;
            store(slice.at(j), -A * load(GV + j * ROW_BLOCK + slice.v * W));
        }
    }

    void compute_removal(ChangeRows& block, const ScoreSlice& slice, const float* GV) const {
        int at = slice.v * W;
        Floats base = load(block.lse.high + at), correction = block.lse.correction(slice.v), GO = load(block.GO + at);
        Floats rest = load(block.rest + at), GV_rest = load(block.GV_rest + at);
        for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
            Floats A = exp2(load(slice.at(j)) - base) * correction, gv = load(GV + j * ROW_BLOCK + at);
            A = set_near_aside(block, at, j, A);
            rest += A;
            GV_rest = A * gv + GV_rest;
            store(slice.at(j), A * reciprocal(1.0f - A) * (GO - gv));
        }
        store(block.rest + at, rest);
        store(block.GV_rest + at, GV_rest);
    }

    // The weights without those near one, whose keys are remembered.
    INLINE Floats set_near_aside(ChangeRows& block, int at, int64_t key, Floats A) {
        uint32_t near = greater_mask(A, broadcast(NEAR_ONE));
        if (!near) return A;
        for (int i = 0; i < W; i++)
            if (near >> i & 1) block.near_key[at + i] = key;
        return select(A > NEAR_ONE, Floats{}, A);
    }

    // 1 / x for x between 0.1 and 1: two products and a first guess are faster than a division.
    INLINE Floats reciprocal(Floats x) {
#if defined(__AVX512F__)
        Floats guess = (Floats)_mm512_rcp14_ps((__m512)x);
        return guess * (2.0f - x * guess);
#elif defined(__AVX2__)
        Floats guess = (Floats)_mm256_rcp_ps((__m256)x);
        return guess * (2.0f - x * guess);
#else
        return 1.0f / x;
#endif
    }
};

}  // namespace transom
