// Products with a matrix that is laid out for them once: its outputs in panels of two vectors, lanes are outputs.
//
// The sum of each output goes over the inputs in their order, whatever the number of rows: a row comes out with the
// same bits alone and among others.
#pragma once
#include "transpose.hpp"

namespace transom {

constexpr int PANEL = 2 * W;  // outputs side by side
constexpr int HIGH = W == 16 ? 12 : 6;  // rows at a time: their sums of one panel stay in registers

INLINE int64_t panels(int64_t outputs) { return (outputs + PANEL - 1) / PANEL; }

// to[inputs][PANEL]: one panel of matrix[outputs][inputs]; outputs that are not there are 0.
static void pack_panel(const float* matrix, int64_t inputs, int64_t outputs, int64_t panel, float* to) {
    for (int v = 0; v < PANEL; v += W)
        for (int64_t k = 0; k < inputs; k += W) {
            Lanes row[W];
            for (int i = 0; i < W; i++) {
                int64_t output = panel * PANEL + v + i;
                row[i] = output < outputs ? load_few(matrix + output * inputs + k, inputs - k) : Lanes{};
            }
            transpose(row);
            for (int i = 0; i < W && k + i < inputs; i++) store(to + (k + i) * PANEL + v, row[i]);
        }
}

// One product: Y[rows][outputs] = X[rows][inputs] · matrix + shift.
struct Product {
    int64_t inputs, outputs;
    const float *matrix, *shift;  // packed; the shift is padded to whole panels

    // All rows of one panel, of which `wide` outputs are wanted; the rows of Y lie `stride` apart.
    void panel(const float* X, int64_t rows, int64_t number, float* Y, int64_t stride, int64_t wide) const {
        const float *from = matrix + number * inputs * PANEL, *add = shift + number * PANEL;
        int64_t row = 0;
        for (; row + HIGH <= rows; row += HIGH) tile<HIGH>(X + row * inputs, from, add, Y + row * stride, stride, wide);
        for (; row + 4 <= rows; row += 4) tile<4>(X + row * inputs, from, add, Y + row * stride, stride, wide);
        for (; row < rows; row++) tile<1>(X + row * inputs, from, add, Y + row * stride, stride, wide);
    }

  private:
    template <int R>
    void tile(const float* X, const float* panel, const float* add, float* Y, int64_t stride, int64_t wide) const {
        Lanes sum[R][2];
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) sum[r][0] = load(add), sum[r][1] = load(add + W);
#pragma GCC unroll 2
        for (int64_t k = 0; k < inputs; k++) {
            Lanes low = load(panel + k * PANEL), high = load(panel + k * PANEL + W);
            __builtin_prefetch(panel + (inputs + k) * PANEL);  // the next panel
            __builtin_prefetch(panel + (inputs + k) * PANEL + W);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) {
                Lanes x = all(X[r * inputs + k]);
                sum[r][0] = x * low + sum[r][0];
                sum[r][1] = x * high + sum[r][1];
            }
        }
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            store_few(Y + r * stride, sum[r][0], wide);
            store_few(Y + r * stride + W, sum[r][1], wide - W);
        }
    }
};

}  // namespace transom
