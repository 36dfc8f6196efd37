// The scores of a row block for a run of keys, in base 2 (times log₂e): product, soft cap, bias, and −∞ where masked.
// S is [keys][ROW_BLOCK].
#pragma once
#include <cfloat>

#include "gemm_tiles.hpp"
#include "pack_rows.hpp"
#include "row_block.hpp"

namespace transom {

// What packed queries are multiplied by. With a soft cap, log₂e is applied after the cap instead.
static inline SplitFactor query_scale(const AttentionParams& params) {
    return SplitFactor(params.softcap ? params.scale : params.scale * LOG2_E_F64);
}

// The scores of one vector of rows for the keys [key_begin, key_end).
struct ScoreSlice {
    const Head& head;
    const RowBlock& rows;
    int v;
    int64_t key_begin, key_end;
    float* S;  // indexed from key 0, whether or not key 0 is stored

    float* at(int64_t j) const { return S + j * ROW_BLOCK + v * W; }
    int64_t first_row() const { return rows.first + v * W; }
    int row_count() const { return std::min(W, rows.count - v * W); }
    INLINE_MEMBER void mask_unless(int64_t j, Ints visible) const {
        store(at(j), select(visible, load(at(j)), broadcast(NEG_INF)));
    }
};

// softcap · tanh(s / softcap); softcap_grad, unless null, becomes its derivative.
static void apply_softcap(const ScoreSlice& slice, float* softcap_grad) {
    float cap = (float)slice.head.params.softcap;
    for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
        Floats capped = tanh(load(slice.at(j)) * (1.0f / cap));
        store(slice.at(j), capped * (cap * LOG2_E));
        if (softcap_grad) store(softcap_grad + j * ROW_BLOCK + slice.v * W, 1.0f - capped * capped);
    }
}

static void add_distance_bias(const ScoreSlice& slice) {
    const AttentionParams& params = slice.head.params;
    const float* bias =
        params.distance_bias + slice.head.head * params.distance_bias_stride + slice.first_row() + params.keys - 1;
    int64_t row_count = slice.row_count();
    for (int64_t j = slice.key_begin; j < slice.key_end; j++)
        store(slice.at(j), load(slice.at(j)) + load_partial(bias - j, row_count) * LOG2_E);
}

// A finite bias stays finite: a row that is −FLT_MAX everywhere still gives every key the same weight.
INLINE Floats bias_to_log2(Floats bias) { return select(bias > NEG_INF, clamp_min(bias * LOG2_E, -FLT_MAX), bias); }

static void add_bias(const ScoreSlice& slice) {
    const Head& head = slice.head;
    const int64_t* strides = head.params.bias_strides;
    const float* rows =
        head.params.bias + head.batch * strides[0] + head.head * strides[1] + slice.first_row() * strides[2];
    for (int64_t j = slice.key_begin; j < slice.key_end; j += W) {
        Floats tile[W];
        for (int i = 0; i < W; i++)
            tile[i] = i < slice.row_count() ? load_partial(rows + i * strides[2] + j, slice.key_end - j) : Floats{};
        transpose(tile);
        for (int i = 0; i < W && j + i < slice.key_end; i++)
            store(slice.at(j + i), load(slice.at(j + i)) + bias_to_log2(tile[i]));
    }
}

// The first `count` bytes as integers.
INLINE Ints load_bytes(const uint8_t* from, int64_t count) {
    typedef uint8_t Bytes __attribute__((vector_size(W)));
    Bytes bytes{};
    memcpy(&bytes, from, count < W ? count : W);
    return __builtin_convertvector(bytes, Ints);
}

static void apply_mask(const ScoreSlice& slice) {
    const Head& head = slice.head;
    const int64_t* strides = head.params.mask_strides;
    const uint8_t* rows =
        head.params.mask + head.batch * strides[0] + head.head * strides[1] + slice.first_row() * strides[2];
    for (int64_t j = slice.key_begin; j < slice.key_end; j += W) {
        Floats tile[W];
        for (int i = 0; i < W; i++)
            tile[i] =
                i < slice.row_count() ? as_floats(load_bytes(rows + i * strides[2] + j, slice.key_end - j)) : Floats{};
        transpose(tile);
        for (int i = 0; i < W && j + i < slice.key_end; i++) slice.mask_unless(j + i, as_ints(tile[i]) != 0);
    }
}

