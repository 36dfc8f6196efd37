// Sums over rows and keys of the changes that edges make, and the k largest changes of each row, in one pass.
#pragma once
#include "column_sums.hpp"
#include "edge_changes.hpp"
#include "key_topk.hpp"
#include "work_split.hpp"

namespace transom {

// A change as a number that sorts by size; its sign is in the last bit. −∞ for a change of 0, which is not listed.
INLINE Floats encode_change(Floats change) {
    Ints bits = (as_ints(change) & 0x7ffffffe) | (as_ints(change) >> 31 & 1);
    return select(change == 0.0f, broadcast(NEG_INF), as_floats(bits));
}

INLINE float decode_change(float code) {
    int32_t bits;
    memcpy(&bits, &code, sizeof bits);
    bits = (bits & 0x7ffffffe) | int32_t(uint32_t(bits & 1) << 31);
    memcpy(&code, &bits, sizeof bits);
    return code;
}

class InfluenceStats {
  public:
    InfluenceStats(const AttentionParams& params, const InfluenceParams& influence)
        : params(params), influence(influence), changes(params, influence),
          row_blocks((params.queries + ROW_BLOCK - 1) / ROW_BLOCK),
          chunk_count(std::min(row_blocks, (MIN_UNITS + heads() - 1) / std::max<int64_t>(1, heads()))) {}

    int64_t heads() const { return params.batch * params.heads; }
    int64_t units() const { return heads() * chunk_count; }
    int64_t chunks() const { return chunk_count; }

    void run(int64_t index) const {
        WorkUnit unit(index, chunk_count);
        Head head(params, unit.head);
        float* per_key = influence.partial + (unit.head * chunk_count + unit.chunk) * params.keys;
        std::fill(per_key, per_key + params.keys, 0.0f);
        int64_t first = unit.chunk * row_blocks / chunk_count, last = (unit.chunk + 1) * row_blocks / chunk_count;
        for (int64_t b = first; b < last; b++)
            run_row_block(head, RowBlock(head, b * ROW_BLOCK, params.queries), per_key);
    }

    void sum_per_key(int64_t head) const {
        const float* partial = influence.partial + head * chunk_count * params.keys;
        sum_chunks(partial, chunk_count, params.keys, influence.per_key + head * params.keys);
    }

  private:
    const AttentionParams& params;
    const InfluenceParams& influence;
    EdgeChanges changes;
    int64_t row_blocks, chunk_count;

    void run_row_block(const Head& head, const RowBlock& rows, float* per_key) const {
        size_t top_k_floats = KeyTopK::scratch_floats(influence.k);
        scratch().reserve(
            EdgeChanges::scratch_floats(params, CHANGES_KEY_BLOCK) + Scratch::padded(ROW_BLOCK) +
            Scratch::padded(top_k_floats)
        );
        ChangeRows block = changes.begin(head, rows, CHANGES_KEY_BLOCK);
        float* per_row = scratch().take(ROW_BLOCK);
        std::fill(per_row, per_row + ROW_BLOCK, 0.0f);
        KeyTopK top_k = influence.k ? KeyTopK(influence.k, scratch().take(top_k_floats)) : KeyTopK();
        if (influence.k) top_k.reset();
        int64_t j = rows.key_begin / CHANGES_KEY_BLOCK * CHANGES_KEY_BLOCK;
        for (; j < rows.key_end; j += CHANGES_KEY_BLOCK) {
            KeySpans spans(head, rows, j, j + CHANGES_KEY_BLOCK);
            if (!any_visible(head, rows, spans)) continue;
            float *S = block.S - j * ROW_BLOCK, *codes = block.GV - j * ROW_BLOCK;
            changes.compute(head, block, spans, S, codes);
            add_changes(block, {head, rows, 0, 0, 0, S}, spans, codes, {per_row, per_key});
            for (int v = 0; v < rows.vectors && influence.k; v++)
                top_k.update({head, rows, v, spans.begin[v], spans.end[v], codes});
        }
        add_near(block, top_k, {per_row, per_key});
        write(head, rows, top_k, per_row);
    }

    struct Sums {
        float *per_row, *per_key;
    };

    // Add up the changes of one key block, and write their codes for the top k.
    void add_changes(
        const ChangeRows& block, const ScoreSlice& all, const KeySpans& spans, float* codes, const Sums& sums
    ) const {
        Floats ones[ROW_VECTORS];
        for (int v = 0; v < block.rows.vectors; v++) {
            ones[v] = broadcast(1.0f);
            Floats sum{};
            for (int64_t j = spans.begin[v]; j < spans.end[v]; j++) {
                Floats change = load(all.S + j * ROW_BLOCK + v * W);
                sum += change;
                if (influence.k) store(codes + j * ROW_BLOCK + v * W, encode_change(change));
            }
            store(sums.per_row + v * W, load(sums.per_row + v * W) + sum);
        }
        add_column_sums(block.rows, spans, all.S, ones, sums.per_key);
    }

    void add_near(const ChangeRows& block, KeyTopK& top_k, const Sums& sums) const {
        for (int i = 0; i < block.rows.count; i++) {
            int64_t key = block.near_key[i];
            if (key < 0) continue;
            float change = block.near_change(i);
            sums.per_row[i] += change;
            sums.per_key[key] += change;
            if (influence.k && change != 0.0f) top_k.insert(i, encode_change(broadcast(change))[0], key);
        }
    }

    void write(const Head& head, const RowBlock& rows, const KeyTopK& top_k, const float* per_row) const {
        int64_t row = head.index() * params.queries + rows.first;
        memcpy(influence.per_row + row, per_row, sizeof(float) * rows.count);
        if (!influence.k) return;
        for (int i = 0; i < rows.count; i++) {
            float* to = influence.top_changes + (row + i) * influence.k;
            top_k.copy(i, to, influence.top_keys + (row + i) * influence.k);
            for (int64_t n = 0; n < influence.k; n++) to[n] = to[n] == NEG_INF ? 0.0f : decode_change(to[n]);
        }
    }
};

}  // namespace transom
