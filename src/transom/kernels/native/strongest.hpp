// The k strongest keys of each row.
//
// Before the keys of a block are gone through, the k-th largest of some group maxima gives a proven lower bound: about
// k + 1 keys a row pass it, however long the row. Those are put into a sorted list, one comparison deep.
#pragma once
#include "scores.hpp"

namespace transom {

constexpr int MOST = 32;
constexpr int64_t NOBODY = INT64_MIN;
typedef int64_t Eight __attribute__((vector_size(64)));
typedef int32_t EightInts __attribute__((vector_size(32)));

// Score and key in one number that sorts by score, and of equal scores puts the first key first.
INLINE int64_t ranked(float score, int64_t key) {
    int32_t bits;
    memcpy(&bits, &score, sizeof bits);
    int32_t ordered = bits ^ ((bits >> 31) & 0x7fffffff);
    return (int64_t)((uint64_t)(uint32_t)ordered << 32 | (uint32_t)~(uint32_t)key);
}

INLINE float score_of(int64_t rank) {
    int32_t ordered = (int32_t)(rank >> 32), bits = ordered ^ ((ordered >> 31) & 0x7fffffff);
    float score;
    memcpy(&score, &bits, sizeof score);
    return score;
}

// The next smaller number; around 0 a number that is smaller however 0 is signed and tiny numbers are rounded.
INLINE Lanes just_below(Lanes x) {
    Ints ordered = as_ints(x) ^ ((as_ints(x) >> 31) & 0x7fffffff);
    ordered -= 1;
    Lanes next = as_lanes(ordered ^ ((ordered >> 31) & 0x7fffffff));
    next = choose(absolute(x) <= FLT_MIN, all(-2.0f * FLT_MIN), next);
    return choose(x > NEVER, next, x);
}

// The K-th largest of the maxima of `groups` groups: at least K keys reach it.
template <int K>
static Lanes reached_by(const Strip& strip, int64_t groups) {
    Lanes best[K];
    for (int i = 0; i < K; i++) best[i] = all(NEVER);
    int64_t each = (strip.last - strip.first) / groups;
    for (int64_t g = 0; g < groups; g++) {
        int64_t first = strip.first + g * each, last = g + 1 < groups ? first + each : strip.last;
        Lanes most = load(strip.at(first));
        for (int64_t j = first + 1; j < last; j++) most = larger(most, load(strip.at(j)));
#pragma GCC unroll 8
        for (int i = 0; i < K; i++) {
            Lanes stays = larger(best[i], most);
            most = smaller(best[i], most);
            best[i] = stays;
        }
    }
    return best[K - 1];
}

class Strongest {
  public:
    static size_t floats(int64_t k) { return k ? ROWS * 2 * (8 + width_for(k)) + ROWS : 0; }

    Strongest() = default;
    Strongest(int64_t k, float* memory) : k(k), width(width_for(k)), floor(memory), lists((int64_t*)(memory + ROWS)) {}

    void begin() {
        for (int i = 0; i < ROWS; i++) {
            floor[i] = NEVER;
            list(i)[-1] = INT64_MAX;
            for (int64_t n = 0; n < width; n++) list(i)[n] = NOBODY;
        }
    }

    // Go through the scores of one vector of rows.
    void look(const Strip& strip) {
        float* floors = floor + strip.v * W;
        store(floors, larger(load(floors), just_below(lower_bound(strip))));
        int32_t passed[AT_ONCE * W + W];
        for (int64_t j = strip.first; j < strip.last; j += AT_ONCE) {
            int count = 0, keys = (int)std::min<int64_t>(AT_ONCE, strip.last - j);
            Lanes bound = load(floors);
            for (int i = 0; i < keys; i++) count = note(load(strip.at(j + i)), bound, i * W, passed, count);
            for (int n = 0; n < count; n++) admit(strip, j + passed[n] / W, passed[n] % W);
            if (count > MANY) raise_floors(strip, floors);
        }
    }

