// One head, a block of its rows, and which keys each vector of rows may look at by position.
#pragma once
#include <algorithm>

#include "attention.hpp"
#include "lanes.hpp"
#include "sources.hpp"

namespace transom {

// One head of one batch entry, and the keys outside which none of its rows may look.
struct Head {
    const Attention& of;
    int64_t batch, head, kv_head;
    Source Q, K, V;
    const uint8_t* real = nullptr;
    const int32_t* documents = nullptr;
    int64_t first_key = 0, last_key;

    Head(const Attention& of, int64_t number)
        : of(of), batch(number / of.heads), head(number % of.heads), kv_head(head / (of.heads / of.kv_heads)),
          Q(of.Q, of.Q_strides, batch, head, of.d_head, of.precision),
          K(of.K, of.K_strides, batch, kv_head, of.d_head, of.precision),
          V(of.V, of.V_strides, batch, kv_head, of.d_value, of.precision), last_key(of.keys) {
        if (of.documents) documents = of.documents + batch * of.documents_stride;
        if (!of.real) return;
        real = of.real + batch * of.real_strides[0] + head * of.real_strides[1];
        while (last_key > 0 && !real[last_key - 1]) last_key--;
        while (first_key < last_key && !real[first_key]) first_key++;
    }

    int64_t number() const { return batch * of.heads + head; }

    // Whether position alone says who may look at whom, and a score is the product and nothing else.
    bool plain() const {
        return !of.real && !of.documents && !of.given && !of.eithers && !of.bias && !of.by_distance &&
               of.softcap == 0.0;
    }
};

// Up to ROWS rows, and the keys outside which none of them may look.
struct Rows {
    int64_t first;
    int count, vectors;
    int64_t from, to;

    Rows(const Head& head, int64_t first, int64_t end)
        : first(first), count((int)std::min<int64_t>(ROWS, end - first)), vectors((count + W - 1) / W) {
        from = std::max(head.first_key, first + head.of.behind);
        to = std::min(head.last_key, first + count - 1 + head.of.ahead);
        if (head.documents) within_documents(head);
        to = std::max(from, to);
    }

  private:
    // Without the keys at both ends whose documents lie outside those of the rows.
    void within_documents(const Head& head) {
        const int32_t* own = head.documents + head.of.keys - head.of.queries + first;
        int32_t lowest = *std::min_element(own, own + count), most = *std::max_element(own, own + count);
        auto others = [&](int64_t j) { return head.documents[j] < lowest || head.documents[j] > most; };
        while (from < to && others(from)) from++;
        while (from < to && others(to - 1)) to--;
    }
};

// Within the keys [from, to): which of them each vector of rows may look at, and which all lanes of all vectors may.
struct Spans {
    int64_t from, to;
    int64_t begin[VECTORS], end[VECTORS];
    int64_t clean_from, clean_to;

    Spans(const Head& head, const Rows& rows, int64_t first, int64_t last)
        : from(std::max(first, rows.from)), to(std::max(from, std::min(last, rows.to))), clean_from(from),
          clean_to(to) {
        for (int v = 0; v < rows.vectors; v++) {
            int64_t top = rows.first + v * W, bottom = std::min(top + W, rows.first + rows.count) - 1;
            begin[v] = std::clamp(top + head.of.behind, from, to);
            end[v] = std::clamp(bottom + head.of.ahead, begin[v], to);
            clean_from = std::max(clean_from, bottom + head.of.behind);
            clean_to = std::min(clean_to, top + head.of.ahead);
        }
        clean_from = std::min(clean_from, to);
        clean_to = std::max(clean_to, clean_from);
    }

    bool empty() const { return from == to; }
};

// visit(first, last, v0, v1) for runs of keys in [first, last) that the same vectors [v0, v1) may look at.
template <class Visit>
INLINE void segments(const Spans& spans, int vectors, int64_t first, int64_t last, const Visit& visit) {
    for (int64_t j = std::max(first, spans.from), stop = std::min(last, spans.to), next; j < stop; j = next) {
        int v0 = 0, v1;
        while (v0 < vectors && spans.end[v0] <= j) v0++;
        for (v1 = v0; v1 < vectors && spans.begin[v1] <= j; v1++) {
        }
        next = stop;
        for (int v = 0; v < vectors; v++) {
            if (spans.begin[v] > j) next = std::min(next, spans.begin[v]);
            if (spans.end[v] > j) next = std::min(next, spans.end[v]);
        }
        if (v1 > v0) visit(j, next, v0, v1);
    }
}

}  // namespace transom
