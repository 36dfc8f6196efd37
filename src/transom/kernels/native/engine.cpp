// The C interface. Compiled once for each instruction set, each into a library of its own.
#include "attention.hpp"
#include "backward.hpp"
#include "forward.hpp"
#include "map.hpp"
#include "statistics.hpp"
#include "threads.hpp"

using namespace transom;

namespace {

// Units [first, last) of a pass; once the last of all is done, what each key received is added up.
template <class Pass>
int run(const Pass& pass, const Attention& of, const Found& found, int64_t first, int64_t last, int threads) {
    bool done = share(first, last, threads, [&](int64_t unit) { pass.run(unit); });
    if (done && found.received && last == pass.units())
        done = share(0, of.batch * of.heads, threads, [&](int64_t head) { pass.add_up_received(head); });
    return done ? 0 : 1;
}

}  // namespace

extern "C" {

// How many numbers one vector holds: tells which of the libraries this is.
int transom_lanes() { return W; }

// How large what is handed over is taken to be: a caller who lays it out otherwise has another version of this library.
int64_t transom_layout() {
    return sizeof(Attention) + (sizeof(Found) << 12) + (sizeof(Window) << 24) + (sizeof(Gradients) << 36) +
           (sizeof(Either) << 48);
}

// The widest of 16, 8 and 4 that this processor can do.
int transom_widest() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        return 16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return 8;
#endif
    return 4;
}

int64_t transom_forward_units(const Attention* of, const Found* found) { return Forward(*of, *found).units(); }
int64_t transom_forward_chunks(const Attention* of, const Found* found) { return Forward(*of, *found).parts(); }
int transom_forward(const Attention* of, const Found* found, int64_t first, int64_t last, int threads) {
    return run(Forward(*of, *found), *of, *found, first, last, threads);
}

int64_t transom_statistics_units(const Attention* of, const Found* found) { return Statistics(*of, *found).units(); }
int64_t transom_statistics_chunks(const Attention* of, const Found* found) { return Statistics(*of, *found).parts(); }
int transom_statistics(const Attention* of, const Found* found, int64_t first, int64_t last, int threads) {
    return run(Statistics(*of, *found), *of, *found, first, last, threads);
}

int64_t transom_map_units(const Attention* of, const Window* window) { return Map(*of, nullptr, *window).units(); }
int transom_map(const Attention* of, const float* lse, const Window* window, int64_t first, int64_t last, int threads) {
    Map map(*of, lse, *window);
    return share(first, last, threads, [&](int64_t unit) { map.run(unit); }) ? 0 : 1;
}

int64_t transom_backward_units(const Attention* of) { return Backward(*of, {}).units(); }
int64_t transom_backward_numbers(const Attention* of) {
    return Backward(*of, {}).on_the_way() * of->batch * of->kv_heads;
}
int transom_backward(const Attention* of, const Gradients* sent, int64_t first, int64_t last, int threads) {
    Backward backward(*of, *sent);
    bool done = share(first, last, threads, [&](int64_t unit) { backward.run(unit); });
    if (done && !backward.direct() && last == backward.units())
        done = share(0, backward.kv_heads(), threads, [&](int64_t head) { backward.add_up_parts(head); });
    return done ? 0 : 1;
}
}
