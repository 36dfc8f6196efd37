// A decoding step as a list of operations: what the layers of a model do to one new token of each row.
//
// Values live in registers, each [rows][width] with the width of the value in it.
#pragma once
#include <cmath>

#include "packed_gemm.hpp"
#include "paged_attention.hpp"
#include "threads.hpp"

namespace transom {

enum OperationKind : int64_t {
    LINEAR,
    ADD,
    LAYER_NORM,
    RMS_NORM,
    RELU,
    GELU,
    SWIGLU,
    ROTARY,
    ROTARY_HALVES,
    STORE_KV,
    ATTEND,
    GELU_TANH,
    SILU,
    MULTIPLY,
    NORM_HEADS
};

struct Operation {
    int64_t kind, input, other, output;  // registers; −1 is the output of the program
    int64_t in_features, out_features;  // the widths of a row, before and after
    // LINEAR: packed; a norm: gain and shift; NORM_HEADS: gains of queries and of keys; ATTEND: PagedAttention's bias
    const float *weight, *bias;
    float* kv_cache;
    int64_t heads, kv_heads, d_head, slot_table;  // of an attention
    double eps;
};

struct Program {
    const Operation* operations;
    int64_t count;
    float *registers, *output;
    int64_t register_size;  // floats of one register
    int64_t rows, slot;  // how many rows there are; the slot for the keys and values of the first row's new token
    const float* rotary;  // [positions][d_head]: cos and sin of each pair of features of a head
    int64_t positions;  // how many positions `rotary`, and the bias of an ATTEND, are long
    SlotTable slot_tables[2];  // of self-attention, and of cross-attention

    float* at(int64_t index) const { return index < 0 ? output : registers + index * register_size; }
};

static bool parallel_gemm(const PackedGemm& gemm, const float* X, int64_t rows, float* Y, int threads) {
    int64_t out_features = gemm.out_features;
    threads = threads_for(rows * gemm.in_features * out_features, threads);
    return parallel_for(0, panel_count(out_features), threads, [&](int64_t panel) {
        int64_t first = panel * PANEL;
        gemm.run_panel(X, rows, panel, Y + first, out_features, out_features - first);
    });
}

// Each of the functions below works on one row.
static void normalize(const float* x, const Operation& operation, bool subtract_mean, float* y) {
    int64_t n = operation.out_features;
    Floats sum{}, squares{};
    if (subtract_mean)
        for (int64_t i = 0; i < n; i += W) sum += load_partial(x + i, n - i);
    float mean = horizontal_sum(sum) / n;
    for (int64_t i = 0; i < n; i += W) {
        Floats centred = load_partial(x + i, n - i) - mean;
        if (i + W > n) centred = select(lane_index() < (int32_t)(n - i), centred, Floats{});
        squares = centred * centred + squares;
    }
    float factor = 1.0f / sqrtf(horizontal_sum(squares) / n + (float)operation.eps);
    for (int64_t i = 0; i < n; i += W) {
        Floats normed = (load_partial(x + i, n - i) - mean) * factor;
        Floats gain = load_partial(operation.weight + i, n - i), shift = load_partial(operation.bias + i, n - i);
        store_partial(y + i, normed * gain + shift, n - i);
    }
}

static void gelu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
}

static void gelu_tanh(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float inner = 0.7978845608028654f * (x[i] + 0.044715f * x[i] * x[i] * x[i]);
        y[i] = 0.5f * x[i] * (1.0f + tanhf(inner));
    }
}

static void silu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i += W) {
        Floats value = load_partial(x + i, n - i);
        store_partial(y + i, value / (1.0f + exp2(minimum(value * -LOG2_E, broadcast(126.0f)))), n - i);
    }
}

static void activate(int64_t kind, const float* x, float* y, int64_t n) {
    if (kind == GELU) return gelu(x, y, n);
    if (kind == GELU_TANH) return gelu_tanh(x, y, n);
    if (kind == SILU) return silu(x, y, n);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

// silu(gate) · x
static void swiglu(const float* gate, const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i += W) {
        Floats g = load_partial(gate + i, n - i);
        Floats sigmoid = 1.0f / (1.0f + exp2(minimum(g * -LOG2_E, broadcast(126.0f))));
        store_partial(y + i, g * sigmoid * load_partial(x + i, n - i), n - i);
    }
}

