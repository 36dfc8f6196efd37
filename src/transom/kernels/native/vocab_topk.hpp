// The most likely tokens of each row, straight from the product that gives the logits. The logits are never stored:
// that would take more time than computing them.
#pragma once
#include <cfloat>
#include <cmath>

#include "packed_gemm.hpp"

namespace transom {

constexpr int64_t MAX_UNIT_ROWS = 16 * GEMM_ROWS;  // rows that share one pass over the matrix, at most
constexpr int64_t CHUNKED_ROWS = 2 * GEMM_ROWS;  // up to so many rows the vocabulary is split too, to feed all threads
constexpr float MAX_RISE = 60.0f;  // a larger 2^(x − base) makes the sum rescale to a new base

// How many chunks the vocabulary is split into: by the shape alone, as in work_split.hpp.
INLINE int64_t vocab_chunks(int64_t rows) { return rows <= CHUNKED_ROWS ? 4 : 1; }

// The k largest logits of one row so far, largest first, and their tokens, the first among equals; and Σ e^x.
struct VocabTopK {
    int64_t k;
    float* values;
    int64_t* tokens;
    bool with_lse;
    float base = NEG_INF;
    Floats sum{};  // Σ 2^(x log₂e − base), lane by lane

    void reset() {
        for (int64_t i = 0; i < k; i++) values[i] = NEG_INF, tokens[i] = 0;
    }

    void insert(float value, int64_t token) {
        int64_t i = k - 1;
        if (!(value > values[i])) return;
        for (; i > 0 && value > values[i - 1]; i--) values[i] = values[i - 1], tokens[i] = tokens[i - 1];
        values[i] = value, tokens[i] = token;
    }

    // Take in W logits, −∞ past the end of the vocabulary.
    void update(Floats x, int64_t token) {
        for (uint32_t bits = greater_mask(x, broadcast(values[k - 1])); bits; bits &= bits - 1) {
            int lane = __builtin_ctz(bits);
            insert(x[lane], token + lane);
        }
        if (!with_lse) return;
        Floats t = x * LOG2_E;
        if (greater_mask(t, broadcast(base + MAX_RISE)) || base == NEG_INF) rescale(t);
        sum += exp2(t - base);
    }

    void rescale(Floats t) {
        float old_base = base;
        for (int i = 0; i < W; i++) base = t[i] > base ? t[i] : base;
        if (base == NEG_INF) base = -FLT_MAX;
        sum *= exp2(broadcast(old_base - base));
    }

    float log_sum_exp() const {
        double total = 0.0;
        for (int i = 0; i < W; i++) total += sum[i];
        return (float)(base * LN_2 + std::log(total));
    }
};

// The top k of each row and chunk of the vocabulary, and its log-sum-exp unless lse is null.
struct VocabSearch {
    PackedGemm gemm;
    const float* X;
    int64_t rows, k;
    float* values;  // [rows][chunks][k]
    int64_t* tokens;
    float* lse;  // [rows][chunks]

    int64_t rows_per_unit;  // a row's result does not depend on the others of its unit

    VocabSearch(
        PackedGemm gemm, const float* X, int64_t rows, int64_t k, float* values, int64_t* tokens, float* lse,
        int threads
    )
        : gemm(gemm), X(X), rows(rows), k(k), values(values), tokens(tokens), lse(lse) {
        rows_per_unit = ((rows + threads - 1) / threads + GEMM_ROWS - 1) / GEMM_ROWS * GEMM_ROWS;
        rows_per_unit = rows_per_unit < MAX_UNIT_ROWS ? rows_per_unit : MAX_UNIT_ROWS;
    }

    int64_t units() const { return (rows + rows_per_unit - 1) / rows_per_unit * vocab_chunks(rows); }

    void run(int64_t unit) const {
        int64_t chunks = vocab_chunks(rows), chunk = unit % chunks, panels = panel_count(gemm.out_features);
        int64_t first = unit / chunks * rows_per_unit;
        int64_t last = first + rows_per_unit < rows ? first + rows_per_unit : rows;
        VocabTopK top_k[MAX_UNIT_ROWS];
        for (int64_t row = first; row < last; row++) {
            int64_t at = (row * chunks + chunk) * k;
            top_k[row - first] = {k, values + at, tokens + at, lse != nullptr};
            top_k[row - first].reset();
        }
        for (int64_t panel = chunk * panels / chunks; panel < (chunk + 1) * panels / chunks; panel++)
            search_panel(panel, first, last, top_k);
        for (int64_t row = first; lse && row < last; row++)
            lse[row * chunks + chunk] = top_k[row - first].log_sum_exp();
    }

  private:
    void search_panel(int64_t panel, int64_t first, int64_t last, VocabTopK* top_k) const {
        alignas(64) float logits[MAX_UNIT_ROWS * PANEL];
        int64_t token = panel * PANEL;
        gemm.run_panel(X + first * gemm.in_features, last - first, panel, logits, PANEL, PANEL);
        for (int64_t row = 0; row < last - first; row++)
            for (int v = 0; v < PANEL && token + v < gemm.out_features; v += W) {
                Floats x = load(logits + row * PANEL + v);
                int64_t left = gemm.out_features - token - v;
                if (left < W) x = select(lane_index() < (int32_t)left, x, broadcast(NEG_INF));
                top_k[row].update(x, token + v);
            }
    }
};

}  // namespace transom
