// Products with a weight matrix that is packed once, in panels of two vectors of outputs: lanes are outputs.
//
// Each output is summed over the inputs in order, whatever the number of rows: a row gives the same bits alone and in a
// batch.
#pragma once
#include "transpose.hpp"

namespace transom {

constexpr int PANEL = 2 * W;  // outputs of one panel
constexpr int GEMM_ROWS = W == 16 ? 12 : 6;  // rows at a time: their sums stay in registers

INLINE int64_t panel_count(int64_t out_features) { return (out_features + PANEL - 1) / PANEL; }

// to[in_features][PANEL]: one panel of weight[out_features][in_features]; outputs past the end are 0.
static void pack_panel(const float* weight, int64_t in_features, int64_t out_features, int64_t panel, float* to) {
    for (int v = 0; v < PANEL; v += W)
        for (int64_t k = 0; k < in_features; k += W) {
            Floats row[W];
            for (int i = 0; i < W; i++) {
                int64_t feature = panel * PANEL + v + i;
                row[i] = feature < out_features ? load_partial(weight + feature * in_features + k, in_features - k)
                                                : Floats{};
            }
            transpose(row);
            for (int i = 0; i < W && k + i < in_features; i++) store(to + (k + i) * PANEL + v, row[i]);
        }
}

// Y[rows][out_features] = X[rows][in_features] · weightᵀ + bias.
struct PackedGemm {
    int64_t in_features, out_features;
    const float *weight, *bias;  // packed; the bias is padded to whole panels

    // One panel for all rows; only its first `width` outputs are written, into rows of Y that are `stride` apart.
    void run_panel(const float* X, int64_t rows, int64_t index, float* Y, int64_t stride, int64_t width) const {
        const float *weight_panel = weight + index * in_features * PANEL, *bias_panel = bias + index * PANEL;
        int64_t row = 0;
        for (; row + GEMM_ROWS <= rows; row += GEMM_ROWS)
            tile<GEMM_ROWS>(X + row * in_features, weight_panel, bias_panel, Y + row * stride, stride, width);
        for (; row + 4 <= rows; row += 4)
            tile<4>(X + row * in_features, weight_panel, bias_panel, Y + row * stride, stride, width);
        for (; row < rows; row++)
            tile<1>(X + row * in_features, weight_panel, bias_panel, Y + row * stride, stride, width);
    }

  private:
    template <int R>
    void tile(
        const float* X, const float* panel, const float* bias_panel, float* Y, int64_t stride, int64_t width
    ) const {
        Floats sum[R][2];
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) sum[r][0] = load(bias_panel), sum[r][1] = load(bias_panel + W);
#pragma GCC unroll 2
        for (int64_t k = 0; k < in_features; k++) {
            Floats low = load(panel + k * PANEL), high = load(panel + k * PANEL + W);
            __builtin_prefetch(panel + (in_features + k) * PANEL);  // the next panel
            __builtin_prefetch(panel + (in_features + k) * PANEL + W);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) {
                Floats x = broadcast(X[r * in_features + k]);
                sum[r][0] = x * low + sum[r][0];
                sum[r][1] = x * high + sum[r][1];
            }
        }
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            store_partial(Y + r * stride, sum[r][0], width);
            store_partial(Y + r * stride + W, sum[r][1], width - W);
        }
    }
};

}  // namespace transom