// Divide each query and key by its root mean square, times its gain; copy the values after them.
static void norm_heads(const float* x, const Operation& operation, float* y) {
    int64_t d_head = operation.d_head, normed = operation.heads + operation.kv_heads;
    memcpy(y + normed * d_head, x + normed * d_head, sizeof(float) * operation.kv_heads * d_head);
    for (int64_t head = 0; head < normed; head++) {
        const float *from = x + head * d_head, *gain = head < operation.heads ? operation.weight : operation.bias;
        float squares = 0.0f;
        for (int64_t i = 0; i < d_head; i++) squares += from[i] * from[i];
        float factor = 1.0f / sqrtf(squares / d_head + (float)operation.eps);
        for (int64_t i = 0; i < d_head; i++) y[head * d_head + i] = from[i] * factor * gain[i];
    }
}

// Rotate queries and keys, copy the values after them. Pairs are neighbours, or the two halves of a head.
static void rotate(const float* x, const Operation& operation, const float* rotary, bool halves, float* y) {
    int64_t pairs = operation.d_head / 2, step = halves ? 1 : 2, distance = halves ? pairs : 1;
    memcpy(y, x, sizeof(float) * operation.out_features);
    for (int64_t head = 0; head < operation.heads + operation.kv_heads; head++)
        for (int64_t pair = 0; pair < pairs; pair++) {
            int64_t first = head * operation.d_head + pair * step, second = first + distance;
            float cos = rotary[2 * pair], sin = rotary[2 * pair + 1];
            y[first] = x[first] * cos - x[second] * sin;
            y[second] = x[first] * sin + x[second] * cos;
        }
}

static void attend(const Program& program, const Operation& operation, int64_t row, const float* queries, float* y) {
    const SlotTable& table = program.slot_tables[operation.slot_table];
    PagedAttention attention{operation.heads, operation.kv_heads, operation.d_head, operation.kv_cache,
                             table,           operation.weight,   program.positions};
    attention.run(row, queries, y);
}

static void run_row(const Program& program, const Operation& operation, int64_t row) {
    const float* x = program.at(operation.input) + row * operation.in_features;
    const float* other = program.at(operation.other) + row * operation.in_features;
    float* y = program.at(operation.output) + row * operation.out_features;
    int64_t n = operation.out_features, kv_floats = 2 * operation.kv_heads * operation.d_head;
    int64_t position = program.slot_tables[0].length - 1;
    switch (operation.kind) {
        case ADD:
            for (int64_t i = 0; i < n; i++) y[i] = x[i] + other[i];
            return;
        case LAYER_NORM:
            return normalize(x, operation, true, y);
        case RMS_NORM:
            return normalize(x, operation, false, y);
        case RELU:
        case GELU:
        case GELU_TANH:
        case SILU:
            return activate(operation.kind, x, y, n);
        case MULTIPLY:
            for (int64_t i = 0; i < n; i++) y[i] = x[i] * other[i];
            return;
        case NORM_HEADS:
            return norm_heads(x, operation, y);
        case SWIGLU:
            return swiglu(x, other, y, n);
        case ROTARY:
        case ROTARY_HALVES: {
            const float* rotary = program.rotary + position * operation.d_head;
            return rotate(x, operation, rotary, operation.kind == ROTARY_HALVES, y);
        }
        case STORE_KV: {
            float* slot = operation.kv_cache + (program.slot + row) * kv_floats;
            memcpy(slot, x + operation.heads * operation.d_head, sizeof(float) * kv_floats);
            return;
        }
        case ATTEND:
            return attend(program, operation, row, x, y);
    }
}

static bool run_operation(const Program& program, const Operation& operation, int threads) {
    if (operation.kind == LINEAR) {
        PackedGemm gemm{operation.in_features, operation.out_features, operation.weight, operation.bias};
        return parallel_gemm(gemm, program.at(operation.input), program.rows, program.at(operation.output), threads);
    }
    int64_t multiplications = 0;
    if (operation.kind == ATTEND)
        multiplications =
            4 * program.rows * operation.heads * operation.d_head * program.slot_tables[operation.slot_table].length;
    return parallel_for(0, program.rows, threads_for(multiplications, threads), [&](int64_t row) {
        run_row(program, operation, row);
    });
}

}  // namespace transom
