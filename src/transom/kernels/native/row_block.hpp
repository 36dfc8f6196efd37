// One head, a block of its rows, and the keys that each vector of rows may see by position.
#pragma once
#include <algorithm>

#include "input_rows.hpp"
#include "params.hpp"
#include "simd.hpp"

namespace transom {

// One head of one batch entry. All its visible keys lie in [key_begin, key_end).
struct Head {
    const AttentionParams& params;
    int64_t batch, head, kv_head;
    InputRows Q, K, V;
    const uint8_t* key_mask = nullptr;
    const int32_t* documents = nullptr;
    int64_t key_begin = 0, key_end;

    Head(const AttentionParams& params, int64_t index)
        : params(params), batch(index / params.heads), head(index % params.heads),
          kv_head(head / (params.heads / params.kv_heads)),
          Q(params.Q, params.Q_strides, batch, head, params.d_head, params.dtype),
          K(params.K, params.K_strides, batch, kv_head, params.d_head, params.dtype),
          V(params.V, params.V_strides, batch, kv_head, params.d_value, params.dtype), key_end(params.keys) {
        if (params.documents) documents = params.documents + batch * params.documents_stride;
        if (!params.key_mask) return;
        key_mask = params.key_mask + batch * params.key_mask_strides[0] + head * params.key_mask_strides[1];
        while (key_end > 0 && !key_mask[key_end - 1]) key_end--;
        while (key_begin < key_end && !key_mask[key_begin]) key_begin++;
    }

    int64_t index() const { return batch * params.heads + head; }

    // Whether a score is the product of query and key alone, and the window is the only mask.
    bool is_plain() const {
        return !params.key_mask && !params.documents && !params.mask && !params.or_mask_count && !params.bias &&
               !params.distance_bias && params.softcap == 0.0;
    }
};

// Up to ROW_BLOCK rows. All their visible keys lie in [key_begin, key_end).
struct RowBlock {
    int64_t first;
    int count, vectors;
    int64_t key_begin, key_end;

    RowBlock(const Head& head, int64_t first, int64_t row_end)
        : first(first), count((int)std::min<int64_t>(ROW_BLOCK, row_end - first)), vectors((count + W - 1) / W) {
        key_begin = std::max(head.key_begin, first + head.params.window_begin);
        key_end = std::min(head.key_end, first + count - 1 + head.params.window_end);
        if (head.documents) trim_to_documents(head);
        key_end = std::max(key_begin, key_end);
    }

  private:
    // Leave out the keys at both ends whose documents lie outside those of the rows.
    void trim_to_documents(const Head& head) {
        const int32_t* documents = head.documents + head.params.keys - head.params.queries + first;
        int32_t lowest = *std::min_element(documents, documents + count);
        int32_t highest = *std::max_element(documents, documents + count);
        auto outside = [&](int64_t j) { return head.documents[j] < lowest || head.documents[j] > highest; };
        while (key_begin < key_end && outside(key_begin)) key_begin++;
        while (key_begin < key_end && outside(key_end - 1)) key_end--;
    }
};

// Of the keys [key_begin, key_end): vector v of the rows sees [begin[v], end[v]) by position, and every row sees
// [full_begin, full_end).
struct KeySpans {
    int64_t key_begin, key_end;
    int64_t begin[ROW_VECTORS], end[ROW_VECTORS];
    int64_t full_begin, full_end;

    KeySpans(const Head& head, const RowBlock& rows, int64_t first, int64_t last)
        : key_begin(std::max(first, rows.key_begin)), key_end(std::max(key_begin, std::min(last, rows.key_end))),
          full_begin(key_begin), full_end(key_end) {
        for (int v = 0; v < rows.vectors; v++) {
            int64_t top = rows.first + v * W, bottom = std::min(top + W, rows.first + rows.count) - 1;
            begin[v] = std::clamp(top + head.params.window_begin, key_begin, key_end);
            end[v] = std::clamp(bottom + head.params.window_end, begin[v], key_end);
            full_begin = std::max(full_begin, bottom + head.params.window_begin);
            full_end = std::min(full_end, top + head.params.window_end);
        }
        full_begin = std::min(full_begin, key_end);
        full_end = std::max(full_end, full_begin);
    }

    bool empty() const { return key_begin == key_end; }
};

// visit(begin, end, v0, v1) for each run of keys in [first, last) that the same vectors [v0, v1) of rows see.
template <class Visit>
INLINE void for_each_segment(const KeySpans& spans, int vectors, int64_t first, int64_t last, const Visit& visit) {
    for (int64_t j = std::max(first, spans.key_begin), stop = std::min(last, spans.key_end), next; j < stop; j = next) {
        int v0 = 0, v1;
        while (v0 < vectors && spans.end[v0] <= j) v0++;
        for (v1 = v0; v1 < vectors && spans.begin[v1] <= j; v1++) {
        }
        next = stop;
        for (int v = 0; v < vectors; v++) {
            if (spans.begin[v] > j) next = std::min(next, spans.begin[v]);
            if (spans.end[v] > j) next = std::min(next, spans.end[v]);
        }
        if (v1 > v0) visit(j, next, v0, v1);
    }
}

}  // namespace transom
