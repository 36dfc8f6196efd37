// The scores of a block of rows for a run of keys, in units of log 2: product, soft cap, bias, and −∞ where a row may
// not look. S is [keys][ROWS].
#pragma once
#include <cfloat>

#include "packing.hpp"
#include "products.hpp"
#include "rows.hpp"

namespace transom {

// How the queries are packed: with a soft cap the logarithm's base changes only after it.
static inline Factor query_factor(const Attention& of) { return Factor(of.softcap ? of.scale : of.scale * PER_LN_2); }

// One vector of rows while its scores are being worked on: keys [first, last), S at the first of the block.
struct Strip {
    const Head& head;
    const Rows& rows;
    int v;
    int64_t first, last;
    float* S;  // of key 0, were it there

    float* at(int64_t j) const { return S + j * ROWS + v * W; }
    int64_t top() const { return rows.first + v * W; }
    int present() const { return std::min(W, rows.count - v * W); }
};

// softcap · tanh(s / softcap); `slope`, if wanted, is how much of a gradient comes through.
static void bend(const Strip& strip, float* slope) {
    float cap = (float)strip.head.of.softcap;
    for (int64_t j = strip.first; j < strip.last; j++) {
        Lanes bent = tanh(load(strip.at(j)) * (1.0f / cap));
        store(strip.at(j), bent * (cap * LOG2_E));
        if (slope) store(slope + j * ROWS + strip.v * W, 1.0f - bent * bent);
    }
}

static void add_by_distance(const Strip& strip) {
    const Attention& of = strip.head.of;
    const float* line = of.by_distance + strip.head.head * of.by_distance_stride + strip.top() + of.keys - 1;
    int64_t present = strip.present();
    for (int64_t j = strip.first; j < strip.last; j++)
        store(strip.at(j), load(strip.at(j)) + load_few(line - j, present) * LOG2_E);
}

// −∞ stays, but what was finite stays finite: a row wholly at the lowest number still looks everywhere alike.
INLINE Lanes bias_in_log2(Lanes bias) { return choose(bias > NEVER, at_least(bias * LOG2_E, -FLT_MAX), bias); }

static void add_bias(const Strip& strip) {
    const Head& head = strip.head;
    const int64_t* strides = head.of.bias_strides;
    const float* rows = head.of.bias + head.batch * strides[0] + head.head * strides[1] + strip.top() * strides[2];
    for (int64_t j = strip.first; j < strip.last; j += W) {
        Lanes tile[W];
        for (int i = 0; i < W; i++)
            tile[i] = i < strip.present() ? load_few(rows + i * strides[2] + j, strip.last - j) : Lanes{};
        transpose(tile);
        for (int i = 0; i < W && j + i < strip.last; i++)
            store(strip.at(j + i), load(strip.at(j + i)) + bias_in_log2(tile[i]));
    }
}

// The first `count` bytes as numbers.
INLINE Ints widened(const uint8_t* from, int64_t count) {
    typedef uint8_t Bytes __attribute__((vector_size(W)));
    Bytes bytes{};
    memcpy(&bytes, from, count < W ? count : W);
    return __builtin_convertvector(bytes, Ints);
}

static void hide_given(const Strip& strip) {
    const Head& head = strip.head;
    const int64_t* strides = head.of.given_strides;
    const uint8_t* rows = head.of.given + head.batch * strides[0] + head.head * strides[1] + strip.top() * strides[2];
    for (int64_t j = strip.first; j < strip.last; j += W) {
        Lanes tile[W];
        for (int i = 0; i < W; i++)
            tile[i] = i < strip.present() ? as_lanes(widened(rows + i * strides[2] + j, strip.last - j)) : Lanes{};
        transpose(tile);
        for (int i = 0; i < W && j + i < strip.last; i++)
            store(strip.at(j + i), choose(as_ints(tile[i]) != 0, load(strip.at(j + i)), all(NEVER)));
    }
}

static void hide_unreal(const Strip& strip) {
    for (int64_t j = strip.first; j < strip.last; j++)
        if (!strip.head.real[j]) store(strip.at(j), all(NEVER));
}

static void hide_other_documents(const Strip& strip) {
    const Attention& of = strip.head.of;
    Ints own = all_ints(-1);
    memcpy(&own, strip.head.documents + of.keys - of.queries + strip.top(), sizeof(int32_t) * strip.present());
    for (int64_t j = strip.first; j < strip.last; j++)
        store(strip.at(j), choose(own == strip.head.documents[j], load(strip.at(j)), all(NEVER)));
}

// Which rows may look at key j by position.
INLINE Ints in_reach(const Strip& strip, int64_t j, int64_t ahead, int64_t behind) {
    auto near = [](int64_t x) { return (int32_t)std::clamp<int64_t>(x, -(1 << 30), 1 << 30); };
    int32_t after = near(j - ahead - strip.top()), before = near(j - behind - strip.top());
    return (lane_numbers() > after) & (lane_numbers() <= before);
}

// What position forbids.
static void hide_far(const Strip& strip) {
    const Attention& of = strip.head.of;
    for (int64_t j = strip.first; j < strip.last; j++)
        store(strip.at(j), choose(in_reach(strip, j, of.ahead, of.behind), load(strip.at(j)), all(NEVER)));
}

static const uint8_t* real_of(const Head& head, const Either& one) {
    return one.real ? one.real + head.batch * one.real_strides[0] + head.head * one.real_strides[1] : nullptr;
}

static const int32_t* documents_of(const Head& head, const Either& one) {
    return one.documents ? one.documents + head.batch * one.documents_stride : nullptr;
}

// What none of the masks allows of which one would be enough.
static void hide_unless(const Strip& strip, const Either& one) {
    const Attention& of = strip.head.of;
    const uint8_t* real = real_of(strip.head, one);
    const int32_t* documents = documents_of(strip.head, one);
    Ints own = all_ints(-1);
    if (documents) memcpy(&own, documents + of.keys - of.queries + strip.top(), sizeof(int32_t) * strip.present());
    for (int64_t j = strip.first; j < strip.last; j++) {
        if (real && real[j]) continue;
        Ints seen = in_reach(strip, j, one.ahead, one.behind);
        if (documents) seen |= own == documents[j];
        store(strip.at(j), choose(seen, load(strip.at(j)), all(NEVER)));
    }
}

static Lanes highest_of(const Strip& strip) {
    Lanes most = all(NEVER);
    for (int64_t j = strip.first; j < strip.last; j++) most = larger(most, load(strip.at(j)));
    return most;
}

// Everything but the product and the mask by position.
static void finish(const Strip& strip, float* slope) {
    const Attention& of = strip.head.of;
    if (of.softcap) bend(strip, slope);
    if (of.by_distance) add_by_distance(strip);
    if (of.bias) add_bias(strip);
    if (of.real) hide_unreal(strip);
    if (of.documents) hide_other_documents(strip);
    if (of.given) hide_given(strip);
    for (int64_t n = 0; n < of.eithers; n++) hide_unless(strip, of.either[n]);
}

// The scores of spans' keys into S, and in `highest` the largest of each row (−∞ where there is none).
static void score_block(
    const Head& head, const Rows& rows, const Spans& spans, const float* queries, float* S, float* slope, Lanes* highest
) {
    const Attention& of = head.of;
    bool plain = head.plain();
    Lanes unused[VECTORS] = {};
    auto products = [&](int64_t first, int64_t last, Lanes* most) {
        segments(spans, rows.vectors, first, last, [&](int64_t j, int64_t end, int v0, int v1) {
            head.K.read(j, end, [&](const Matrix& K, int64_t j, int64_t end) {
                score(K.at, K.stride, queries, of.d_head, S + j * ROWS, end - j, v0, v1, most);
            });
        });
    };
    for (int v = 0; v < VECTORS; v++) highest[v] = all(NEVER);
    products(spans.from, spans.clean_from, unused);
    products(spans.clean_from, spans.clean_to, plain ? highest : unused);
    products(spans.clean_to, spans.to, unused);
    for (int v = 0; v < rows.vectors; v++) {
        int64_t begin = spans.begin[v], end = spans.end[v];
        Strip whole{head, rows, v, begin, end, S};
        Strip before{head, rows, v, begin, std::min(end, spans.clean_from), S};
        Strip after{head, rows, v, std::max(begin, spans.clean_to), end, S};
        if (!plain) finish(whole, slope);
        hide_far(before);
        hide_far(after);
        if (!plain)
            highest[v] = highest_of(whole);
        else
            highest[v] = larger(highest[v], larger(highest_of(before), highest_of(after)));
    }
}

// Whether a given mask lets any of the rows look at any of these keys.
static bool anything_given(const Head& head, const Rows& rows, const Spans& spans) {
    const int64_t* strides = head.of.given_strides;
    const uint8_t* at = head.of.given + head.batch * strides[0] + head.head * strides[1] + rows.first * strides[2];
    for (int i = 0; i < rows.count; i++)
        for (int64_t j = spans.from; j < spans.to; j++)
            if (at[i * strides[2] + j]) return true;
    return false;
}

// The same of masks of which one is enough; where documents decide it may say yes in vain.
static bool anything_either(const Head& head, const Rows& rows, const Spans& spans, const Either& one) {
    int64_t last = rows.first + rows.count - 1;
    if (spans.from < last + one.ahead && spans.to > rows.first + one.behind) return true;
    const uint8_t* real = real_of(head, one);
    for (int64_t j = spans.from; real && j < spans.to; j++)
        if (real[j]) return true;
    const int32_t* documents = documents_of(head, one);
    if (!documents) return false;
    const int32_t* own = documents + head.of.keys - head.of.queries + rows.first;
    int32_t lowest = *std::min_element(own, own + rows.count), most = *std::max_element(own, own + rows.count);
    for (int64_t j = spans.from; j < spans.to; j++)
        if (documents[j] >= lowest && documents[j] <= most) return true;
    return false;
}

// Whether any of the rows may look at any of these keys; where not, nothing need be computed.
static bool anything_seen(const Head& head, const Rows& rows, const Spans& spans) {
    if (spans.empty() || (head.of.given && !anything_given(head, rows, spans))) return false;
    for (int64_t n = 0; n < head.of.eithers; n++)
        if (!anything_either(head, rows, spans, head.of.either[n])) return false;
    return true;
}

}  // namespace transom