    // Weights and keys of one row, strongest first, a weight being factor · 2^(score − base); 0 and −1 where there are
    // none.
    void tell(int row, float base, float factor, int64_t place, const Found& found) const {
        float weights[MOST + W];
        int64_t keys[MOST];
        for (int64_t n = 0; n < width; n += 8) {
            Eight ranks;
            memcpy(&ranks, list(row) + n, sizeof ranks);
            Eight places = ranks == NOBODY ? Eight{} - 1 : ~ranks & 0xffffffff;
            EightInts ordered = __builtin_convertvector(ranks >> 32, EightInts);
            EightInts bits = ordered ^ ((ordered >> 31) & 0x7fffffff);
            bits = ordered == INT32_MIN ? EightInts{} + (int32_t)0xff800000 : bits;  // nobody: −∞
            memcpy(keys + n, &places, sizeof places);
            memcpy(weights + n, &bits, sizeof bits);
        }
        for (int64_t n = 0; n < k; n += W) store(weights + n, exp2(load(weights + n) - base) * factor);
        copy(weights, found.top_weights + place * k);
        copy(keys, found.top_keys + place * k);
    }

  private:
    int64_t k = 0, width = 0;
    float* floor = nullptr;
    int64_t* lists = nullptr;

    static constexpr int AT_ONCE = 32;  // keys gone through before the floor is looked at again
    static constexpr int MANY = 2 * W;  // keys let in at once: from here on a higher floor saves more than it costs

    // Append number + lane for every lane of x above the bound, without a branch where there are instructions for it.
    INLINE int note(Lanes x, Lanes bound, int number, int32_t* to, int count) {
        uint32_t lanes = above(x, bound);
#if defined(__AVX512F__)
        __m512i numbers = (__m512i)(lane_numbers() + number);
        _mm512_storeu_si512(to + count, _mm512_maskz_compress_epi32((__mmask16)lanes, numbers));
        return count + __builtin_popcount(lanes);
#else
        for (; lanes; lanes &= lanes - 1) to[count++] = number + __builtin_ctz(lanes);
        return count;
#endif
    }

    void admit(const Strip& strip, int64_t key, int lane) {
        int64_t* ranks = list(strip.v * W + lane);
        int64_t newcomer = ranked(strip.at(key)[lane], key);
        if (width == 8)
            insert_in_one(ranks, newcomer);
        else
            insert(ranks, newcomer);
    }

    // A list that is full lets in only what is above its last; of one that is not, that reads as NaN, which is no
    // maximum.
    void raise_floors(const Strip& strip, float* floors) {
        for (int lane = 0; lane < W; lane++)
            floors[lane] = std::max(floors[lane], score_of(list(strip.v * W + lane)[k - 1]));
    }

    // All k of them, eight at a time as long as there are so many: that takes no call.
    template <class Number>
    void copy(const Number* from, Number* to) const {
        int64_t n = 0;
        for (; n + 8 <= k; n += 8) memcpy(to + n, from + n, 8 * sizeof(Number));
        if (n < k) memcpy(to + n, from + n, (k - n) * sizeof(Number));
    }

    static int64_t width_for(int64_t k) { return (k + 7) / 8 * 8; }
    int64_t* list(int row) const { return lists + row * (8 + width) + 8; }

    Lanes lower_bound(const Strip& strip) const {
        int64_t keys = strip.last - strip.first;
        if (k <= 8 && keys >= 8) return reached_by<8>(strip, std::min<int64_t>(keys, 32));
        if (k <= 16 && keys >= 16) return reached_by<16>(strip, std::min<int64_t>(keys, 64));
        if (keys >= MOST) return reached_by<MOST>(strip, std::min<int64_t>(keys, 128));
        return all(NEVER);
    }

    // Every place takes the larger of what it has and the smaller of its left neighbour and the newcomer.
    static void insert_in_one(int64_t* list, int64_t newcomer) {
        Eight here, none = Eight{} + INT64_MAX;
        memcpy(&here, list, sizeof here);
        Eight left = __builtin_shufflevector(none, here, 0, 8, 9, 10, 11, 12, 13, 14);
        left = left < newcomer ? left : newcomer - Eight{};
        here = here > left ? here : left;
        memcpy(list, &here, sizeof here);
    }

    // The same for a list of several vectors.
    void insert(int64_t* list, int64_t newcomer) {
        for (int64_t n = width - 8; n >= 0; n -= 8) {
            Eight here, left;
            memcpy(&here, list + n, sizeof here);
            memcpy(&left, list + n - 1, sizeof left);
            left = left < newcomer ? left : newcomer - Eight{};
            here = here > left ? here : left;
            memcpy(list + n, &here, sizeof here);
        }
    }
};

}  // namespace transom
