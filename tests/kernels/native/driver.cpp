// Every pass of the native engine on many shapes, with each buffer exactly as large as it may be, for the sanitizers:
// threads are std::thread here, because GCC's OpenMP looks like races to the thread sanitizer.
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "engine.cpp"

namespace {

std::mt19937 random_numbers(5);

std::vector<float> numbers(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> found(count);
    for (float& x : found) x = normal(random_numbers);
    return found;
}

std::vector<uint8_t> coins(int64_t count) {
    std::vector<uint8_t> found(count);
    for (uint8_t& x : found) x = random_numbers() % 3 != 0;
    return found;
}

struct Case {
    int64_t batch, heads, kv_heads, queries, keys, d_head, d_value;
    // Bits: 1 causal, 2 real, 4 documents, 8 given, 16 bias, 32 soft cap, 64 dropout, 128 by distance, 256 masks of
    // which one is enough, 512 bfloat16, 1024 float16.
    int kind;
};

struct Tensors {
    std::vector<float> Q, K, V, bias, line;
    std::vector<uint16_t> halves[3];
    std::vector<uint8_t> real, given, sinks;
    std::vector<int32_t> documents, groups;
    std::vector<Either> either;
    Attention of{};

    explicit Tensors(const Case& c) {
        of.batch = c.batch, of.heads = c.heads, of.kv_heads = c.kv_heads, of.queries = c.queries, of.keys = c.keys;
        of.d_head = c.d_head, of.d_value = c.d_value, of.scale = 0.3, of.start = c.keys - c.queries;
        Q = numbers(c.batch * c.heads * c.queries * c.d_head);
        K = numbers(c.batch * c.kv_heads * c.keys * c.d_head);
        V = numbers(c.batch * c.kv_heads * c.keys * c.d_value);
        of.Q = Q.data(), of.K = K.data(), of.V = V.data();
        if (c.kind & 512) of.Q = halved(Q, 0), of.K = halved(K, 1), of.V = halved(V, 2), of.precision = BFLOAT16;
        if (c.kind & 1024) of.Q = halved(Q, 0), of.K = halved(K, 1), of.V = halved(V, 2), of.precision = FLOAT16;
        strides(of.Q_strides, c.heads, c.queries, c.d_head);
        strides(of.K_strides, c.kv_heads, c.keys, c.d_head);
        strides(of.V_strides, c.kv_heads, c.keys, c.d_value);
        of.ahead = c.kind & 1 ? of.start + 1 : int64_t(1) << 40, of.behind = -(int64_t(1) << 40);
        mask(c);
    }

    static void strides(int64_t* to, int64_t heads, int64_t rows, int64_t d) {
        to[0] = heads * rows * d, to[1] = rows * d, to[2] = d;
    }

    // The upper half of each number; as float16, a number of another size, and finite likewise.
    const uint16_t* halved(const std::vector<float>& from, int which) {
        for (float x : from) {
            uint32_t bits;
            memcpy(&bits, &x, sizeof bits);
            halves[which].push_back(uint16_t(bits >> 16));
        }
        return halves[which].data();
    }

    void mask(const Case& c) {
        int64_t whole = c.batch * c.heads * c.queries * c.keys;
        if (c.kind & 2) real = coins(c.batch * c.keys), of.real = real.data(), of.real_strides[0] = c.keys;
        if (c.kind & 4 && c.queries <= c.keys) {
            for (int64_t i = 0; i < c.batch * c.keys; i++) documents.push_back(int32_t(i % c.keys / 7));
            of.documents = documents.data(), of.documents_stride = c.keys;
        }
        if (c.kind & 8)
            given = coins(whole), of.given = given.data(), strides(of.given_strides, c.heads, c.queries, c.keys);
        if (c.kind & 16)
            bias = numbers(whole), of.bias = bias.data(), strides(of.bias_strides, c.heads, c.queries, c.keys);
        if (c.kind & 32) of.softcap = 5.0;
        if (c.kind & 64) of.dropout = 0.25, of.seed = 12345678901234567ull;
        if (c.kind & 128) {
            line = numbers(c.heads * (c.queries + c.keys - 1));
            of.by_distance = line.data(), of.by_distance_stride = c.queries + c.keys - 1;
        }
        if (c.kind & 256) join(c);
    }

