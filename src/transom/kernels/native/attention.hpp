// One attention as it is handed over: sizes, tensors with their strides, and who may look at whom.
#pragma once
#include <cstdint>

extern "C" {

enum Precision { FLOAT32, BFLOAT16, FLOAT16 };

// One of several masks that must all say yes, itself made of three of which one is enough: by position, key, document.
struct Either {
    int64_t ahead, behind;  // as those of the attention
    const uint8_t* real;  // per key, not 0: everybody may look at it
    int64_t real_strides[2];  // batch, head
    const int32_t* documents;  // per key; a row may look at all of its own
    int64_t documents_stride;  // batch
};

// Strides count numbers, not bytes; the last axis of every tensor is dense. A pointer that is null is not there.
struct Attention {
    int64_t batch, heads, kv_heads, queries, keys, d_head, d_value;
    const void *Q, *K, *V;
    int64_t Q_strides[3], K_strides[3], V_strides[3];  // batch, head, row
    int64_t precision;  // of Q, K and V, a Precision
    double scale;
    double softcap;  // 0: none

    int64_t start;  // the position of row 0 among the keys, for distances
    int64_t ahead, behind;  // row i sees keys from i + behind on, and before i + ahead
    const uint8_t* real;  // per key, 0: nobody may look at it
    int64_t real_strides[2];  // batch, head
    const int32_t* documents;  // per key; a row sees its own alone, and rows are the last of the keys
    int64_t documents_stride;  // batch
    const uint8_t* given;  // per row and key, 0: may not look
    int64_t given_strides[3];  // batch, head, row
    const float* bias;  // per row and key, added to the scores
    int64_t bias_strides[3];  // batch, head, row
    const float* by_distance;  // per head, added to the score of row i and key j at [i − j + keys − 1]
    int64_t by_distance_stride;  // head
    const Either* either;
    int64_t eithers;  // how many there are

    double dropout;
    uint64_t seed;
};

// What is to be found; null: not wanted. All are dense: (batch, heads, queries), or as said.
struct Found {
    float* output;
    int64_t output_strides[3];  // batch, head, row
    float* lse;
    float *entropy, *peak, *distance;
    float* received;  // (batch, heads, keys)
    float* partial;  // (batch · heads, chunks, keys): sums of received on their way
    float* top_weights;  // (batch, heads, queries, k)
    int64_t* top_keys;
    int64_t k;
    int32_t* wild;  // set to 1 where the output holds a number that is not finite
};

// A window of one head's weights, pooled into cells of tall × wide.
struct Window {
    int64_t batch, head, first_row, last_row, first_key, last_key, tall, wide;
    float *sums, *highest;  // (cells down, cells across); either may be null
};

struct Gradients {
    const float *output, *lse, *of_output;  // dense
    float *Q, *K, *V;  // dense
    float* partial;  // gradients on their way, as many numbers as transom_backward_numbers says
    int32_t* wild;  // set to 1 where the gradient of Q holds a number that is not finite
};
}
