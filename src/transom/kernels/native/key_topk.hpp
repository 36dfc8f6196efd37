// The k keys with the highest scores, of each row.
//
// The keys of a block are first divided into groups. The k-th largest of the groups' maxima is a lower bound for the
// k-th largest score, which only about k + 1 keys of a row pass, however long the row. Those go into a sorted list.
#pragma once
#include "scores.hpp"

namespace transom {

constexpr int MAX_TOP_K = 32;
constexpr int64_t NO_KEY = INT64_MIN;
typedef int64_t Int64x8 __attribute__((vector_size(64)));
typedef int32_t Int32x8 __attribute__((vector_size(32)));

// Score and key in one integer that sorts by score, and by key, the first highest, among equal scores.
INLINE int64_t pack_rank(float score, int64_t key) {
    int32_t bits;
    memcpy(&bits, &score, sizeof bits);
    int32_t ordered = bits ^ ((bits >> 31) & 0x7fffffff);
    return (int64_t)((uint64_t)(uint32_t)ordered << 32 | (uint32_t)~(uint32_t)key);
}

INLINE float rank_score(int64_t rank) {
    int32_t ordered = (int32_t)(rank >> 32), bits = ordered ^ ((ordered >> 31) & 0x7fffffff);
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

// The next smaller float. Near 0: one that is smaller even if denormals are flushed to 0.
INLINE Floats next_below(Floats x) {
    Ints ordered = as_ints(x) ^ ((as_ints(x) >> 31) & 0x7fffffff);
    ordered -= 1;
    Floats next = as_floats(ordered ^ ((ordered >> 31) & 0x7fffffff));
    next = select(abs(x) <= FLT_MIN, broadcast(-2.0f * FLT_MIN), next);
    return select(x > NEG_INF, next, x);
}

// The K-th largest of the maxima of `groups` groups of keys: at least K keys reach it.
template <int K>
static Floats kth_group_max(const ScoreSlice& slice, int64_t groups) {
    Floats best[K];
    for (int i = 0; i < K; i++) best[i] = broadcast(NEG_INF);
    int64_t group_size = (slice.key_end - slice.key_begin) / groups;
    for (int64_t g = 0; g < groups; g++) {
        int64_t first = slice.key_begin + g * group_size, last = g + 1 < groups ? first + group_size : slice.key_end;
        Floats group_max = load(slice.at(first));
        for (int64_t j = first + 1; j < last; j++) group_max = maximum(group_max, load(slice.at(j)));
#pragma GCC unroll 8
        for (int i = 0; i < K; i++) {
            Floats kept = maximum(best[i], group_max);
            group_max = minimum(best[i], group_max);
            best[i] = kept;
        }
    }
    return best[K - 1];
}

class KeyTopK {
  public:
    static size_t scratch_floats(int64_t k) { return k ? ROW_BLOCK * 2 * (8 + padded_k(k)) + ROW_BLOCK : 0; }

    KeyTopK() = default;
    KeyTopK(int64_t k, float* memory)
        : k(k), width(padded_k(k)), threshold(memory), lists((int64_t*)(memory + ROW_BLOCK)) {}

    void reset() {
        for (int i = 0; i < ROW_BLOCK; i++) {
            threshold[i] = NEG_INF;
            list(i)[-1] = INT64_MAX;
            for (int64_t n = 0; n < width; n++) list(i)[n] = NO_KEY;
        }
    }

    // Take in the scores of one vector of rows.
    void update(const ScoreSlice& slice) {
        float* thresholds = threshold + slice.v * W;
        store(thresholds, maximum(load(thresholds), next_below(lower_bound(slice))));
        int32_t candidates[KEYS_PER_CHECK * W + W];
        for (int64_t j = slice.key_begin; j < slice.key_end; j += KEYS_PER_CHECK) {
            int count = 0, keys = (int)std::min<int64_t>(KEYS_PER_CHECK, slice.key_end - j);
            Floats bound = load(thresholds);
            for (int i = 0; i < keys; i++) count = append_above(load(slice.at(j + i)), bound, i * W, candidates, count);
            for (int n = 0; n < count; n++) insert_key(slice, j + candidates[n] / W, candidates[n] % W);
            if (count > MANY_CANDIDATES) raise_thresholds(slice, thresholds);
        }
    }

    // Take in one score, whatever the threshold is.
    void insert(int row, float score, int64_t key) { insert_rank(list(row), pack_rank(score, key)); }

    // The scores and keys of one row, highest first; −∞ and −1 past the last key.
    void copy(int row, float* scores, int64_t* keys) const {
        for (int64_t n = 0; n < k; n++) {
            int64_t rank = list(row)[n];
            scores[n] = rank == NO_KEY ? NEG_INF : rank_score(rank);
            keys[n] = rank == NO_KEY ? -1 : int64_t(~rank & 0xffffffff);
        }
    }

    // The weights, factor · 2^(score − base), and keys of one row, highest first; 0 and −1 past the last key.
    void write(int row, float base, float factor, int64_t row_index, const ForwardResult& result) const {
        float weights[MAX_TOP_K + W];
        int64_t keys[MAX_TOP_K];
        for (int64_t n = 0; n < width; n += 8) {
            Int64x8 ranks;
            memcpy(&ranks, list(row) + n, sizeof ranks);
            Int64x8 indices = ranks == NO_KEY ? Int64x8{} - 1 : ~ranks & 0xffffffff;
            Int32x8 ordered = __builtin_convertvector(ranks >> 32, Int32x8);
            Int32x8 bits = ordered ^ ((ordered >> 31) & 0x7fffffff);
            bits = ordered == INT32_MIN ? Int32x8{} + (int32_t)0xff800000 : bits;  // no key: −∞
            memcpy(keys + n, &indices, sizeof indices);
            memcpy(weights + n, &bits, sizeof bits);
        }
        for (int64_t n = 0; n < k; n += W) store(weights + n, exp2(load(weights + n) - base) * factor);
        copy_top_k(weights, result.top_weights + row_index * k);
        copy_top_k(keys, result.top_keys + row_index * k);
    }

  private:
    int64_t k = 0, width = 0;
    float* threshold = nullptr;
    int64_t* lists = nullptr;

    static constexpr int KEYS_PER_CHECK = 32;  // keys compared before the thresholds are read again
    static constexpr int MANY_CANDIDATES = 2 * W;  // from here on raising the thresholds saves more than it costs

    // Append number + lane for every lane of x above the bound; without a branch where AVX-512 can.
    INLINE int append_above(Floats x, Floats bound, int number, int32_t* to, int count) {
        uint32_t lanes = greater_mask(x, bound);
#if defined(__AVX512F__)
        __m512i numbers = (__m512i)(lane_index() + number);
        _mm512_storeu_si512(to + count, _mm512_maskz_compress_epi32((__mmask16)lanes, numbers));
        return count + __builtin_popcount(lanes);
#else
        for (; lanes; lanes &= lanes - 1) to[count++] = number + __builtin_ctz(lanes);
        return count;
#endif
    }

    void insert_key(const ScoreSlice& slice, int64_t key, int lane) {
        insert_rank(list(slice.v * W + lane), pack_rank(slice.at(key)[lane], key));
    }

    void insert_rank(int64_t* ranks, int64_t rank) {
        if (width == 8)
            insert_one_vector(ranks, rank);
        else
            insert_vectors(ranks, rank);
    }

    // A full list admits only scores above its last. The last of a list that is not full reads as NaN, which std::max
    // ignores.
    void raise_thresholds(const ScoreSlice& slice, float* thresholds) {
        for (int lane = 0; lane < W; lane++)
            thresholds[lane] = std::max(thresholds[lane], rank_score(list(slice.v * W + lane)[k - 1]));
    }

    // Eight at a time while possible: a memcpy of constant size is inlined.
    template <class Number>
    void copy_top_k(const Number* from, Number* to) const {
        int64_t n = 0;
        for (; n + 8 <= k; n += 8) memcpy(to + n, from + n, 8 * sizeof(Number));
        if (n < k) memcpy(to + n, from + n, (k - n) * sizeof(Number));
    }

    static int64_t padded_k(int64_t k) { return (k + 7) / 8 * 8; }
    int64_t* list(int row) const { return lists + row * (8 + width) + 8; }

    Floats lower_bound(const ScoreSlice& slice) const {
        int64_t keys = slice.key_end - slice.key_begin;
        if (k <= 8 && keys >= 8) return kth_group_max<8>(slice, std::min<int64_t>(keys, 32));
        if (k <= 16 && keys >= 16) return kth_group_max<16>(slice, std::min<int64_t>(keys, 64));
        if (keys >= MAX_TOP_K) return kth_group_max<MAX_TOP_K>(slice, std::min<int64_t>(keys, 128));
        return broadcast(NEG_INF);
    }

    // Every entry becomes max(itself, min(its left neighbour, rank)): a sorted insertion without branches.
    static void insert_one_vector(int64_t* list, int64_t rank) {
        Int64x8 here, none = Int64x8{} + INT64_MAX;
        memcpy(&here, list, sizeof here);
        Int64x8 left = __builtin_shufflevector(none, here, 0, 8, 9, 10, 11, 12, 13, 14);
        left = left < rank ? left : rank - Int64x8{};
        here = here > left ? here : left;
        memcpy(list, &here, sizeof here);
    }

    // The same for a list of several vectors.
    void insert_vectors(int64_t* list, int64_t rank) {
        for (int64_t n = width - 8; n >= 0; n -= 8) {
            Int64x8 here, left;
            memcpy(&here, list + n, sizeof here);
            memcpy(&left, list + n - 1, sizeof left);
            left = left < rank ? left : rank - Int64x8{};
            here = here > left ? here : left;
            memcpy(list + n, &here, sizeof here);
        }
    }
};

}  // namespace transom
