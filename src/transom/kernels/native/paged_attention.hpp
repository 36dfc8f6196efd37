// Attention of one query per row over keys and values that a list of slots names, as in a decoding step.
//
// Rows with a common past name the same slots, so that beam search copies nothing when it continues from another row.
// Masked keys are not in the list.
#pragma once
#include "scratch.hpp"
#include "transpose.hpp"

namespace transom {

// The slots of the keys that each row sees.
struct SlotTable {
    int32_t* slots;  // [lists][stride]
    int64_t stride, length;  // the distance between lists, and where they end if `end` is null
    const int32_t *begin, *end;  // of each list; null: 0 and `length`
    const int32_t* row_lists;  // the list of each row; null: the row's own index

    int64_t list_of(int64_t row) const { return row_lists ? row_lists[row] : row; }
};

struct PagedAttention {
    int64_t heads, kv_heads, d_head;
    const float* kv_cache;  // [slots][2][kv_heads][d_head]: keys, then values
    const SlotTable& table;
    const float* bias;  // [heads][bias_length], added to the scores, its last number to the last key; or null
    int64_t bias_length;

    // output[heads][d_head] of a row with these queries[heads][d_head].
    void run(int64_t row, const float* queries, float* output) const {
        int64_t list = table.list_of(row);
        const int32_t* slots = table.slots + list * table.stride;
        int64_t first = table.begin ? table.begin[list] : 0, last = table.end ? table.end[list] : table.length;
        scratch().reserve(Scratch::padded(last - first + W));
        float* weights = scratch().take(last - first + W);
        for (int64_t head = 0; head < heads; head++) {
            const float* K = kv_cache + head / (heads / kv_heads) * d_head;
            const float* bias_row = bias ? bias + (head + 1) * bias_length - (last - first) : nullptr;
            float sum = exp_scores(queries + head * d_head, K, slots + first, last - first, bias_row, weights);
            accumulate_values(
                K + kv_heads * d_head, slots + first, last - first, weights, 1.0f / sum, output + head * d_head
            );
        }
    }

  private:
    const float* slot_at(const float* from, int32_t slot) const { return from + (int64_t)slot * 2 * kv_heads * d_head; }

    // weights = e^(score − maximum) of each key; returns their sum.
    float exp_scores(
        const float* q, const float* K, const int32_t* slots, int64_t keys, const float* bias_row, float* weights
    ) const {
        const float scale = LOG2_E / __builtin_sqrtf((float)d_head);
        Floats max = broadcast(NEG_INF), sum{};
        for (int64_t j = 0; j < keys; j += W) {
            Floats products[W] = {};
            for (int i = 0; i < W && j + i < keys; i++) products[i] = dot_lanes(q, slot_at(K, slots[j + i]));
            Floats scores = horizontal_sums(products) * scale;
            if (bias_row) scores += load_partial(bias_row + j, keys - j) * LOG2_E;
            if (j + W > keys) scores = select(lane_index() < (int32_t)(keys - j), scores, broadcast(NEG_INF));
            store(weights + j, scores);
            max = maximum(max, scores);
        }
        Floats row_max = broadcast(horizontal_max(max));
        for (int64_t j = 0; j < keys; j += W) {
            Floats weight = exp2(load(weights + j) - row_max);
            store(weights + j, weight);
            sum += weight;
        }
        return horizontal_sum(sum);
    }

    // Products of q and k lane by lane; the sum of the lanes is q · k.
    Floats dot_lanes(const float* q, const float* k) const {
        Floats sum{};
        int64_t i = 0;
        for (; i + W <= d_head; i += W) sum = load(q + i) * load(k + i) + sum;
        return i < d_head ? load_partial(q + i, d_head - i) * load_partial(k + i, d_head - i) + sum : sum;
    }

    void accumulate_values(
        const float* V, const int32_t* slots, int64_t keys, const float* weights, float inv_sum, float* output
    ) const {
        int64_t i = 0;
        for (; i + 2 * W <= d_head; i += 2 * W) {
            Floats low{}, high{};
            for (int64_t j = 0; j < keys; j++) {
                const float* value = slot_at(V, slots[j]) + i;
                low = load(value) * weights[j] + low;
                high = load(value + W) * weights[j] + high;
            }
            store(output + i, low * inv_sum);
            store(output + i + W, high * inv_sum);
        }
        for (; i < d_head; i += W) {
            Floats sum{};
            for (int64_t j = 0; j < keys; j++)
                sum = load_partial(slot_at(V, slots[j]) + i, d_head - i) * weights[j] + sum;
            store_partial(output + i, sum * inv_sum, d_head - i);
        }
    }
};

}  // namespace transom
