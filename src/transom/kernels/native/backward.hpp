// The backward pass from Q, K, V, output and log-sum-exp: weights are computed again, block by block (Dao et al. 2022,
// FlashAttention, section 3.1). With w the weights, dO the gradient of the output and D = Σ dO · O of each row:
//   dV = wᵀ dO,   dS = w ∘ (dO Vᵀ − D),   dQ = scale · dS K,   dK = scale · dSᵀ Q.
#pragma once
#include "dropout.hpp"
#include "packing.hpp"
#include "plan.hpp"
#include "received.hpp"
#include "scratch.hpp"

namespace transom {

constexpr int64_t BACK = 96;  // keys at a time: two tiles of weights stay in the cache, and what they are multiplied by

class Backward {
  public:
    Backward(const Attention& of, const Gradients& sent)
        : of(of), sent(sent), group(of.heads / std::max<int64_t>(1, of.kv_heads)),
          blocks((of.queries + ROWS - 1) / ROWS), wide_K(padded(of.d_head)), wide_V(padded(of.d_value)) {
        int64_t heads = std::max<int64_t>(1, kv_heads());
        chunks = std::max<int64_t>(1, std::min(group * blocks, (PARTS / 2 + heads - 1) / heads));
    }

    int64_t kv_heads() const { return of.batch * of.kv_heads; }
    int64_t units() const { return kv_heads() * chunks; }
    // Numbers that each head of K and V needs on the way; none where the gradients can be summed up in their place.
    int64_t on_the_way() const { return direct() ? 0 : chunks * of.keys * (wide_K + wide_V); }

    void run(int64_t number) const {
        Unit unit(number, chunks);
        int64_t of_K = of.keys * wide_K, of_V = of.keys * wide_V;
        float* K =
            direct() ? sent.K + unit.head * of_K : sent.partial + (unit.head * chunks + unit.chunk) * (of_K + of_V);
        float* V = direct() ? sent.V + unit.head * of_V : K + of_K;
        std::fill(K, K + of_K, 0.0f);
        std::fill(V, V + of_V, 0.0f);
        int64_t first = unit.chunk * group * blocks / chunks, last = (unit.chunk + 1) * group * blocks / chunks;
        for (int64_t block = first; block < last; block++)
            send_back(Head(of, unit.head * group + block / blocks), block % blocks * ROWS, K, V);
    }

    // The parts of one head of K and V, added in their order.
    void add_up_parts(int64_t head) const {
        int64_t size = of.keys * (wide_K + wide_V);
        const float* parts = sent.partial + head * chunks * size;
        for (int64_t j = 0; j < of.keys; j++) {
            add_up_row(parts + j * wide_K, size, of.d_head, sent.K + (head * of.keys + j) * of.d_head);
            add_up_row(
                parts + of.keys * wide_K + j * wide_V, size, of.d_value, sent.V + (head * of.keys + j) * of.d_value
            );
        }
    }

    bool direct() const { return chunks == 1 && wide_K == of.d_head && wide_V == of.d_value; }

  private:
    const Attention& of;
    const Gradients& sent;
    int64_t group, blocks, wide_K, wide_V, chunks;

    static int64_t padded(int64_t d) { return (d + W - 1) / W * W; }

    void add_up_row(const float* parts, int64_t apart, int64_t d, float* to) const {
        for (int64_t k = 0; k < d; k++) {
            float total = 0.0f;
            for (int64_t c = 0; c < chunks; c++) total += parts[c * apart + k];
            to[k] = total;
        }
    }

    // A block of rows and what belongs to it.
    struct Block {
        Rows rows;
        float *queries, *of_mixed;  // Q and dO, packed: [d][ROWS]
        float *plain_Q, *plain_dO;  // scale · Q and dO as rows, filled up with zeros: [ROWS][padded d]
        float* settled;  // D
        InLog2 lse;
        float* of_Q;  // [d][ROWS]
        float *P, *dS, *slope, *used;  // [BACK][ROWS]
        uint32_t* stirs;
    };

    Block prepared(const Head& head, int64_t first) const {
        Scratch& memory = scratch();
        auto room = [](int64_t floats) { return Scratch::padded(floats); };
        memory.begin(
            2 * room(ROWS * of.d_head) + room(ROWS * of.d_value) + room(ROWS * wide_K) + room(ROWS * wide_V) +
            4 * room(ROWS) + 4 * room(ROWS * BACK)
        );
        Block one{
            Rows(head, first, of.queries),
            memory.take(ROWS * of.d_head),
            memory.take(ROWS * of.d_value),
            memory.take(ROWS * wide_K),
            memory.take(ROWS * wide_V),
            memory.take(ROWS),
            {memory.take(ROWS), memory.take(ROWS)},
            memory.take(ROWS * of.d_head),
            memory.take(ROWS * BACK),
            memory.take(ROWS * BACK),
            memory.take(ROWS * BACK),
            memory.take(ROWS * BACK),
            (uint32_t*)memory.take(ROWS)
        };
        Matrix Q = head.Q.rows(first, one.rows.count);
        int64_t place = head.number() * of.queries + first;
        const float *dO = sent.of_output + place * of.d_value, *O = sent.output + place * of.d_value;
        pack(Q, of.d_head, one.rows.count, query_factor(of), one.queries);
        pack({dO, of.d_value}, of.d_value, one.rows.count, Unchanged{}, one.of_mixed);
        lay(Q, of.d_head, one.rows.count, Factor(of.scale), one.plain_Q, wide_K);
        lay({dO, of.d_value}, of.d_value, one.rows.count, Unchanged{}, one.plain_dO, wide_V);
        for (int v = 0; v < one.rows.vectors; v++) settle(dO, O, one, v);
        one.lse.take(sent.lse + place, one.rows.count);
        for (int i = 0; i < one.rows.count; i++)  // a row that looks nowhere sends nothing, and 0 · NaN of it is NaN
            if (sent.lse[place + i] == NEVER) std::fill_n(one.plain_Q + i * wide_K, wide_K, 0.0f);
        std::fill(one.of_Q, one.of_Q + ROWS * of.d_head, 0.0f);
        if (of.dropout > 0) stir_rows(head, one.rows, one.stirs);
        return one;
    }

