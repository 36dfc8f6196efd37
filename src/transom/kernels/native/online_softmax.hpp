// Online softmax: a running maximum and running sums of each row, rescaled when a key block raises the maximum
// (Milakov and Gimelshein 2018; Dao et al. 2022, FlashAttention, section 3.1). Scores are in base 2: e^s = 2^(s log₂e).
#pragma once
#include <cmath>

#include "scores.hpp"

namespace transom {

constexpr int64_t KEY_SUBBLOCK = 128;  // keys whose weights are computed and used at a time: they stay in the L1 cache

// Of each row of one vector, with the weights w = 2^t: Σ w, Σ w t (for the entropy) and Σ w · distance.
struct RowSums {
    Floats sum{}, entropy_sum{}, distance_sum{};
};

// Replace the slice's scores by the weights 2^(score − base) and sum them up; STATS: for entropy and distance too.
template <bool STATS>
static RowSums exp_scores(const ScoreSlice& slice, Floats base) {
    RowSums sums;
    Floats distance{};
    if (STATS) {
        int64_t position = slice.first_row() + slice.head.params.start - slice.key_begin;
        distance = __builtin_convertvector(lane_index(), Floats) + (float)position;
    }
#pragma GCC unroll 2
    for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
        Floats t = load(slice.at(j)) - base;
        Floats w = exp2(t);
        store(slice.at(j), w);
        sums.sum += w;
        if (STATS) {
            sums.entropy_sum = w * clamp_min(t, -1e30f) + sums.entropy_sum;  // 0 · −∞ would be NaN
            sums.distance_sum = w * abs(distance) + sums.distance_sum;
            distance -= 1.0f;
        }
    }
    return sums;
}

static RowSums exp_scores(const ScoreSlice& slice, Floats base, bool with_stats) {
    return with_stats ? exp_scores<true>(slice, base) : exp_scores<false>(slice, base);
}

// What is subtracted from a row's scores: the maximum, or 0 for a row that has seen no key yet.
INLINE Floats finite_max(Floats row_max) { return select(row_max == NEG_INF, Floats{}, row_max); }

// The running maximum and sums of one row block, each [ROW_BLOCK].
struct RunningSoftmax {
    float *row_max, *row_sum, *entropy_sum, *distance_sum;

    void reset() {
        for (int i = 0; i < ROW_BLOCK; i++) row_max[i] = NEG_INF, row_sum[i] = entropy_sum[i] = distance_sum[i] = 0.0f;
    }

    // Take in the maximum of a new key block. Returns the factor by which everything summed so far shrinks.
    Floats rescale(int v, Floats block_max) {
        Floats old_max = load(row_max + v * W), new_max = maximum(old_max, block_max);
        Floats gap = clamp_min(old_max - finite_max(new_max), -1e30f), factor = exp2(gap);
        store(row_max + v * W, new_max);
        store(entropy_sum + v * W, (load(entropy_sum + v * W) + gap * load(row_sum + v * W)) * factor);
        store(row_sum + v * W, load(row_sum + v * W) * factor);
        store(distance_sum + v * W, load(distance_sum + v * W) * factor);
        return factor;
    }

    void add(int v, const RowSums& sums) {
        store(row_sum + v * W, load(row_sum + v * W) + sums.sum);
        store(entropy_sum + v * W, load(entropy_sum + v * W) + sums.entropy_sum);
        store(distance_sum + v * W, load(distance_sum + v * W) + sums.distance_sum);
    }
};

// The results of each row, from sums relative to softmax.row_max; the row's largest weight is 2^peak_exponent /
// row_sum. A fully masked row has 0 everywhere and a log-sum-exp of −∞.
struct RowStats {
    float base[ROW_BLOCK], lse[ROW_BLOCK], inv_sum[ROW_BLOCK], entropy[ROW_BLOCK], peak[ROW_BLOCK], distance[ROW_BLOCK];

    RowStats(const RowBlock& rows, const RunningSoftmax& softmax, const float* peak_exponent) {
        for (int v = 0; v < rows.vectors; v++) {
            int at = v * W;
            Floats row_max = load(softmax.row_max + at), row_sum = load(softmax.row_sum + at);
            Ints visible = row_sum != 0.0f;
            Floats log_sum = log(select(visible, row_sum, broadcast(1.0f)));
            Floats inverse = select(visible, 1.0f / row_sum, Floats{});
            Floats sum = select(row_max == -FLT_MAX, row_max, row_max * (float)LN_2 + log_sum);
            store(base + at, finite_max(row_max));
            store(lse + at, select(visible, sum, broadcast(NEG_INF)));
            store(inv_sum + at, inverse);
            store(entropy + at, clamp_min(log_sum - (float)LN_2 * load(softmax.entropy_sum + at) * inverse, 0.0f));
            store(peak + at, exp2(load(peak_exponent + at)) * inverse);
            store(distance + at, load(softmax.distance_sum + at) * inverse);
        }
    }

    void write(const ForwardResult& result, int64_t first_row, int count) const {
        auto copy = [&](const float* from, float* to) {
            if (to) memcpy(to + first_row, from, sizeof(float) * count);
        };
        copy(entropy, result.entropy);
        copy(peak, result.peak);
        copy(distance, result.distance);
    }
};

// The log-sum-exp of each row in base 2, as high + low: the rounding error of one float would enter every weight.
struct LogSumExp2 {
    float *high, *low;  // [ROW_BLOCK]

    // Fully masked rows, and rows past the end, get a number that makes every weight 0.
    void set(const float* lse, int count) const {
        typedef double Doubles __attribute__((vector_size(8 * W)));
        for (int v = 0; v < ROW_BLOCK; v += W) {
            Floats natural = load_partial(lse + v, count - v);
            Ints visible = (natural != NEG_INF) & (lane_index() < count - v);
            Doubles exact = __builtin_convertvector(natural, Doubles) * LOG2_E_F64;
            exact = exact < -FLT_MAX ? -FLT_MAX - Doubles{} : exact;
            Floats rounded = __builtin_convertvector(exact, Floats);
            Floats rest = __builtin_convertvector(exact - __builtin_convertvector(rounded, Doubles), Floats);
            store(high + v, select(visible, rounded, broadcast(1e30f)));
            store(low + v, select(visible, rest, Floats{}));
        }
    }

    // The factor that weights relative to `high` still need.
    Floats correction(int v) const { return exp2(-load(low + v * W)); }
};

}  // namespace transom