static void apply_key_mask(const ScoreSlice& slice) {
    for (int64_t j = slice.key_begin; j < slice.key_end; j++)
        if (!slice.head.key_mask[j]) store(slice.at(j), broadcast(NEG_INF));
}

// The document of each row: the rows are the last of the keys.
INLINE Ints load_row_documents(const ScoreSlice& slice, const int32_t* documents) {
    const AttentionParams& params = slice.head.params;
    const int32_t* first = documents + params.keys - params.queries + slice.first_row();
    Ints row_documents = broadcast_int(-1);
    memcpy(&row_documents, first, sizeof(int32_t) * slice.row_count());
    return row_documents;
}

static void apply_document_mask(const ScoreSlice& slice) {
    const int32_t* documents = slice.head.documents;
    Ints row_documents = load_row_documents(slice, documents);
    for (int64_t j = slice.key_begin; j < slice.key_end; j++) slice.mask_unless(j, row_documents == documents[j]);
}

// Which rows see key j: those with row + window_begin ≤ j < row + window_end.
INLINE Ints in_window(const ScoreSlice& slice, int64_t j, int64_t window_begin, int64_t window_end) {
    auto bounded = [](int64_t x) { return (int32_t)std::clamp<int64_t>(x, -(1 << 30), 1 << 30); };
    int32_t after = bounded(j - window_end - slice.first_row()), before = bounded(j - window_begin - slice.first_row());
    return (lane_index() > after) & (lane_index() <= before);
}

static void apply_window(const ScoreSlice& slice) {
    const AttentionParams& params = slice.head.params;
    for (int64_t j = slice.key_begin; j < slice.key_end; j++)
        slice.mask_unless(j, in_window(slice, j, params.window_begin, params.window_end));
}

static const uint8_t* or_key_mask(const Head& head, const OrMaskParams& or_mask) {
    const int64_t* strides = or_mask.key_mask_strides;
    return or_mask.key_mask ? or_mask.key_mask + head.batch * strides[0] + head.head * strides[1] : nullptr;
}

static const int32_t* or_documents(const Head& head, const OrMaskParams& or_mask) {
    return or_mask.documents ? or_mask.documents + head.batch * or_mask.documents_stride : nullptr;
}

// Mask what no part of the "or" allows.
static void apply_or_mask(const ScoreSlice& slice, const OrMaskParams& or_mask) {
    const uint8_t* key_mask = or_key_mask(slice.head, or_mask);
    const int32_t* documents = or_documents(slice.head, or_mask);
    Ints row_documents = documents ? load_row_documents(slice, documents) : Ints{};
    for (int64_t j = slice.key_begin; j < slice.key_end; j++) {
        if (key_mask && key_mask[j]) continue;
        Ints visible = in_window(slice, j, or_mask.window_begin, or_mask.window_end);
        if (documents) visible |= row_documents == documents[j];
        slice.mask_unless(j, visible);
    }
}

static Floats row_maxima(const ScoreSlice& slice) {
    Floats max = broadcast(NEG_INF);
    for (int64_t j = slice.key_begin; j < slice.key_end; j++) max = maximum(max, load(slice.at(j)));
    return max;
}

// Everything but the product and the window.
static void apply_biases_and_masks(const ScoreSlice& slice, float* softcap_grad) {
    const AttentionParams& params = slice.head.params;
    if (params.softcap) apply_softcap(slice, softcap_grad);
    if (params.distance_bias) add_distance_bias(slice);
    if (params.bias) add_bias(slice);
    if (params.key_mask) apply_key_mask(slice);
    if (params.documents) apply_document_mask(slice);
    if (params.mask) apply_mask(slice);
    for (int64_t n = 0; n < params.or_mask_count; n++) apply_or_mask(slice, params.or_masks[n]);
}

