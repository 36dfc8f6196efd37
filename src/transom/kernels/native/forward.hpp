// The forward pass: output, log-sum-exp and whatever statistics are wanted, in one way over the keys.
#pragma once
#include <vector>

#include "dropout.hpp"
#include "packing.hpp"
#include "plan.hpp"
#include "received.hpp"
#include "scratch.hpp"
#include "softmax.hpp"
#include "strongest.hpp"

namespace transom {

// A block of rows on its way over the keys.
struct Traveller {
    Rows rows;
    float *queries, *mixed;  // [d][ROWS]
    Running running;
    Strongest strongest;
    float* stripe;  // all its weights, [keys][ROWS], not yet divided by their sum; null unless received is wanted
    float* highest_then;  // for each block of keys, what its weights were taken relative to: [blocks][ROWS]
    uint32_t* stirs;
};

class Forward {
  public:
    Forward(const Attention& of, const Found& found)
        : of(of), found(found), plan(of, found.received), look(found.entropy || found.distance),
          blocks((of.keys + plan.block - 1) / plan.block) {}

    int64_t units() const { return of.batch * of.heads * plan.chunks; }

    void run(int64_t number) const {
        Unit unit(number, plan.chunks);
        Head head(of, unit.head);
        float* columns = nullptr;
        if (found.received) {
            columns = found.partial + number_of(unit) * of.keys;
            std::fill(columns, columns + of.keys, 0.0f);
        }
        for (int64_t task = plan.first_task(unit.chunk); task < plan.first_task(unit.chunk + 1); task++)
            travel(head, task, columns);
    }

    void add_up_received(int64_t head) const {
        add_up(found.partial + head * plan.chunks * of.keys, plan.chunks, of.keys, found.received + head * of.keys);
    }

    int64_t parts() const { return plan.chunks; }

  private:
    const Attention& of;
    const Found& found;
    Plan plan;
    bool look;
    int64_t blocks;

    int64_t number_of(const Unit& unit) const { return unit.head * plan.chunks + unit.chunk; }

    size_t needed() const {
        auto room = [](int64_t floats) { return Scratch::padded(floats); };
        size_t own =
            room(ROWS * of.d_head) + room(ROWS * of.d_value) + 5 * room(ROWS) + room(Strongest::floats(found.k));
        if (found.received) own += room(ROWS * of.keys) + room(ROWS * blocks);
        return plan.group * own + room(ROWS * plan.block) + room(ROWS * SUB);
    }

    Traveller traveller(const Head& head, int64_t first) const {
        Scratch& memory = scratch();
        Traveller one{
            Rows(head, first, of.queries),
            memory.take(ROWS * of.d_head),
            memory.take(ROWS * of.d_value),
            {},
            {},
            nullptr,
            nullptr,
            nullptr
        };
        one.running = {memory.take(ROWS), memory.take(ROWS), memory.take(ROWS), memory.take(ROWS)};
        one.stirs = (uint32_t*)memory.take(ROWS);
        if (found.k) one.strongest = Strongest(found.k, memory.take(Strongest::floats(found.k)));
        if (found.received) one.stripe = memory.take(ROWS * of.keys), one.highest_then = memory.take(ROWS * blocks);
        return one;
    }

    void begin(const Head& head, Traveller& one) const {
        pack(head.Q.rows(one.rows.first, one.rows.count), of.d_head, one.rows.count, query_factor(of), one.queries);
        std::fill(one.mixed, one.mixed + ROWS * of.d_value, 0.0f);
        one.running.begin();
        if (found.k) one.strongest.begin();
        if (of.dropout > 0) stir_rows(head, one.rows, one.stirs);
    }

    void travel(const Head& head, int64_t task, float* columns) const {
        scratch().begin(needed());
        float* S = scratch().take(ROWS * plan.block);
        float* dropped = scratch().take(ROWS * SUB);
        int64_t first = task * plan.group * ROWS, last = std::min(first + plan.group * ROWS, of.queries);
        std::vector<Traveller> together;
        for (int64_t row = first; row < last; row += ROWS) together.push_back(traveller(head, row));
        for (Traveller& one : together) begin(head, one);
        for (int64_t b = 0; b < blocks; b++)
            for (Traveller& one : together) pass(head, one, b, S, dropped);
        for (Traveller& one : together) tell(head, one, columns);
    }

