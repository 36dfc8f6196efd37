// The C interface to attention. Compiled once for each instruction set, each into a library of its own.
#include "backward.hpp"
#include "forward.hpp"
#include "influence_map.hpp"
#include "influence_stats.hpp"
#include "params.hpp"
#include "pooled_map.hpp"
#include "threads.hpp"
#include "weight_stats.hpp"

using namespace transom;

namespace {

// Units [first, last) of a pass. After the very last one, what each key received is added up over the chunks.
template <class Pass>
int run_pass(
    const Pass& pass, const AttentionParams& params, const ForwardResult& result, int64_t first, int64_t last,
    int threads
) {
    bool done = parallel_for(first, last, threads, [&](int64_t unit) { pass.run(unit); });
    if (done && result.received && last == pass.units())
        done = parallel_for(0, params.batch * params.heads, threads, [&](int64_t head) { pass.sum_received(head); });
    return done ? 0 : 1;
}

}  // namespace

extern "C" {

// Floats in one vector: says which of the libraries this is.
int transom_lanes() { return W; }

// The sizes of the structs above, in 12 bits each: a caller with other sizes belongs to another version of this
// library.
int64_t transom_attention_struct_sizes() {
    return sizeof(AttentionParams) + (sizeof(ForwardResult) << 12) + (sizeof(MapWindow) << 24) +
           (sizeof(BackwardParams) << 36) + (sizeof(OrMaskParams) << 48);
}

// The widest of 16, 8 and 4 lanes that this processor supports.
int transom_supported_lanes() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        return 16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
    return 4;
}

int64_t transom_forward_units(const AttentionParams* params, const ForwardResult* result) {
    return Forward(*params, *result).units();
}
int64_t transom_forward_chunks(const AttentionParams* params, const ForwardResult* result) {
    return Forward(*params, *result).chunks();
}
int transom_forward(
    const AttentionParams* params, const ForwardResult* result, int64_t first, int64_t last, int threads
) {
    return run_pass(Forward(*params, *result), *params, *result, first, last, threads);
}

int64_t transom_weight_stats_units(const AttentionParams* params, const ForwardResult* result) {
    return WeightStats(*params, *result).units();
}
int64_t transom_weight_stats_chunks(const AttentionParams* params, const ForwardResult* result) {
    return WeightStats(*params, *result).chunks();
}
int transom_weight_stats(
    const AttentionParams* params, const ForwardResult* result, int64_t first, int64_t last, int threads
) {
    return run_pass(WeightStats(*params, *result), *params, *result, first, last, threads);
}

int64_t transom_pooled_map_units(const AttentionParams* params, const MapWindow* window) {
    return PooledMap(*params, nullptr, *window).units();
}
int transom_pooled_map(
    const AttentionParams* params, const float* lse, const MapWindow* window, int64_t first, int64_t last, int threads
) {
    PooledMap map(*params, lse, *window);
    return parallel_for(first, last, threads, [&](int64_t unit) { map.run(unit); }) ? 0 : 1;
}

int64_t transom_influence_struct_sizes() { return sizeof(InfluenceParams); }
int64_t transom_influence_stats_units(const AttentionParams* params, const InfluenceParams* influence) {
    return InfluenceStats(*params, *influence).units();
}
int64_t transom_influence_stats_chunks(const AttentionParams* params, const InfluenceParams* influence) {
    return InfluenceStats(*params, *influence).chunks();
}
int transom_influence_stats(
    const AttentionParams* params, const InfluenceParams* influence, int64_t first, int64_t last, int threads
) {
    InfluenceStats stats(*params, *influence);
    bool done = parallel_for(first, last, threads, [&](int64_t unit) { stats.run(unit); });
    if (done && last == stats.units())
        done = parallel_for(0, stats.heads(), threads, [&](int64_t head) { stats.sum_per_key(head); });
    return done ? 0 : 1;
}

int64_t transom_influence_map_units(
    const AttentionParams* params, const InfluenceParams* influence, const MapWindow* window
) {
    return InfluenceMap(*params, *influence, *window).units();
}
int transom_influence_map(
    const AttentionParams* params, const InfluenceParams* influence, const MapWindow* window, int64_t first,
    int64_t last, int threads
) {
    InfluenceMap map(*params, *influence, *window);
    return parallel_for(first, last, threads, [&](int64_t unit) { map.run(unit); }) ? 0 : 1;
}

int64_t transom_backward_units(const AttentionParams* params) { return Backward(*params, {}).units(); }
int64_t transom_backward_partial_floats(const AttentionParams* params) {
    return Backward(*params, {}).partial_floats() * params->batch * params->kv_heads;
}
int transom_backward(
    const AttentionParams* params, const BackwardParams* gradients, int64_t first, int64_t last, int threads
) {
    Backward backward(*params, *gradients);
    bool done = parallel_for(first, last, threads, [&](int64_t unit) { backward.run(unit); });
    if (done && !backward.sums_in_place() && last == backward.units())
        done = parallel_for(0, backward.kv_heads(), threads, [&](int64_t head) { backward.sum_partials(head); });
    return done ? 0 : 1;
}
}
