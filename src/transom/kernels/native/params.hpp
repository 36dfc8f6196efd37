// What Python hands over: one attention with its sizes, strides and masks, and where the results go.
#pragma once
#include <cstdint>

extern "C" {

enum Dtype { FLOAT32, BFLOAT16, FLOAT16 };

// Masks joined by "or": a row sees a key if one of the three parts allows it. Several of these are joined by "and".
struct OrMaskParams {
    int64_t window_end, window_begin;  // as in AttentionParams
    const uint8_t* key_mask;  // per key; 1: every row sees it
    int64_t key_mask_strides[2];  // batch, head
    const int32_t* documents;  // per key; a row sees every key of its own document
    int64_t documents_stride;  // batch
};

// Strides count elements, not bytes; the last axis of every tensor is dense. A null pointer: there is no such tensor.
struct AttentionParams {
    int64_t batch, heads, kv_heads, queries, keys, d_head, d_value;
    const void *Q, *K, *V;
    int64_t Q_strides[3], K_strides[3], V_strides[3];  // batch, head, row
    int64_t dtype;  // of Q, K and V, a Dtype
    double scale;
    double softcap;  // 0: none

    int64_t start;  // the position of row 0 among the keys; distances are measured from it
    int64_t window_end, window_begin;  // row i sees keys [i + window_begin, i + window_end)
    const uint8_t* key_mask;  // per key; 0: no row sees it
    int64_t key_mask_strides[2];  // batch, head
    const int32_t* documents;  // per key; a row sees its own document alone, and the rows are the last of the keys
    int64_t documents_stride;  // batch
    const uint8_t* mask;  // per row and key; 0: masked
    int64_t mask_strides[3];  // batch, head, row
    const float* bias;  // per row and key, added to the scores
    int64_t bias_strides[3];  // batch, head, row
    const float* distance_bias;  // per head; [i − j + keys − 1] is added to the score of row i and key j
    int64_t distance_bias_stride;  // head
    const OrMaskParams* or_masks;
    int64_t or_mask_count;

    double dropout;
    uint64_t seed;
};

// Where the results go; null: not wanted. All are dense, (batch, heads, queries) unless a comment says otherwise.
struct ForwardResult {
    float* output;
    int64_t output_strides[3];  // batch, head, row
    float* lse;  // the weight statistics alone read it instead of writing it
    float *entropy, *peak, *distance;
    float* received;  // (batch, heads, keys)
    float* partial;  // (batch · heads, chunks, keys): the part of received that each chunk of rows adds
    float* top_weights;  // (batch, heads, queries, k)
    int64_t* top_keys;
    int64_t k;
    int32_t* nonfinite;  // set to 1 if the output holds NaN or infinity
};

// A window of one head's weights, pooled into cells of cell_rows × cell_keys.
struct MapWindow {
    int64_t batch, head, first_row, last_row, first_key, last_key, cell_rows, cell_keys;
    float *sums, *maxima;  // (rows of cells, columns of cells); either may be null
};

// The gradient of a number by the output of an attention, and where its influence goes; all dense. V is finite.
struct InfluenceParams {
    const float *lse, *GO;  // (batch, heads, queries): the log-sum-exp, and gradient · output
    const float* gradient;  // (batch, heads, queries, d_value)
    int64_t after;  // 1: edges are knocked out after the softmax
    float* per_row;  // (batch, heads, queries)
    float* per_key;  // (batch, heads, keys)
    float* partial;  // (batch · heads, chunks, keys): the part of per_key that each chunk of rows adds
    float* top_changes;  // (batch, heads, queries, k), the largest by size first
    int64_t* top_keys;
    int64_t k;
};

// What the backward pass reads and writes; all dense.
struct BackwardParams {
    const float *output, *lse, *dO;
    float *dQ, *dK, *dV;
    float* partial;  // dK and dV of each chunk of rows: transom_backward_partial_floats() floats
    int32_t* nonfinite;  // set to 1 if dQ holds NaN or infinity
};
}
