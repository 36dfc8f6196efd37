// Work shared out to threads: whoever is free takes the next unit, so who does what never changes a result.
#pragma once
#include <atomic>
#include <cstdint>
#include <new>
#if defined(__SSE__) || defined(__x86_64__)
#include <xmmintrin.h>
#endif
#if defined(TRANSOM_STD_THREADS)
#include <thread>
#include <vector>
#elif defined(_OPENMP)
#include <omp.h>
#endif

namespace transom {

// Numbers below 1e-38 count as 0 while this lives: they would slow everything down and change nothing.
struct NoDenormals {
#if defined(__SSE__) || defined(__x86_64__)
    unsigned before = _mm_getcsr();
    NoDenormals() { _mm_setcsr(before | 0x8040); }
    ~NoDenormals() { _mm_setcsr(before); }
#endif
};

// work(unit) for every unit in [first, last), on at most `threads` threads; false if memory ran out.
template <class Work>
bool share(int64_t first, int64_t last, int threads, const Work& work) {
    std::atomic<int64_t> next{first};
    std::atomic<bool> enough{true};
    auto take_all = [&] {
        NoDenormals here;
        try {
            for (int64_t unit; (unit = next.fetch_add(1)) < last;) work(unit);
        } catch (const std::bad_alloc&) {
            enough = false;
        }
    };
    if (threads > last - first) threads = (int)(last - first);
    if (threads <= 1) {
        take_all();
        return enough;
    }
#if defined(TRANSOM_STD_THREADS)
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++) others.emplace_back(take_all);
    take_all();
    for (auto& other : others) other.join();
#else
#pragma omp parallel num_threads(threads)
    take_all();
#endif
    return enough;
}

}  // namespace transom
