// A step of writing as a list of operations on rows of numbers: what the layers of a model do to one token of each row.
//
// Numbers live in registers, each [rows][width] with the width of what is in it.
#pragma once
#include <cmath>

#include "listed.hpp"
#include "packed.hpp"
#include "threads.hpp"

namespace transom {

enum Kind : int64_t { PRODUCT, ADD, LAYER_NORM, RMS_NORM, RELU, GELU, GATE, TURN, TURN_HALVES, KEEP, LOOK };

struct Operation {
    int64_t kind, from, other, to;  // registers; −1 is the output
    int64_t inputs, outputs;  // numbers of a row, before and after
    const float *matrix, *shift;  // of a product, packed; gain and shift of a norm; what a look adds, see Listed
    float* held;  // keys and values
    int64_t heads, kv_heads, d, list;  // of an attention, and which lists it goes by
    double eps;
};

struct Program {
    const Operation* operations;
    int64_t count;
    float *space, *output;
    int64_t size;  // numbers of one register
    int64_t rows, slot;  // how many rows there are; the slot of the first row's new keys and values
    const float* turns;  // [places][d]: cos and sin at each position, of each pair of numbers of a head
    int64_t places;  // positions that turns, and what looks add, are there for
    Lists lists[2];  // of the rows' own past, and of their sources

    float* at(int64_t number) const { return number < 0 ? output : space + number * size; }
};

// As many threads as gain more than they cost, for so many multiplications.
INLINE int worth(int64_t multiplications, int threads) { return multiplications < (1 << 20) ? 1 : threads; }

static bool shared_product(const Product& product, const float* X, int64_t rows, float* Y, int threads) {
    int64_t outputs = product.outputs;
    threads = worth(rows * product.inputs * outputs, threads);
    return share(0, panels(outputs), threads, [&](int64_t number) {
        int64_t first = number * PANEL;
        product.panel(X, rows, number, Y + first, outputs, outputs - first);
    });
}

// Each of the functions below does one row of `n` numbers.
static void norm(const float* x, const Operation& by, bool centred, float* y) {
    int64_t n = by.outputs;
    Lanes total{}, squares{};
    if (centred)
        for (int64_t i = 0; i < n; i += W) total += load_few(x + i, n - i);
    float mean = sum_of(total) / n;
    for (int64_t i = 0; i < n; i += W) {
        Lanes rest = load_few(x + i, n - i) - mean;
        if (i + W > n) rest = choose(lane_numbers() < (int32_t)(n - i), rest, Lanes{});
        squares = rest * rest + squares;
    }
    float factor = 1.0f / sqrtf(sum_of(squares) / n + (float)by.eps);
    for (int64_t i = 0; i < n; i += W) {
        Lanes rest = (load_few(x + i, n - i) - mean) * factor;
        store_few(y + i, rest * load_few(by.matrix + i, n - i) + load_few(by.shift + i, n - i), n - i);
    }
}

static void gelu(const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678118654752f));
}

// silu(gate) · x
static void gated(const float* gate, const float* x, float* y, int64_t n) {
    for (int64_t i = 0; i < n; i += W) {
        Lanes g = load_few(gate + i, n - i), share = 1.0f / (1.0f + exp2(smaller(g * -LOG2_E, all(126.0f))));
        store_few(y + i, g * share * load_few(x + i, n - i), n - i);
    }
}

// Queries and keys turned, the values behind them as they were. Neighbours are pairs, or the halves of a head.
static void turned(const float* x, const Operation& by, const float* turn, bool halves, float* y) {
    int64_t pairs = by.d / 2, step = halves ? 1 : 2, apart = halves ? pairs : 1;
    memcpy(y, x, sizeof(float) * by.outputs);
    for (int64_t head = 0; head < by.heads + by.kv_heads; head++)
        for (int64_t pair = 0; pair < pairs; pair++) {
            int64_t first = head * by.d + pair * step, second = first + apart;
            float cos = turn[2 * pair], sin = turn[2 * pair + 1];
            y[first] = x[first] * cos - x[second] * sin;
            y[second] = x[first] * sin + x[second] * cos;
        }
}

static void do_row(const Program& in, const Operation& by, int64_t row) {
    const float* x = in.at(by.from) + row * by.inputs;
    const float* other = in.at(by.other) + row * by.inputs;
    float* y = in.at(by.to) + row * by.outputs;
    int64_t n = by.outputs, kept = 2 * by.kv_heads * by.d;
    switch (by.kind) {
        case ADD:
            for (int64_t i = 0; i < n; i++) y[i] = x[i] + other[i];
            return;
        case LAYER_NORM:
            return norm(x, by, true, y);
        case RMS_NORM:
            return norm(x, by, false, y);
        case RELU:
            for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
            return;
        case GELU:
            return gelu(x, y, n);
        case GATE:
            return gated(x, other, y, n);
        case TURN:
        case TURN_HALVES:
            return turned(x, by, in.turns + (in.lists[0].length - 1) * by.d, by.kind == TURN_HALVES, y);
        case KEEP:
            memcpy(by.held + (in.slot + row) * kept, x + by.heads * by.d, sizeof(float) * kept);
            return;
        case LOOK:
            return Listed{by.heads, by.kv_heads, by.d, by.held, in.lists[by.list], by.matrix, in.places}.run(row, x, y);
    }
}

static bool run(const Program& in, const Operation& by, int threads) {
    if (by.kind == PRODUCT) {
        Product product{by.inputs, by.outputs, by.matrix, by.shift};
        return shared_product(product, in.at(by.from), in.rows, in.at(by.to), threads);
    }
    int64_t looked = by.kind == LOOK ? 4 * in.rows * by.heads * by.d * in.lists[by.list].length : 0;
    return share(0, in.rows, worth(looked, threads), [&](int64_t row) { do_row(in, by, row); });
}

}  // namespace transom
