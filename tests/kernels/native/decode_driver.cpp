// Decoding steps on many shapes, for the sanitizers, with each buffer exactly as large as it has to be.
#include "decode_api.cpp"

#include <cstdio>
#include <random>
#include <vector>

namespace {

std::mt19937 rng(7);

std::vector<float> random_floats(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> result(count);
    for (float& x : result) x = normal(rng);
    return result;
}

struct Case {
    int64_t rows, d_model, heads, kv_heads, d_head, vocab, k;
};

// One layer: norm, self-attention, cross-attention, projection, activations; then the top tokens.
struct Layer {
    Case c;
    int64_t qkv_width, attention_width, length = 5, source_length = 3, bias_length = 6;
    std::vector<float> gain, shift, rotary, attention_bias, W_QKV, W_O, kv_cache, source_kv, registers, output,
        unembedding;
    std::vector<int32_t> slots, source_slots, begin, end, row_lists;
    std::vector<Operation> operations;

    explicit Layer(const Case& c)
        : c(c), qkv_width((c.heads + 2 * c.kv_heads) * c.d_head), attention_width(c.heads * c.d_head) {
        rotary = random_floats(length * c.d_head), attention_bias = random_floats(c.heads * bias_length);
        gain = random_floats(c.d_model), shift = random_floats(c.d_model), output.resize(c.rows * c.d_model);
        W_QKV = random_packed(c.d_model, qkv_width), W_O = random_packed(attention_width, c.d_model),
        unembedding = random_packed(c.d_model, c.vocab);
        kv_cache = random_floats(length * c.rows * 2 * c.kv_heads * c.d_head),
        source_kv = random_floats(2 * source_length * 2 * c.kv_heads * c.d_head);
        registers = std::vector<float>(4 * register_size());
        for (int64_t row = 0; row < c.rows; row++) {
            for (int64_t t = 0; t < length; t++) slots.push_back(int32_t(t * c.rows + (row + t) % c.rows));
            begin.push_back(int32_t(row % 2)), row_lists.push_back(int32_t(row % 2));
        }
        for (int64_t i = 0; i < 2 * source_length; i++) source_slots.push_back(int32_t(i));
        end = {3, 1};
    }

    int64_t register_size() const { return c.rows * (qkv_width > c.d_model ? qkv_width : c.d_model); }

    static std::vector<float> random_packed(int64_t in_features, int64_t out_features) {
        std::vector<float> weight = random_floats(in_features * out_features);
        std::vector<float> result(transom_packed_floats(in_features, out_features));
        transom_pack_weight(weight.data(), in_features, out_features, result.data(), 2);
        return result;
    }

    Operation operation(OperationKind kind, int64_t input, int64_t to, int64_t in_features, int64_t out_features) {
        Operation made{};
        made.kind = kind, made.input = input, made.other = input, made.output = to;
        made.in_features = in_features, made.out_features = out_features;
        made.heads = c.heads, made.kv_heads = c.kv_heads, made.d_head = c.d_head, made.eps = 1e-5;
        made.weight = gain.data(), made.bias = shift.data(), made.kv_cache = kv_cache.data();
        return made;
    }

    void build(const float* zeros) {
        auto add = [&](Operation made, const float* weight) {
            if (weight) made.weight = weight, made.bias = zeros;
            operations.push_back(made);
        };
        add(operation(LAYER_NORM, 0, 1, c.d_model, c.d_model), nullptr);
        add(operation(LINEAR, 1, 2, c.d_model, qkv_width), W_QKV.data());
        add(operation(ROTARY, 2, 3, qkv_width, qkv_width), nullptr);
        add(operation(ROTARY_HALVES, 3, 2, qkv_width, qkv_width), nullptr);
        add(operation(STORE_KV, 2, 0, qkv_width, 0), nullptr);
        add(operation(ATTEND, 2, 1, qkv_width, attention_width), attention_bias.data());
        Operation cross = operation(ATTEND, 1, 3, attention_width, attention_width);
        cross.kv_cache = source_kv.data(), cross.slot_table = 1, cross.weight = nullptr;
        add(cross, nullptr);
        add(operation(LINEAR, 3, 1, attention_width, c.d_model), W_O.data());
        for (OperationKind kind : {ADD, RELU, GELU, SWIGLU}) add(operation(kind, 1, 1, c.d_model, c.d_model), nullptr);
        add(operation(RMS_NORM, 1, -1, c.d_model, c.d_model), nullptr);
    }

    std::vector<float> run(int threads) {
        for (int64_t i = 0; i < c.rows * c.d_model; i++) registers[i] = float(i % 7) - 3.0f;
        Program program{};
        program.operations = operations.data(), program.count = (int64_t)operations.size(),
        program.registers = registers.data();
        program.output = output.data(), program.register_size = register_size(), program.rows = c.rows,
        program.slot = (length - 1) * c.rows;
        program.rotary = rotary.data(), program.positions = bias_length;
        program.slot_tables[0] = {slots.data(), length, length, begin.data(), nullptr, nullptr};
        program.slot_tables[1] = {source_slots.data(), source_length,   source_length, nullptr,
                                  end.data(),          row_lists.data()};
        transom_decode_step(&program, threads);
        return run_unembedding(threads);
    }

    std::vector<float> run_unembedding(int threads) {
        int64_t chunks = transom_vocab_chunks(c.rows);
        std::vector<float> values(c.rows * chunks * c.k), lse(c.rows * chunks), logits(c.rows * c.vocab);
        std::vector<float> zeros(transom_packed_floats(1, c.vocab));
        std::vector<int64_t> tokens(c.rows * chunks * c.k);
        const float *X = output.data(), *weight = unembedding.data();
        transom_packed_gemm(X, c.rows, c.d_model, c.vocab, weight, zeros.data(), logits.data(), threads);
        transom_vocab_topk(
            X, c.rows, c.d_model, c.vocab, weight, zeros.data(), c.k, values.data(), tokens.data(), lse.data(), threads
        );
        values.insert(values.end(), lse.begin(), lse.end());
        values.insert(values.end(), logits.begin(), logits.end());
        return values;
    }
};

}  // namespace

int main() {
    const Case cases[] = {
        {1, 1, 1, 1, 1, 1, 1},     {2, 7, 2, 1, 3, 13, 5},       {5, 12, 2, 2, 6, 101, 10},
        {37, 33, 3, 3, 17, 67, 3}, {97, 128, 4, 2, 32, 331, 10},
    };
    for (const Case& c : cases) {
        Layer layer(c);
        std::vector<float> zeros(transom_packed_floats(1, layer.qkv_width + c.d_model));
        layer.build(zeros.data());
        std::vector<float> one = layer.run(1), three = layer.run(3);
        if (one != three) return printf("other numbers with three threads\n"), 1;
    }
    printf("%zu cases, %d lanes: alike for one and three threads\n", std::size(cases), W);
}
