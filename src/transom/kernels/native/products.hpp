// The three matrix products, each a tile of sums held in registers.
//
// Lanes are queries: Qᵀ is packed once per block of ROWS queries, and keys and values, which are read as they lie in
// memory, enter one number at a time. Row sums and maxima then need no step across lanes.
//
//        queries →                    queries →                       d →
//   keys [ S = K Qᵀ ]           d [ Oᵀ += Vᵀ P ]            keys [ dV += P dO ]
#pragma once
#include <algorithm>

#include "lanes.hpp"

namespace transom {

// sum[R keys][N vectors] = K · queries over numbers [first, last) of a key.
template <int R, int N>
INLINE void multiply(
    const float* K, int64_t stride, const float* queries, int64_t first, int64_t last, Lanes (&sum)[R][N]
) {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) sum[r][v] = Lanes{};
#pragma GCC unroll 4
    for (int64_t k = first; k < last; k++) {
        Lanes q[N];
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) q[v] = load(queries + k * ROWS + v * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            Lanes x = all(K[r * stride + k]);
#pragma GCC unroll 3
            for (int v = 0; v < N; v++) sum[r][v] = x * q[v] + sum[r][v];
        }
    }
}

constexpr int64_t CHAIN = 64;  // products summed one after another: a sum of sums loses less than one long sum

// S[R keys][N vectors] = K · queries; `highest` follows the largest of each lane.
template <int R, int N>
INLINE void score_tile(const float* K, int64_t stride, const float* queries, int64_t d, float* S, Lanes* highest) {
    for (int64_t first = 0; first < d; first += CHAIN) {
        Lanes sum[R][N];
        multiply<R, N>(K, stride, queries, first, std::min(first + CHAIN, d), sum);
        bool last = first + CHAIN >= d;
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 3
            for (int v = 0; v < N; v++) {
                float* at = S + r * ROWS + v * W;
                if (first) sum[r][v] += load(at);
                if (last) highest[v] = larger(highest[v], sum[r][v]);
                store(at, sum[r][v]);
            }
    }
}

template <int N>
static void score_vectors(
    const float* K, int64_t stride, const float* queries, int64_t d, float* S, int64_t keys, Lanes* highest
) {
    Lanes most[N];
    for (int v = 0; v < N; v++) most[v] = highest[v];
    int64_t j = 0;
    for (; j + TILE <= keys; j += TILE) score_tile<TILE, N>(K + j * stride, stride, queries, d, S + j * ROWS, most);
    for (; j + 2 <= keys; j += 2) score_tile<2, N>(K + j * stride, stride, queries, d, S + j * ROWS, most);
    if (j < keys) score_tile<1, N>(K + j * stride, stride, queries, d, S + j * ROWS, most);
    for (int v = 0; v < N; v++) highest[v] = most[v];
}

// Scores of these keys for vectors [v0, v1) of the block.
static inline void score(
    const float* K, int64_t stride, const float* queries, int64_t d, float* S, int64_t keys, int v0, int v1,
    Lanes* highest
) {
    queries += v0 * W, S += v0 * W, highest += v0;
    if (v1 - v0 == 3) score_vectors<3>(K, stride, queries, d, S, keys, highest);
    if (v1 - v0 == 2) score_vectors<2>(K, stride, queries, d, S, keys, highest);
    if (v1 - v0 == 1) score_vectors<1>(K, stride, queries, d, S, keys, highest);
}

// Oᵀ[R numbers of a value][N vectors] += Vᵀ · P.
template <int R, int N>
INLINE void mix_tile(const float* V, int64_t stride, const float* P, float* O, int64_t keys) {
    Lanes sum[R][N] = {};  // from 0, not from what O holds: a sum of sums loses less than one long sum
#pragma GCC unroll 4
    for (int64_t j = 0; j < keys; j++) {
        Lanes p[N];
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) p[v] = load(P + j * ROWS + v * W);
#pragma GCC unroll 8
        for (int r = 0; r < R; r++) {
            Lanes x = all(V[j * stride + r]);
#pragma GCC unroll 3
            for (int v = 0; v < N; v++) sum[r][v] = x * p[v] + sum[r][v];
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 3
        for (int v = 0; v < N; v++) store(O + r * ROWS + v * W, load(O + r * ROWS + v * W) + sum[r][v]);
}

template <int N>
static void mix_vectors(const float* V, int64_t stride, int64_t d, const float* P, float* O, int64_t keys) {
    int64_t k = 0;
    for (; k + TILE <= d; k += TILE) mix_tile<TILE, N>(V + k, stride, P, O + k * ROWS, keys);
    for (; k + 2 <= d; k += 2) mix_tile<2, N>(V + k, stride, P, O + k * ROWS, keys);
    if (k < d) mix_tile<1, N>(V + k, stride, P, O + k * ROWS, keys);
}

// Add these keys' values, weighted by P, to the outputs of vectors [v0, v1).
static inline void mix(
    const float* V, int64_t stride, int64_t d, const float* P, float* O, int64_t keys, int v0, int v1
) {
    P += v0 * W, O += v0 * W;
    if (v1 - v0 == 3) mix_vectors<3>(V, stride, d, P, O, keys);
    if (v1 - v0 == 2) mix_vectors<2>(V, stride, d, P, O, keys);
    if (v1 - v0 == 1) mix_vectors<1>(V, stride, d, P, O, keys);
}

constexpr int OUTER_ROWS = 6;
constexpr int OUTER_VECTORS = W == 16 ? 4 : 2;

// G[R keys][N vectors of d] += P[R keys][queries] · B[queries][N vectors of d].
template <int R, int N>
INLINE void outer_tile(const float* P, const float* B, int64_t width, float* G, int64_t first, int64_t last) {
    Lanes sum[R][N] = {};
    for (int64_t q = first; q < last; q++) {
        Lanes b[N];
#pragma GCC unroll 4
        for (int v = 0; v < N; v++) b[v] = load(B + q * width + v * W);
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            Lanes x = all(P[r * ROWS + q]);
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
        outer_tile<OUTER_ROWS, N>(P + j * ROWS, B, width, G + j * width, first, last);
    for (; j + 2 <= keys; j += 2) outer_tile<2, N>(P + j * ROWS, B, width, G + j * width, first, last);
    if (j < keys) outer_tile<1, N>(P + j * ROWS, B, width, G + j * width, first, last);
}

// Add Pᵀ-weighted rows [first, last) of B to the gradients of these keys; `width` is a multiple of W.
static inline void outer(
    const float* P, const float* B, int64_t width, float* G, int64_t keys, int64_t first, int64_t last
) {
    int64_t k = 0;
    for (; k + OUTER_VECTORS * W <= width; k += OUTER_VECTORS * W)
        outer_columns<OUTER_VECTORS>(P, B + k, width, G + k, keys, first, last);
    for (; k < width; k += W) outer_columns<1>(P, B + k, width, G + k, keys, first, last);
}

}  // namespace transom
