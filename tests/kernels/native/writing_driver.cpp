// Steps of writing on many shapes, with each buffer exactly as large as it may be, for the sanitizers.
#include "writing.cpp"

#include <cstdio>
#include <random>
#include <vector>

namespace {

std::mt19937 random_numbers(7);

std::vector<float> numbers(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> found(count);
    for (float& x : found) x = normal(random_numbers);
    return found;
}

struct Case {
    int64_t rows, d_model, heads, kv_heads, d, vocabulary, k;
};

// One layer: norm, own past, source, a gate, a product; then the best tokens.
struct Layer {
    Case c;
    int64_t wide, inner, past = 5, source = 3, places = 6;
    std::vector<float> gain, shift, turns, added, joined, out, own, sources, space, hidden, unembedding;
    std::vector<int32_t> slots, source_slots, begin, end, which;
    std::vector<Operation> operations;

    explicit Layer(const Case& c) : c(c), wide((c.heads + 2 * c.kv_heads) * c.d), inner(c.heads * c.d) {
        turns = numbers(past * c.d), added = numbers(c.heads * places);
        gain = numbers(c.d_model), shift = numbers(c.d_model), hidden.resize(c.rows * c.d_model);
        joined = packed(c.d_model, wide), out = packed(inner, c.d_model), unembedding = packed(c.d_model, c.vocabulary);
        own = numbers(past * c.rows * 2 * c.kv_heads * c.d), sources = numbers(2 * source * 2 * c.kv_heads * c.d);
        space = std::vector<float>(4 * size());
        for (int64_t row = 0; row < c.rows; row++) {
            for (int64_t t = 0; t < past; t++) slots.push_back(int32_t(t * c.rows + (row + t) % c.rows));
            begin.push_back(int32_t(row % 2)), which.push_back(int32_t(row % 2));
        }
        for (int64_t i = 0; i < 2 * source; i++) source_slots.push_back(int32_t(i));
        end = {3, 1};
    }

    int64_t size() const { return c.rows * (wide > c.d_model ? wide : c.d_model); }

    static std::vector<float> packed(int64_t inputs, int64_t outputs) {
        std::vector<float> matrix = numbers(inputs * outputs), found(transom_packed_numbers(inputs, outputs));
        transom_pack(matrix.data(), inputs, outputs, found.data(), 2);
        return found;
    }

    Operation operation(Kind kind, int64_t from, int64_t to, int64_t inputs, int64_t outputs) {
        Operation made{};
        made.kind = kind, made.from = from, made.other = from, made.to = to, made.inputs = inputs,
        made.outputs = outputs;
        made.heads = c.heads, made.kv_heads = c.kv_heads, made.d = c.d, made.eps = 1e-5;
        made.matrix = gain.data(), made.shift = shift.data(), made.held = own.data();
        return made;
    }

    void draft(const float* zeros) {
        auto add = [&](Operation made, const float* matrix) {
            if (matrix) made.matrix = matrix, made.shift = zeros;
            operations.push_back(made);
        };
        add(operation(LAYER_NORM, 0, 1, c.d_model, c.d_model), nullptr);
        add(operation(PRODUCT, 1, 2, c.d_model, wide), joined.data());
        add(operation(TURN, 2, 3, wide, wide), nullptr);
        add(operation(TURN_HALVES, 3, 2, wide, wide), nullptr);
        add(operation(KEEP, 2, 0, wide, 0), nullptr);
        add(operation(LOOK, 2, 1, wide, inner), added.data());
        Operation cross = operation(LOOK, 1, 3, inner, inner);
        cross.held = sources.data(), cross.list = 1, cross.matrix = nullptr;
        add(cross, nullptr);
        add(operation(PRODUCT, 3, 1, inner, c.d_model), out.data());
        for (Kind kind : {ADD, RELU, GELU, GATE}) add(operation(kind, 1, 1, c.d_model, c.d_model), nullptr);
        add(operation(RMS_NORM, 1, -1, c.d_model, c.d_model), nullptr);
    }

    std::vector<float> run(int threads) {
        for (int64_t i = 0; i < c.rows * c.d_model; i++) space[i] = float(i % 7) - 3.0f;
        Program program{};
        program.operations = operations.data(), program.count = (int64_t)operations.size(),
        program.space = space.data();
        program.output = hidden.data(), program.size = size(), program.rows = c.rows,
        program.slot = (past - 1) * c.rows;
        program.turns = turns.data(), program.places = places;
        program.lists[0] = {slots.data(), past, past, begin.data(), nullptr, nullptr};
        program.lists[1] = {source_slots.data(), source, source, nullptr, end.data(), which.data()};
        transom_step(&program, threads);
        return chosen(threads);
    }

    std::vector<float> chosen(int threads) {
        int64_t cut = transom_chunks(c.rows);
        std::vector<float> values(c.rows * cut * c.k), lse(c.rows * cut), logits(c.rows * c.vocabulary);
        std::vector<float> zeros(transom_packed_numbers(1, c.vocabulary));
        std::vector<int64_t> places(c.rows * cut * c.k);
        const float *X = hidden.data(), *matrix = unembedding.data();
        transom_product(X, c.rows, c.d_model, c.vocabulary, matrix, zeros.data(), logits.data(), threads);
        transom_foremost(
            X, c.rows, c.d_model, c.vocabulary, matrix, zeros.data(), c.k, values.data(), places.data(), lse.data(),
            threads
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
        std::vector<float> zeros(transom_packed_numbers(1, layer.wide + c.d_model));
        layer.draft(zeros.data());
        std::vector<float> one = layer.run(1), three = layer.run(3);
        if (one != three) return printf("other numbers with three threads\n"), 1;
    }
    printf("%zu cases, %d lanes: alike for one and three threads\n", std::size(cases), W);
}
