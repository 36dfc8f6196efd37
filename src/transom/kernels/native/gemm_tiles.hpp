// The three matrix products of attention, each a tile of sums held in registers.
//
// Lanes are queries. Qᵀ is packed once per row block; keys and values are read where they are, and each number is
// broadcast to all lanes. Maxima and sums of a row then need no operation across lanes.
//
//        queries →                    queries →                       d →
//   keys [ S = K Qᵀ ]           d [ Oᵀ += Vᵀ P ]            keys [ dV += P dO ]
#pragma once
#include <algorithm>

#include "simd.hpp"

namespace transom {

// sum[R keys][N vectors] = K · queries, over the features [first, last).
template <int R, int N>
INLINE void dot_tile(
    const float* K, int64_t stride, const float* queries, int64_t first, int64_t last, Floats (&sum)[R][N]
) {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) sum[r][v] = Floats{};
#pragma GCC unroll 4
    for (int64_t k = first; k < last; k++) {
        Floats q[N];
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) q[v] = load(queries + k * ROW_BLOCK + v * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            Floats x = broadcast(K[r * stride + k]);
#pragma GCC unroll 3
            for (int v = 0; v < N; v++) sum[r][v] = x * q[v] + sum[r][v];
        }
    }
}

constexpr int64_t DOT_CHUNK = 64;  // features summed in one chain: a sum of short sums rounds less than one long sum

// S[R keys][N vectors] = K · queries; row_max is raised to the largest score of each lane.
template <int R, int N>
INLINE void kq_tile(const float* K, int64_t stride, const float* queries, int64_t d, float* S, Floats* row_max) {
    for (int64_t first = 0; first < d; first += DOT_CHUNK) {
        Floats sum[R][N];
        dot_tile<R, N>(K, stride, queries, first, std::min(first + DOT_CHUNK, d), sum);
        bool last = first + DOT_CHUNK >= d;
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 3
            for (int v = 0; v < N; v++) {
                float* at = S + r * ROW_BLOCK + v * W;
                if (first) sum[r][v] += load(at);
                if (last) row_max[v] = maximum(row_max[v], sum[r][v]);
                store(at, sum[r][v]);
            }
    }
}

template <int N>
static void kq_vectors(
    const float* K, int64_t stride, const float* queries, int64_t d, float* S, int64_t keys, Floats* row_max
) {
    Floats max[N];
    for (int v = 0; v < N; v++) max[v] = row_max[v];
    int64_t j = 0;
    for (; j + TILE_ROWS <= keys; j += TILE_ROWS)
        kq_tile<TILE_ROWS, N>(K + j * stride, stride, queries, d, S + j * ROW_BLOCK, max);
    for (; j + 2 <= keys; j += 2) kq_tile<2, N>(K + j * stride, stride, queries, d, S + j * ROW_BLOCK, max);
    if (j < keys) kq_tile<1, N>(K + j * stride, stride, queries, d, S + j * ROW_BLOCK, max);
    for (int v = 0; v < N; v++) row_max[v] = max[v];
}

// S = K · queries for these keys and vectors [v0, v1) of the row block.
static inline void multiply_kq(
    const float* K, int64_t stride, const float* queries, int64_t d, float* S, int64_t keys, int v0, int v1,
    Floats* row_max
) {
    queries += v0 * W, S += v0 * W, row_max += v0;
    if (v1 - v0 == 3) kq_vectors<3>(K, stride, queries, d, S, keys, row_max);
    if (v1 - v0 == 2) kq_vectors<2>(K, stride, queries, d, S, keys, row_max);
    if (v1 - v0 == 1) kq_vectors<1>(K, stride, queries, d, S, keys, row_max);
}