    template <class By>
    static void lay(const Matrix& from, int64_t d, int count, const By& factor, float* to, int64_t wide) {
        for (int i = 0; i < count; i++)
            for (int64_t k = 0; k < wide; k += W)
                store(to + i * wide + k, factor.of(load_few(from.at + i * from.stride + k, d - k)));
    }

    // D = Σ dO · O of each row of one vector.
    void settle(const float* dO, const float* O, const Block& one, int v) const {
        Lanes products[W] = {};
        for (int i = 0; i < W && v * W + i < one.rows.count; i++)
            for (int64_t k = 0; k < of.d_value; k += W) {
                int64_t at = (v * W + i) * of.d_value + k;
                products[i] = load_few(dO + at, of.d_value - k) * load_few(O + at, of.d_value - k) + products[i];
            }
        store(one.settled + v * W, sums(products));
    }

    void send_back(const Head& head, int64_t first, float* to_K, float* to_V) const {
        Block one = prepared(head, first);
        for (int64_t j = one.rows.from / BACK * BACK; j < one.rows.to; j += BACK) {
            Spans spans(head, one.rows, j, j + BACK);
            if (anything_seen(head, one.rows, spans)) pass(head, one, spans, j * ROWS, to_K, to_V);
        }
        if (any_wild(one.of_Q, of.d_head, one.rows.count)) raise_flag(sent.wild);
        float factor[ROWS];
        std::fill(factor, factor + ROWS, (float)of.scale);
        int64_t place = head.number() * of.queries + first;
        unpack(one.of_Q, of.d_head, one.rows.count, factor, sent.Q + place * of.d_head, of.d_head);
    }

    void pass(const Head& head, Block& one, const Spans& spans, int64_t shift, float* to_K, float* to_V) const {
        float *P = one.P - shift, *dS = one.dS - shift, *slope = one.slope - shift, *used = one.used - shift;
        Lanes highest[VECTORS];
        score_block(head, one.rows, spans, one.queries, P, slope, highest);
        segments(spans, one.rows.vectors, spans.from, spans.to, [&](int64_t j, int64_t end, int v0, int v1) {
            head.V.read(j, end, [&](const Matrix& V, int64_t j, int64_t end) {
                score(V.at, V.stride, one.of_mixed, of.d_value, dS + j * ROWS, end - j, v0, v1, highest);
            });
        });
        for (int v = 0; v < one.rows.vectors; v++)
            differentiate(Strip{head, one.rows, v, spans.begin[v], spans.end[v], P}, one, dS, slope, used);
        if (of.dropout > 0) P = used;
        segments(spans, one.rows.vectors, spans.from, spans.to, [&](int64_t j, int64_t end, int v0, int v1) {
            int64_t top = v0 * W, bottom = std::min(v1 * W, one.rows.count);
            head.K.read(j, end, [&](const Matrix& K, int64_t j, int64_t end) {
                mix(K.at, K.stride, of.d_head, dS + j * ROWS, one.of_Q, end - j, v0, v1);
            });
            outer(dS + j * ROWS, one.plain_Q, wide_K, to_K + j * wide_K, end - j, top, bottom);
            outer(P + j * ROWS, one.plain_dO, wide_V, to_V + j * wide_V, end - j, top, bottom);
        });
    }

    // Scores become weights, and what came back for the weights becomes what goes back to the scores.
    void differentiate(const Strip& strip, const Block& one, float* dS, const float* slope, float* used) const {
        Lanes lse = load(one.lse.whole + strip.v * W), rest = load(one.lse.rest + strip.v * W);
        Lanes settled = load(one.settled + strip.v * W);
        if (of.dropout > 0) drop(strip, one.stirs, dS, dS);
        for (int64_t j = strip.first; j < strip.last; j++) {
            int64_t at = j * ROWS + strip.v * W;
            Lanes w = exp2(load(strip.at(j)) - lse - rest);
            Lanes back = w * (load(dS + at) - settled);
            if (of.softcap) back *= load(slope + at);
            store(strip.at(j), w);
            store(dS + at, choose(w == 0.0f, Lanes{}, back));  // a NaN in a masked value must not come back
        }
        if (of.dropout > 0) drop(strip, one.stirs, strip.S, used);
    }
};

}  // namespace transom
