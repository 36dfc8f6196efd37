// Every pass of attention on many shapes, for the sanitizers, with each buffer exactly as large as it has to be.
// Threads are std::thread, because the thread sanitizer takes GCC's OpenMP for races.
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "attention_api.cpp"

namespace {

std::mt19937 rng(5);

std::vector<float> random_floats(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> result(count);
    for (float& x : result) x = normal(rng);
    return result;
}

std::vector<uint8_t> random_mask(int64_t count) {
    std::vector<uint8_t> result(count);
    for (uint8_t& x : result) x = rng() % 3 != 0;
    return result;
}

struct Case {
    int64_t batch, heads, kv_heads, queries, keys, d_head, d_value;
    // Bits: 1 causal, 2 key mask, 4 documents, 8 mask, 16 bias, 32 soft cap, 64 dropout, 128 distance bias, 256 "or"
    // masks, 512 bfloat16, 1024 float16.
    int kind;
};

struct Tensors {
    std::vector<float> Q, K, V, bias, distance_bias;
    std::vector<uint16_t> halves[3];
    std::vector<uint8_t> key_mask, mask_values, first_keys;
    std::vector<int32_t> documents, or_documents;
    std::vector<OrMaskParams> or_masks;
    AttentionParams params{};

    explicit Tensors(const Case& c) {
        params.batch = c.batch, params.heads = c.heads, params.kv_heads = c.kv_heads, params.queries = c.queries,
        params.keys = c.keys;
        params.d_head = c.d_head, params.d_value = c.d_value, params.scale = 0.3, params.start = c.keys - c.queries;
        Q = random_floats(c.batch * c.heads * c.queries * c.d_head);
        K = random_floats(c.batch * c.kv_heads * c.keys * c.d_head);
        V = random_floats(c.batch * c.kv_heads * c.keys * c.d_value);
        params.Q = Q.data(), params.K = K.data(), params.V = V.data();
        if (c.kind & 512)
            params.Q = to_half(Q, 0), params.K = to_half(K, 1), params.V = to_half(V, 2), params.dtype = BFLOAT16;
        if (c.kind & 1024)
            params.Q = to_half(Q, 0), params.K = to_half(K, 1), params.V = to_half(V, 2), params.dtype = FLOAT16;
        set_strides(params.Q_strides, c.heads, c.queries, c.d_head);
        set_strides(params.K_strides, c.kv_heads, c.keys, c.d_head);
        set_strides(params.V_strides, c.kv_heads, c.keys, c.d_value);
        params.window_end = c.kind & 1 ? params.start + 1 : int64_t(1) << 40, params.window_begin = -(int64_t(1) << 40);
        add_masks(c);
    }

    static void set_strides(int64_t* to, int64_t heads, int64_t rows, int64_t d) {
        to[0] = heads * rows * d, to[1] = rows * d, to[2] = d;
    }

    // The upper half of each float: bfloat16, or read as float16 another finite number.
    const uint16_t* to_half(const std::vector<float>& from, int which) {
        for (float x : from) {
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            halves[which].push_back(uint16_t(bits >> 16));
        }
        return halves[which].data();
    }

    void add_masks(const Case& c) {
        int64_t pairs = c.batch * c.heads * c.queries * c.keys;
        if (c.kind & 2)
            key_mask = random_mask(c.batch * c.keys), params.key_mask = key_mask.data(),
            params.key_mask_strides[0] = c.keys;
        if (c.kind & 4 && c.queries <= c.keys) {
            for (int64_t i = 0; i < c.batch * c.keys; i++) documents.push_back(int32_t(i % c.keys / 7));
            params.documents = documents.data(), params.documents_stride = c.keys;
        }
        if (c.kind & 8)
            mask_values = random_mask(pairs), params.mask = mask_values.data(),
            set_strides(params.mask_strides, c.heads, c.queries, c.keys);
        if (c.kind & 16)
            bias = random_floats(pairs), params.bias = bias.data(),
            set_strides(params.bias_strides, c.heads, c.queries, c.keys);
        if (c.kind & 32) params.softcap = 5.0;
        if (c.kind & 64) params.dropout = 0.25, params.seed = 12345678901234567ull;
        if (c.kind & 128) {
            distance_bias = random_floats(c.heads * (c.queries + c.keys - 1));
            params.distance_bias = distance_bias.data(), params.distance_bias_stride = c.queries + c.keys - 1;
        }
        if (c.kind & 256) add_or_masks(c);
    }

