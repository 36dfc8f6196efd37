// The C interface to decoding: steps of a model, and the most likely tokens.
#include "decode_program.hpp"
#include "vocab_topk.hpp"

using namespace transom;

extern "C" {

// The sizes of the structs, in 12 bits each: a caller with other sizes belongs to another version of this library.
int64_t transom_decode_struct_sizes() { return sizeof(Program) << 12 | sizeof(Operation); }

// Floats of a packed matrix.
int64_t transom_packed_floats(int64_t in_features, int64_t out_features) {
    return panel_count(out_features) * PANEL * in_features;
}

// Pack weight[out_features][in_features] for transom_packed_gemm.
int transom_pack_weight(const float* weight, int64_t in_features, int64_t out_features, float* to, int threads) {
    bool done = parallel_for(0, panel_count(out_features), threads, [&](int64_t panel) {
        pack_panel(weight, in_features, out_features, panel, to + panel * in_features * PANEL);
    });
    return done ? 0 : 1;
}

// All operations, one after another, for one new token of each row.
int transom_decode_step(const Program* program, int threads) {
    const SlotTable& own = program->slot_tables[0];
    for (int64_t row = 0; own.slots && row < program->rows; row++)
        own.slots[row * own.stride + own.length - 1] = (int32_t)(program->slot + row);
    for (int64_t i = 0; i < program->count; i++)
        if (!run_operation(*program, program->operations[i], threads)) return 1;
    return 0;
}

// Y[rows][out_features] = X[rows][in_features] · weightᵀ + bias.
int transom_packed_gemm(
    const float* X, int64_t rows, int64_t in_features, int64_t out_features, const float* weight, const float* bias,
    float* Y, int threads
) {
    PackedGemm gemm{in_features, out_features, weight, bias};
    return parallel_gemm(gemm, X, rows, Y, threads) ? 0 : 1;
}

// How many chunks the vocabulary is split into for so many rows.
int64_t transom_vocab_chunks(int64_t rows) { return vocab_chunks(rows); }

// The k largest logits of each row and chunk, and their tokens: values and tokens are [rows][chunks][k]. Unless lse is
// null, also log Σ e^logit over each chunk: lse[rows][chunks].
int transom_vocab_topk(
    const float* X, int64_t rows, int64_t in_features, int64_t out_features, const float* weight, const float* bias,
    int64_t k, float* values, int64_t* tokens, float* lse, int threads
) {
    threads = threads_for(rows * in_features * out_features, threads);
    VocabSearch search({in_features, out_features, weight, bias}, X, rows, k, values, tokens, lse, threads);
    return parallel_for(0, search.units(), threads, [&](int64_t unit) { search.run(unit); }) ? 0 : 1;
}
}