    // A window, or the first three keys; documents, or nothing else.
    void join(const Case& c) {
        sinks.assign(c.keys, 0);
        std::fill_n(sinks.begin(), std::min<int64_t>(3, c.keys), 1);
        either.push_back({of.start + 5, of.start - 4, sinks.data(), {0, 0}, nullptr, 0});
        if (c.queries <= c.keys) {
            for (int64_t i = 0; i < c.keys; i++) groups.push_back(int32_t(i / 60));
            either.push_back({-(int64_t(1) << 40), int64_t(1) << 40, nullptr, {0, 0}, groups.data(), 0});
        }
        of.either = either.data(), of.eithers = int64_t(either.size());
    }
};

// The answers of all passes, one after another.
std::vector<float> answers(const Attention& of, int threads) {
    int64_t rows = of.batch * of.heads * of.queries, heads = of.batch * of.heads, k = 5;
    std::vector<float> output(rows * of.d_value), lse(rows), entropy(rows), peak(rows), distance(rows);
    std::vector<float> received(heads * of.keys), top(rows * k);
    std::vector<int64_t> top_keys(rows * k);
    int32_t wild = 0;
    Found found{};
    found.output = output.data(), found.lse = lse.data(), found.entropy = entropy.data(), found.peak = peak.data();
    found.distance = distance.data(), found.received = received.data(), found.top_weights = top.data();
    found.top_keys = top_keys.data(), found.k = k, found.wild = &wild;
    Tensors::strides(found.output_strides, of.heads, of.queries, of.d_value);
    std::vector<float> partial(heads * transom_forward_chunks(&of, &found) * of.keys);
    found.partial = partial.data();
    transom_forward(&of, &found, 0, transom_forward_units(&of, &found), threads);
    std::vector<float> all(output);
    auto keep = [&](const std::vector<float>& more) { all.insert(all.end(), more.begin(), more.end()); };
    for (auto* one : {&lse, &entropy, &peak, &distance, &received, &top}) keep(*one);

    std::vector<float> again(heads * transom_statistics_chunks(&of, &found) * of.keys);
    found.partial = again.data();
    transom_statistics(&of, &found, 0, transom_statistics_units(&of, &found), threads);
    for (auto* one : {&entropy, &peak, &distance, &received, &top}) keep(*one);

    std::vector<float> sums(((of.queries + 2) / 3) * ((of.keys + 4) / 5)), highest(sums.size());
    Window window{of.batch - 1, of.heads - 1, 0, of.queries, 0, of.keys, 3, 5, sums.data(), highest.data()};
    transom_map(&of, lse.data(), &window, 0, transom_map_units(&of, &window), threads);
    keep(sums), keep(highest);

    std::vector<float> sent = numbers(rows * of.d_value), dQ(rows * of.d_head);
    std::vector<float> dK(of.batch * of.kv_heads * of.keys * of.d_head),
        dV(of.batch * of.kv_heads * of.keys * of.d_value);
    std::vector<float> parts(transom_backward_numbers(&of));
    Gradients gradients{output.data(), lse.data(), sent.data(), dQ.data(), dK.data(), dV.data(), parts.data(), &wild};
    transom_backward(&of, &gradients, 0, transom_backward_units(&of), threads);
    for (auto* one : {&dQ, &dK, &dV}) keep(*one);
    return all;
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
        random_numbers.seed(7);
        std::vector<float> alone = answers(tensors.of, 1);
        random_numbers.seed(7);
        std::vector<float> together = answers(tensors.of, 3);
        if (memcmp(alone.data(), together.data(), alone.size() * sizeof(float)) != 0) {
            std::printf("kind %d: three threads differ from one\n", one.kind);
            return 1;
        }
        for (float x : alone)
            if (x != x) {
                std::printf("kind %d: not a number\n", one.kind);
                return 1;
            }
    }
    std::printf("%zu cases, %d lanes: alike for one and three threads\n", std::size(CASES), transom_lanes());
}