    // A window or the first three keys; documents alone.
    void add_or_masks(const Case& c) {
        first_keys.assign(c.keys, 0);
        std::fill_n(first_keys.begin(), std::min<int64_t>(3, c.keys), 1);
        or_masks.push_back({params.start + 5, params.start - 4, first_keys.data(), {0, 0}, nullptr, 0});
        if (c.queries <= c.keys) {
            for (int64_t i = 0; i < c.keys; i++) or_documents.push_back(int32_t(i / 60));
            or_masks.push_back({-(int64_t(1) << 40), int64_t(1) << 40, nullptr, {0, 0}, or_documents.data(), 0});
        }
        params.or_masks = or_masks.data(), params.or_mask_count = int64_t(or_masks.size());
    }
};

// dQ, dK and dV, one after another.
std::vector<float> run_backward(
    const AttentionParams& params, const std::vector<float>& output, const std::vector<float>& lse, int threads
) {
    int64_t rows = params.batch * params.heads * params.queries;
    int32_t nonfinite = 0;
    std::vector<float> dO = random_floats(rows * params.d_value), dQ(rows * params.d_head);
    std::vector<float> dK(params.batch * params.kv_heads * params.keys * params.d_head),
        dV(params.batch * params.kv_heads * params.keys * params.d_value);
    std::vector<float> partial(transom_backward_partial_floats(&params));
    BackwardParams gradients{output.data(), lse.data(), dO.data(),      dQ.data(),
                             dK.data(),     dV.data(),  partial.data(), &nonfinite};
    transom_backward(&params, &gradients, 0, transom_backward_units(&params), threads);
    dQ.insert(dQ.end(), dK.begin(), dK.end());
    dQ.insert(dQ.end(), dV.begin(), dV.end());
    return dQ;
}

// Sums, the top k and the map of influence, one after another.
std::vector<float> run_influence(
    const AttentionParams& params, const std::vector<float>& lse, int64_t after, int threads
) {
    int64_t rows = params.batch * params.heads * params.queries, heads = params.batch * params.heads, k = 5;
    std::vector<float> GO = random_floats(rows), gradient = random_floats(rows * params.d_value);
    std::vector<float> per_row(rows), per_key(heads * params.keys), top_changes(rows * k);
    std::vector<int64_t> top_keys(rows * k);
    InfluenceParams influence{lse.data(),     GO.data(), gradient.data(),    after,           per_row.data(),
                              per_key.data(), nullptr,   top_changes.data(), top_keys.data(), k};
    std::vector<float> partial(heads * transom_influence_stats_chunks(&params, &influence) * params.keys);
    influence.partial = partial.data();
    transom_influence_stats(&params, &influence, 0, transom_influence_stats_units(&params, &influence), threads);
    int64_t first_key = params.keys / 3;
    std::vector<float> sums(((params.queries + 2) / 3) * ((params.keys - first_key + 4) / 5)), maxima(sums.size());
    MapWindow window{params.batch - 1, params.heads - 1, 0, params.queries, first_key, params.keys, 3, 5,
                     sums.data(),      maxima.data()};
    int64_t units = transom_influence_map_units(&params, &influence, &window);
    transom_influence_map(&params, &influence, &window, 0, units, threads);
    for (auto* more : {&per_key, &top_changes, &sums, &maxima})
        per_row.insert(per_row.end(), more->begin(), more->end());
    return per_row;
}

// The results of all passes, one after another.
std::vector<float> run_all_passes(const AttentionParams& params, int threads) {
    int64_t rows = params.batch * params.heads * params.queries, heads = params.batch * params.heads, k = 5;
    std::vector<float> output(rows * params.d_value), lse(rows), entropy(rows), peak(rows), distance(rows);
    std::vector<float> received(heads * params.keys), top_weights(rows * k);
    std::vector<int64_t> top_keys(rows * k);
    int32_t nonfinite = 0;
    ForwardResult result{};
    result.output = output.data(), result.lse = lse.data(), result.entropy = entropy.data(), result.peak = peak.data();
    result.distance = distance.data(), result.received = received.data(), result.top_weights = top_weights.data();
    result.top_keys = top_keys.data(), result.k = k, result.nonfinite = &nonfinite;
    Tensors::set_strides(result.output_strides, params.heads, params.queries, params.d_value);
    std::vector<float> partial(heads * transom_forward_chunks(&params, &result) * params.keys);
    result.partial = partial.data();
    transom_forward(&params, &result, 0, transom_forward_units(&params, &result), threads);
    std::vector<float> all_numbers(output);
    auto append = [&](const std::vector<float>& more) {
        all_numbers.insert(all_numbers.end(), more.begin(), more.end());
    };
    for (auto* one : {&lse, &entropy, &peak, &distance, &received, &top_weights}) append(*one);

    std::vector<float> stats_partial(heads * transom_weight_stats_chunks(&params, &result) * params.keys);
    result.partial = stats_partial.data();
    transom_weight_stats(&params, &result, 0, transom_weight_stats_units(&params, &result), threads);
    for (auto* one : {&entropy, &peak, &distance, &received, &top_weights}) append(*one);

    std::vector<float> sums(((params.queries + 2) / 3) * ((params.keys + 4) / 5)), maxima(sums.size());
    MapWindow window{params.batch - 1, params.heads - 1, 0, params.queries, 0, params.keys, 3, 5,
                     sums.data(),      maxima.data()};
    transom_pooled_map(&params, lse.data(), &window, 0, transom_pooled_map_units(&params, &window), threads);
    append(sums), append(maxima);
    for (int64_t after : {0, 1}) append(run_influence(params, lse, after, threads));
    append(run_backward(params, output, lse, threads));
    return all_numbers;
}

const Case CASES[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},
    {2, 3, 3, 17, 17, 5, 7, 1},
    {1, 4, 2, 61, 53, 16, 16, 0},
    {1, 2, 1, 49, 131, 33, 19, 1},
    {2, 2, 2, 97, 97, 64, 64, 1},
    {1, 2, 2, 47, 101, 17, 3, 1 + 2 + 4},
    {1, 2, 1, 50, 300, 8, 8, 8},
    {2, 2, 1, 31, 77, 12, 20, 16},
    {1, 2, 2, 33, 65, 9, 5, 1 + 16 + 32},
    {1, 2, 2, 48, 96, 16, 32, 64},
    {1, 3, 1, 67, 71, 16, 16, 129},
    {1, 1, 1, 64, 2300, 8, 8, 1},
    {2, 2, 1, 37, 41, 19, 23, 255},
    {1, 2, 1, 61, 701, 16, 16, 257},
    {1, 2, 2, 49, 131, 33, 19, 513},
    {2, 2, 1, 37, 41, 19, 23, 1024 + 255 + 256},
};

}  // namespace

int main() {
    for (const Case& one : CASES) {
        Tensors tensors(one);
        rng.seed(7);
        std::vector<float> one_thread = run_all_passes(tensors.params, 1);
        rng.seed(7);
        std::vector<float> three_threads = run_all_passes(tensors.params, 3);
        if (memcmp(one_thread.data(), three_threads.data(), one_thread.size() * sizeof(float)) != 0) {
            std::printf("kind %d: three threads differ from one\n", one.kind);
            return 1;
        }
        for (float x : one_thread)
            if (x != x) {
                std::printf("kind %d: not a number\n", one.kind);
                return 1;
            }
    }
    std::printf("%zu cases, %d lanes: alike for one and three threads\n", std::size(CASES), transom_lanes());
}