// Oᵀ[R features][N vectors] += Vᵀ · P.
template <int R, int N>
INLINE void pv_tile(const float* V, int64_t stride, const float* P, float* O, int64_t keys) {
    Floats sum[R][N] = {};  // not starting from O: a sum of short sums rounds less than one long sum
#pragma GCC unroll 4
    for (int64_t j = 0; j < keys; j++) {
        Floats p[N];
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) p[v] = load(P + j * ROW_BLOCK + v * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            Floats x = broadcast(V[j * stride + r]);
#pragma GCC unroll 3
            for (int v = 0; v < N; v++) sum[r][v] = x * p[v] + sum[r][v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) store(O + r * ROW_BLOCK + v * W, load(O + r * ROW_BLOCK + v * W) + sum[r][v]);
}

template <int N>
static void pv_vectors(const float* V, int64_t stride, int64_t d, const float* P, float* O, int64_t keys) {
    int64_t k = 0;
    for (; k + TILE_ROWS <= d; k += TILE_ROWS) pv_tile<TILE_ROWS, N>(V + k, stride, P, O + k * ROW_BLOCK, keys);
    for (; k + 2 <= d; k += 2) pv_tile<2, N>(V + k, stride, P, O + k * ROW_BLOCK, keys);
    if (k < d) pv_tile<1, N>(V + k, stride, P, O + k * ROW_BLOCK, keys);
}

// Add these keys' values, weighted by P, to the output of vectors [v0, v1).
static inline void accumulate_pv(
    const float* V, int64_t stride, int64_t d, const float* P, float* O, int64_t keys, int v0, int v1
) {
    P += v0 * W, O += v0 * W;
    if (v1 - v0 == 3) pv_vectors<3>(V, stride, d, P, O, keys);
    if (v1 - v0 == 2) pv_vectors<2>(V, stride, d, P, O, keys);
    if (v1 - v0 == 1) pv_vectors<1>(V, stride, d, P, O, keys);
}

constexpr int OUTER_ROWS = 6;
constexpr int OUTER_VECTORS = W == 16 ? 4 : 2;

// G[R keys][N vectors of d] += P[R keys][queries] · B[queries][N vectors of d].
template <int R, int N>
INLINE void outer_tile(const float* P, const float* B, int64_t width, float* G, int64_t first, int64_t last) {
    Floats sum[R][N] = {};
    for (int64_t q = first; q < last; q++) {
        Floats b[N];
#pragma GCC unroll 4
        for (int v = 0; v < N; v++) b[v] = load(B + q * width + v * W);
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            Floats x = broadcast(P[r * ROW_BLOCK + q]);
#pragma GCC unroll 4
            for (int v = 0; v < N; v++) sum[r][v] = x * b[v] + sum[r][v];
        }
    }
#pragma GCC unroll 6
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < N; v++) store(G + r * width + v * W, load(G + r * width + v * W) + sum[r][v]);
}

template <int N>
INLINE void outer_columns(
    const float* P, const float* B, int64_t width, float* G, int64_t keys, int64_t first, int64_t last
) {
    int64_t j = 0;
    for (; j + OUTER_ROWS <= keys; j += OUTER_ROWS)
        outer_tile<OUTER_ROWS, N>(P + j * ROW_BLOCK, B, width, G + j * width, first, last);
    for (; j + 2 <= keys; j += 2) outer_tile<2, N>(P + j * ROW_BLOCK, B, width, G + j * width, first, last);
    if (j < keys) outer_tile<1, N>(P + j * ROW_BLOCK, B, width, G + j * width, first, last);
}

// G[keys][width] += P · B over the queries [first, last); width is a multiple of W.
static inline void accumulate_outer(
    const float* P, const float* B, int64_t width, float* G, int64_t keys, int64_t first, int64_t last
) {
    int64_t k = 0;
    for (; k + OUTER_VECTORS * W <= width; k += OUTER_VECTORS * W)
        outer_columns<OUTER_VECTORS>(P, B + k, width, G + k, keys, first, last);
    for (; k < width; k += W) outer_columns<1>(P, B + k, width, G + k, keys, first, last);
}

}  // namespace transom
