// The likeliest tokens of each row, straight from the product that gives logits: none of these is ever written down,
// as they would take more memory traffic than arithmetic.
#pragma once
#include <cfloat>
#include <cmath>

#include "packed.hpp"

namespace transom {

constexpr int64_t TALL = 16 * HIGH;  // the most rows that go over the matrix together
constexpr int64_t FEW =
    2 * HIGH;  // rows, up to which the matrix is cut as well, so that threads have something to share
constexpr float FAR = 60.0f;  // how much above the base, as a power of 2, a sum can still follow

// How many parts of the vocabulary are looked through on their own. By the shape alone, as everything that cuts work.
INLINE int64_t chunks(int64_t rows) { return rows <= FEW ? 4 : 1; }

// The k largest numbers of one row so far, largest first, and where each stands, of equals the first; and Σ e^x.
struct Foremost {
    int64_t k;
    float* values;
    int64_t* places;
    bool summed;
    float base = NEVER;  // the sum is of 2^(x log₂e − base)
    Lanes total{};

    void begin() {
        for (int64_t i = 0; i < k; i++) values[i] = NEVER, places[i] = 0;
    }

    void add(float value, int64_t place) {
        int64_t i = k - 1;
        if (!(value > values[i])) return;
        for (; i > 0 && value > values[i - 1]; i--) values[i] = values[i - 1], places[i] = places[i - 1];
        values[i] = value, places[i] = place;
    }

    // W more numbers, −∞ where there are none.
    void see(Lanes x, int64_t place) {
        for (uint32_t bits = above(x, all(values[k - 1])); bits; bits &= bits - 1) {
            int lane = __builtin_ctz(bits);
            add(x[lane], place + lane);
        }
        if (!summed) return;
        Lanes t = x * LOG2_E;
        if (above(t, all(base + FAR)) || base == NEVER) raise(t);
        total += exp2(t - base);
    }

    void raise(Lanes t) {
        float before = base;
        for (int i = 0; i < W; i++) base = t[i] > base ? t[i] : base;
        if (base == NEVER) base = -FLT_MAX;
        total *= exp2(all(before - base));
    }

    float log_sum() const {
        double sum = 0.0;
        for (int i = 0; i < W; i++) sum += total[i];
        return (float)(base * LN_2 + std::log(sum));
    }
};

// What is looked for: k of each row, and its log-sum-exp, where there is room for it.
struct Search {
    Product product;
    const float* X;
    int64_t rows, k;
    float* values;  // [rows][chunks][k]
    int64_t* places;
    float* lse;  // [rows][chunks]

    int64_t tall;  // rows that go over the matrix together: a row's result does not depend on the others

    Search(
        Product product, const float* X, int64_t rows, int64_t k, float* values, int64_t* places, float* lse,
        int threads
    )
        : product(product), X(X), rows(rows), k(k), values(values), places(places), lse(lse) {
        tall = ((rows + threads - 1) / threads + HIGH - 1) / HIGH * HIGH;
        tall = tall < TALL ? tall : TALL;
    }

    int64_t units() const { return (rows + tall - 1) / tall * chunks(rows); }

    void run(int64_t unit) const {
        int64_t cut = chunks(rows), chunk = unit % cut, all_panels = panels(product.outputs);
        int64_t first = unit / cut * tall, last = first + tall < rows ? first + tall : rows;
        Foremost found[TALL];
        for (int64_t row = first; row < last; row++) {
            int64_t place = (row * cut + chunk) * k;
            found[row - first] = {k, values + place, places + place, lse != nullptr};
            found[row - first].begin();
        }
        for (int64_t panel = chunk * all_panels / cut; panel < (chunk + 1) * all_panels / cut; panel++)
            see(panel, first, last, found);
        for (int64_t row = first; lse && row < last; row++) lse[row * cut + chunk] = found[row - first].log_sum();
    }

  private:
    void see(int64_t panel, int64_t first, int64_t last, Foremost* found) const {
        alignas(64) float logits[TALL * PANEL];
        int64_t from = panel * PANEL;
        product.panel(X + first * product.inputs, last - first, panel, logits, PANEL, PANEL);
        for (int64_t row = 0; row < last - first; row++)
            for (int v = 0; v < PANEL && from + v < product.outputs; v += W) {
                Lanes x = load(logits + row * PANEL + v);
                int64_t there = product.outputs - from - v;
                if (there < W) x = choose(lane_numbers() < (int32_t)there, x, all(NEVER));
                found[row].see(x, from + v);
            }
    }
};

}  // namespace transom
