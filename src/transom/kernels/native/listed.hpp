// Attention of one query for each row, over keys and values that a list of slots names: what a step of writing needs.
//
// Rows that have a past in common name the same slots, so that nothing is copied when a search goes on from another
// row; what a row may not look at is not in its list.
#pragma once
#include "scratch.hpp"
#include "transpose.hpp"

namespace transom {

// Lanes of x, each changed places with the one S further or before.
template <int S, int... I>
INLINE Lanes swapped(Lanes x, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(x, x, (I ^ S)...);
}

template <int S = W / 2>
INLINE float largest_of(Lanes x) {
    x = larger(x, swapped<S>(x, std::make_integer_sequence<int, W>{}));
    if constexpr (S > 1) return largest_of<S / 2>(x);
    return x[0];
}

template <int S = W / 2>
INLINE float sum_of(Lanes x) {
    x += swapped<S>(x, std::make_integer_sequence<int, W>{});
    if constexpr (S > 1) return sum_of<S / 2>(x);
    return x[0];
}

// The slots that each row looks at.
struct Lists {
    int32_t* slots;  // [lists][stride]
    int64_t stride, length;  // how far apart the lists lie, and where they end unless `end` says otherwise
    const int32_t *begin, *end;  // of each list, where not 0 and `length`
    const int32_t* which;  // the list of each row, where it is not the row's own number

    int64_t list(int64_t row) const { return which ? which[row] : row; }
};

struct Listed {
    int64_t heads, kv_heads, d;
    const float* held;  // [slots][2][kv_heads][d]: keys, then values
    const Lists& lists;
    const float* added;  // to the scores: [heads][places], the last for the last key; or nothing
    int64_t places;

    // output[heads][d] of a row with these queries[heads][d].
    void run(int64_t row, const float* queries, float* output) const {
        int64_t list = lists.list(row);
        const int32_t* slots = lists.slots + list * lists.stride;
        int64_t first = lists.begin ? lists.begin[list] : 0, last = lists.end ? lists.end[list] : lists.length;
        scratch().begin(Scratch::padded(last - first + W));
        float* weights = scratch().take(last - first + W);
        for (int64_t head = 0; head < heads; head++) {
            const float* K = held + head / (heads / kv_heads) * d;
            const float* more = added ? added + (head + 1) * places - (last - first) : nullptr;
            float total = weigh(queries + head * d, K, slots + first, last - first, more, weights);
            mix(K + kv_heads * d, slots + first, last - first, weights, 1.0f / total, output + head * d);
        }
    }

  private:
    const float* at(const float* from, int32_t slot) const { return from + (int64_t)slot * 2 * kv_heads * d; }

    // e^(score − the highest) of each key; gives their sum.
    float weigh(
        const float* q, const float* K, const int32_t* slots, int64_t keys, const float* more, float* weights
    ) const {
        const float scale = LOG2_E / __builtin_sqrtf((float)d);
        Lanes most = all(NEVER), total{};
        for (int64_t j = 0; j < keys; j += W) {
            Lanes products[W] = {};
            for (int i = 0; i < W && j + i < keys; i++) products[i] = product(q, at(K, slots[j + i]));
            Lanes scores = sums(products) * scale;
            if (more) scores += load_few(more + j, keys - j) * LOG2_E;
            if (j + W > keys) scores = choose(lane_numbers() < (int32_t)(keys - j), scores, all(NEVER));
            store(weights + j, scores);
            most = larger(most, scores);
        }
        Lanes highest = all(largest_of(most));
        for (int64_t j = 0; j < keys; j += W) {
            Lanes weight = exp2(load(weights + j) - highest);
            store(weights + j, weight);
            total += weight;
        }
        return sum_of(total);
    }

    // Lane by lane; the sum of the lanes is q · k.
    Lanes product(const float* q, const float* k) const {
        Lanes sum{};
        int64_t i = 0;
        for (; i + W <= d; i += W) sum = load(q + i) * load(k + i) + sum;
        return i < d ? load_few(q + i, d - i) * load_few(k + i, d - i) + sum : sum;
    }

    void mix(
        const float* V, const int32_t* slots, int64_t keys, const float* weights, float share, float* output
    ) const {
        int64_t i = 0;
        for (; i + 2 * W <= d; i += 2 * W) {
            Lanes low{}, high{};
            for (int64_t j = 0; j < keys; j++) {
                const float* value = at(V, slots[j]) + i;
                low = load(value) * weights[j] + low;
                high = load(value + W) * weights[j] + high;
            }
            store(output + i, low * share);
            store(output + i + W, high * share);
        }
        for (; i < d; i += W) {
            Lanes sum{};
            for (int64_t j = 0; j < keys; j++) sum = load_few(at(V, slots[j]) + i, d - i) * weights[j] + sum;
            store_few(output + i, sum * share, d - i);
        }
    }
};

}  // namespace transom
