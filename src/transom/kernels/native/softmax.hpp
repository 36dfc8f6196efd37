// Scores into weights, and what is summed up on the way: e^(s − base) = 2^(s log₂e − base log₂e).
#pragma once
#include <cmath>

#include "scores.hpp"

namespace transom {

constexpr int64_t SUB = 128;  // keys weighed and mixed at a time: their weights stay in the first-level cache

// Of each row of one vector: Σ w, Σ w t and Σ w · distance, with w = 2^t.
struct Sums {
    Lanes total{}, spread{}, away{};

    void add(const Sums& more) { total += more.total, spread += more.spread, away += more.away; }
};

// Replace the strip's scores by 2^(score − base) and sum up; LOOK also sums what entropy and distance need.
template <bool LOOK>
static Sums weigh(const Strip& strip, Lanes base) {
    Sums sums;
    Lanes away{};
    if (LOOK) {
        int64_t position = strip.top() + strip.head.of.start - strip.first;
        away = __builtin_convertvector(lane_numbers(), Lanes) + (float)position;
    }
#pragma GCC unroll 2
    for (int64_t j = strip.first; j < strip.last; j++) {
        Lanes t = load(strip.at(j)) - base;
        Lanes w = exp2(t);
        store(strip.at(j), w);
        sums.total += w;
        if (LOOK) {
            sums.spread = w * at_least(t, -1e30f) + sums.spread;  // 0 · −∞ would be NaN
            sums.away = w * absolute(away) + sums.away;
            away -= 1.0f;
        }
    }
    return sums;
}

static Sums weighed(const Strip& strip, Lanes base, bool look) {
    return look ? weigh<true>(strip, base) : weigh<false>(strip, base);
}

// What is taken off a row's scores; a row that has seen nothing yet has no maximum to take off.
INLINE Lanes usable(Lanes highest) { return choose(highest == NEVER, Lanes{}, highest); }

// The running sums of one block of rows, each [ROWS].
struct Running {
    float *highest, *total, *spread, *away;

    void begin() {
        for (int i = 0; i < ROWS; i++) highest[i] = NEVER, total[i] = spread[i] = away[i] = 0.0f;
    }

    // A new block of keys brings a new maximum: what was summed up before shrinks by the factor returned.
    Lanes raise(int v, Lanes most) {
        Lanes before = load(highest + v * W), now = larger(before, most);
        Lanes gap = at_least(before - usable(now), -1e30f), shrunk = exp2(gap);
        store(highest + v * W, now);
        store(spread + v * W, (load(spread + v * W) + gap * load(total + v * W)) * shrunk);
        store(total + v * W, load(total + v * W) * shrunk);
        store(away + v * W, load(away + v * W) * shrunk);
        return shrunk;
    }

    void add(int v, const Sums& more) {
        store(total + v * W, load(total + v * W) + more.total);
        store(spread + v * W, load(spread + v * W) + more.spread);
        store(away + v * W, load(away + v * W) + more.away);
    }
};

// What is told of each row, from sums that are relative to `running.highest`; the largest of its weights is 2^most. A
// row that may look nowhere has none of anything, and a log-sum-exp of −∞. All are [ROWS].
struct RowFigures {
    float base[ROWS], lse[ROWS], share[ROWS], entropy[ROWS], peak[ROWS], distance[ROWS];

    RowFigures(const Rows& rows, const Running& running, const float* most) {
        for (int v = 0; v < rows.vectors; v++) {
            int at = v * W;
            Lanes highest = load(running.highest + at), total = load(running.total + at);
            Ints looks = total != 0.0f;
            Lanes log_total = log(choose(looks, total, all(1.0f))), inverse = choose(looks, 1.0f / total, Lanes{});
            Lanes sum = choose(highest == -FLT_MAX, highest, highest * (float)LN_2 + log_total);
            store(base + at, usable(highest));
            store(lse + at, choose(looks, sum, all(NEVER)));
            store(share + at, inverse);
            store(entropy + at, at_least(log_total - (float)LN_2 * load(running.spread + at) * inverse, 0.0f));
            store(peak + at, exp2(load(most + at)) * inverse);
            store(distance + at, load(running.away + at) * inverse);
        }
    }

    void tell(const Found& found, int64_t place, int count) const {
        auto copied = [&](const float* from, float* to) {
            if (to) memcpy(to + place, from, sizeof(float) * count);
        };
        copied(entropy, found.entropy);
        copied(peak, found.peak);
        copied(distance, found.distance);
    }
};

// The log-sum-exp of each row in units of log 2, in two parts: what its rounding loses would go into every weight.
struct InLog2 {
    float *whole, *rest;  // [ROWS]

    // Of a row that may look nowhere, and of one that is not there, a number that makes every weight 0.
    void take(const float* lse, int count) const {
        typedef double Doubles __attribute__((vector_size(8 * W)));
        for (int v = 0; v < ROWS; v += W) {
            Lanes given = load_few(lse + v, count - v);
            Ints looks = (given != NEVER) & (lane_numbers() < count - v);
            Doubles exact = __builtin_convertvector(given, Doubles) * PER_LN_2;
            exact = exact < -FLT_MAX ? -FLT_MAX - Doubles{} : exact;
            Lanes rounded = __builtin_convertvector(exact, Lanes);
            Lanes left = __builtin_convertvector(exact - __builtin_convertvector(rounded, Doubles), Lanes);
            store(whole + v, choose(looks, rounded, all(1e30f)));
            store(rest + v, choose(looks, left, Lanes{}));
        }
    }

    // What weights relative to `whole` are to be multiplied by.
    Lanes correction(int v) const { return exp2(-load(rest + v * W)); }
};

}  // namespace transom