// The scores of the spans' keys, into S, and the maximum of each row (−∞ if it sees none), into row_max.
static void compute_scores(
    const Head& head, const RowBlock& rows, const KeySpans& spans, const float* queries, float* S, float* softcap_grad,
    Floats* row_max
) {
    const AttentionParams& params = head.params;
    bool plain = head.is_plain();
    Floats unused[ROW_VECTORS] = {};
    auto products = [&](int64_t first, int64_t last, Floats* max) {
        for_each_segment(spans, rows.vectors, first, last, [&](int64_t j, int64_t end, int v0, int v1) {
            head.K.for_each_run(j, end, [&](const FloatRows& K, int64_t j, int64_t end) {
                multiply_kq(K.data, K.stride, queries, params.d_head, S + j * ROW_BLOCK, end - j, v0, v1, max);
            });
        });
    };
    for (int v = 0; v < ROW_VECTORS; v++) row_max[v] = broadcast(NEG_INF);
    products(spans.key_begin, spans.full_begin, unused);
    products(spans.full_begin, spans.full_end, plain ? row_max : unused);
    products(spans.full_end, spans.key_end, unused);
    for (int v = 0; v < rows.vectors; v++) {
        int64_t begin = spans.begin[v], end = spans.end[v];
        ScoreSlice all{head, rows, v, begin, end, S};
        ScoreSlice before{head, rows, v, begin, std::min(end, spans.full_begin), S};
        ScoreSlice after{head, rows, v, std::max(begin, spans.full_end), end, S};
        if (!plain) apply_biases_and_masks(all, softcap_grad);
        apply_window(before);
        apply_window(after);
        if (!plain)
            row_max[v] = row_maxima(all);
        else
            row_max[v] = maximum(row_max[v], maximum(row_maxima(before), row_maxima(after)));
    }
}

// Whether the mask lets any of the rows see any of these keys.
static bool any_visible_in_mask(const Head& head, const RowBlock& rows, const KeySpans& spans) {
    const int64_t* strides = head.params.mask_strides;
    const uint8_t* at = head.params.mask + head.batch * strides[0] + head.head * strides[1] + rows.first * strides[2];
    for (int i = 0; i < rows.count; i++)
        for (int64_t j = spans.key_begin; j < spans.key_end; j++)
            if (at[i * strides[2] + j]) return true;
    return false;
}

// The same for an "or" of masks. For documents it may return true although no row sees a key.
static bool any_visible_in_or_mask(
    const Head& head, const RowBlock& rows, const KeySpans& spans, const OrMaskParams& or_mask
) {
    int64_t last = rows.first + rows.count - 1;
    if (spans.key_begin < last + or_mask.window_end && spans.key_end > rows.first + or_mask.window_begin) return true;
    const uint8_t* key_mask = or_key_mask(head, or_mask);
    for (int64_t j = spans.key_begin; key_mask && j < spans.key_end; j++)
        if (key_mask[j]) return true;
    const int32_t* documents = or_documents(head, or_mask);
    if (!documents) return false;
    const int32_t* first = documents + head.params.keys - head.params.queries + rows.first;
    int32_t lowest = *std::min_element(first, first + rows.count);
    int32_t highest = *std::max_element(first, first + rows.count);
    for (int64_t j = spans.key_begin; j < spans.key_end; j++)
        if (documents[j] >= lowest && documents[j] <= highest) return true;
    return false;
}

// Whether any of the rows may see any of these keys; if not, the key block is skipped.
static bool any_visible(const Head& head, const RowBlock& rows, const KeySpans& spans) {
    if (spans.empty() || (head.params.mask && !any_visible_in_mask(head, rows, spans))) return false;
    for (int64_t n = 0; n < head.params.or_mask_count; n++)
        if (!any_visible_in_or_mask(head, rows, spans, head.params.or_masks[n])) return false;
    return true;
}

}  // namespace transom