    // One block of keys: score, find the strongest, weigh and mix.
    void pass(const Head& head, Traveller& one, int64_t b, float* S, float* dropped) const {
        Spans spans(head, one.rows, b * plan.block, (b + 1) * plan.block);
        if (!anything_seen(head, one.rows, spans)) {
            if (one.stripe) std::fill_n(one.highest_then + b * ROWS, ROWS, __builtin_inff());
            return;
        }
        S = one.stripe ? one.stripe : S - b * plan.block * ROWS;
        Lanes highest[VECTORS];
        score_block(head, one.rows, spans, one.queries, S, nullptr, highest);
        for (int v = 0; v < one.rows.vectors; v++) {
            Strip strip{head, one.rows, v, spans.begin[v], spans.end[v], S};
            if (found.k) one.strongest.look(strip);
            shrink(one, v, one.running.raise(v, highest[v]));
            if (one.stripe) store(one.highest_then + b * ROWS + v * W, usable(load(one.running.highest + v * W)));
        }
        for (int64_t first = b * plan.block; first < spans.to; first += SUB)
            weigh_and_mix(head, one, spans, std::max(first, spans.from), std::min(first + SUB, spans.to), S, dropped);
    }

    void shrink(Traveller& one, int v, Lanes factor) const {
        if (!above(all(1.0f), factor)) return;
        for (int64_t k = 0; k < of.d_value; k++) {
            float* at = one.mixed + k * ROWS + v * W;
            store(at, load(at) * factor);
        }
    }

    void weigh_and_mix(
        const Head& head, Traveller& one, const Spans& spans, int64_t first, int64_t last, float* S, float* dropped
    ) const {
        float* P = S;
        if (of.dropout > 0) P = dropped - first * ROWS;
        for (int v = 0; v < one.rows.vectors; v++) {
            Strip strip{head, one.rows, v, std::max(first, spans.begin[v]), std::min(last, spans.end[v]), S};
            one.running.add(v, weighed(strip, usable(load(one.running.highest + v * W)), look));
            if (of.dropout > 0) drop(strip, one.stirs, S, P);
        }
        segments(spans, one.rows.vectors, first, last, [&](int64_t j, int64_t end, int v0, int v1) {
            head.V.read(j, end, [&](const Matrix& V, int64_t j, int64_t end) {
                mix(V.at, V.stride, of.d_value, P + j * ROWS, one.mixed, end - j, v0, v1);
            });
        });
    }

    void tell(const Head& head, const Traveller& one, float* columns) const {
        float nothing[ROWS] = {};
        int64_t place = head.number() * of.queries + one.rows.first;
        RowFigures figures(one.rows, one.running, nothing);
        figures.tell(found, place, one.rows.count);
        if (found.lse) memcpy(found.lse + place, figures.lse, sizeof(float) * one.rows.count);
        for (int i = 0; found.k && i < one.rows.count; i++)
            one.strongest.tell(i, figures.base[i], figures.share[i], place + i, found);
        const int64_t* strides = found.output_strides;
        float* output = found.output + head.batch * strides[0] + head.head * strides[1] + one.rows.first * strides[2];
        unpack(one.mixed, of.d_value, one.rows.count, figures.share, output, strides[2]);
        if (found.wild && any_wild(one.mixed, of.d_value, one.rows.count)) raise_flag(found.wild);
        if (columns) tell_columns(head, one, figures, columns);
    }

    // The stripe holds weights relative to the maximum known at the time; now the last one and the sum are known.
    void tell_columns(const Head& head, const Traveller& one, RowFigures& figures, float* columns) const {
        std::fill(figures.share + one.rows.count, figures.share + ROWS, 0.0f);  // rows that are not there look nowhere
        for (int64_t b = 0; b < blocks; b++) {
            Spans spans(head, one.rows, b * plan.block, (b + 1) * plan.block);
            const float* then = one.highest_then + b * ROWS;
            if (spans.empty() || then[0] == __builtin_inff()) continue;
            Lanes factor[VECTORS];
            for (int v = 0; v < one.rows.vectors; v++) {
                Lanes gap = load(then + v * W) - usable(load(one.running.highest + v * W));
                factor[v] = exp2(gap) * load(figures.share + v * W);
            }
            add_columns(one.rows, spans, one.stripe, factor, columns);
        }
    }
};

}  // namespace transom
