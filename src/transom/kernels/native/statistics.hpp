// Statistics of weights whose log-sum-exp is known already: scores and exponentials, no values.
#pragma once
#include "packing.hpp"
#include "plan.hpp"
#include "received.hpp"
#include "scratch.hpp"
#include "softmax.hpp"
#include "strongest.hpp"

namespace transom {

constexpr int64_t LOOKED_AT = 512;  // keys at a time

class Statistics {
  public:
    // found.lse is read, not written.
    Statistics(const Attention& of, const Found& found)
        : of(of), found(found), look(found.entropy || found.distance || found.peak),
          blocks((of.queries + ROWS - 1) / ROWS),
          chunks(std::min(blocks, (PARTS + heads() - 1) / std::max<int64_t>(1, heads()))) {}

    int64_t heads() const { return of.batch * of.heads; }
    int64_t units() const { return heads() * chunks; }
    int64_t parts() const { return chunks; }

    void run(int64_t number) const {
        Unit unit(number, chunks);
        Head head(of, unit.head);
        float* columns = nullptr;
        if (found.received) {
            columns = found.partial + (unit.head * chunks + unit.chunk) * of.keys;
            std::fill(columns, columns + of.keys, 0.0f);
        }
        for (int64_t block = unit.chunk * blocks / chunks; block < (unit.chunk + 1) * blocks / chunks; block++)
            look_from(head, block * ROWS, columns);
    }

    void add_up_received(int64_t head) const {
        add_up(found.partial + head * chunks * of.keys, chunks, of.keys, found.received + head * of.keys);
    }

  private:
    const Attention& of;
    const Found& found;
    bool look;
    int64_t blocks, chunks;

    void look_from(const Head& head, int64_t first, float* columns) const {
        Rows rows(head, first, of.queries);
        Scratch& memory = scratch();
        auto room = [](int64_t floats) { return Scratch::padded(floats); };
        memory.begin(
            room(ROWS * of.d_head) + room(ROWS * LOOKED_AT) + 6 * room(ROWS) + room(Strongest::floats(found.k))
        );
        float *queries = memory.take(ROWS * of.d_head), *S = memory.take(ROWS * LOOKED_AT), *most = memory.take(ROWS);
        Running running{memory.take(ROWS), memory.take(ROWS), memory.take(ROWS), memory.take(ROWS)};
        Strongest strongest;
        if (found.k) strongest = Strongest(found.k, memory.take(Strongest::floats(found.k))), strongest.begin();
        pack(head.Q.rows(first, rows.count), of.d_head, rows.count, query_factor(of), queries);
        running.begin();
        int64_t place = head.number() * of.queries + first;
        InLog2 base{running.highest, memory.take(ROWS)};
        base.take(found.lse + place, rows.count);
        std::fill(most, most + ROWS, NEVER);
        for (int64_t j = rows.from / LOOKED_AT * LOOKED_AT; j < rows.to; j += LOOKED_AT)
            pass(
                head, rows, Spans(head, rows, j, j + LOOKED_AT), queries, S - j * ROWS, running, base, strongest, most,
                columns
            );
        RowFigures(rows, running, most).tell(found, place, rows.count);
        if (found.k) tell_strongest(rows, base, strongest, place);
    }

    void tell_strongest(const Rows& rows, const InLog2& base, const Strongest& strongest, int64_t place) const {
        float factor[ROWS];
        for (int v = 0; v < rows.vectors; v++) store(factor + v * W, base.correction(v));
        for (int i = 0; i < rows.count; i++) strongest.tell(i, base.whole[i], factor[i], place + i, found);
    }

    void pass(
        const Head& head, const Rows& rows, const Spans& spans, const float* queries, float* S, Running& running,
        const InLog2& known, Strongest& strongest, float* most, float* columns
    ) const {
        if (!anything_seen(head, rows, spans)) return;
        Lanes highest[VECTORS], one[VECTORS];
        score_block(head, rows, spans, queries, S, nullptr, highest);
        for (int v = 0; v < rows.vectors; v++) {
            Lanes base = load(running.highest + v * W);
            Strip strip{head, rows, v, spans.begin[v], spans.end[v], S};
            store(most + v * W, larger(load(most + v * W), highest[v] - base));
            if (found.k) strongest.look(strip);
            for (int64_t j = strip.first; j < strip.last && (look || columns); j += SUB)
                running.add(v, weighed(Strip{head, rows, v, j, std::min(j + SUB, strip.last), S}, base, look));
            one[v] = known.correction(v);
        }
        if (columns) add_columns(rows, spans, S, one, columns);
    }
};

}  // namespace transom
