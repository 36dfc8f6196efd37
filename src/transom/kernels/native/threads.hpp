// Parallel loops. Whichever thread is free takes the next unit; no result depends on which thread computed it.
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
struct FlushDenormals {
#if defined(__SSE__) || defined(__x86_64__)
    unsigned before = _mm_getcsr();
    FlushDenormals() { _mm_setcsr(before | 0x8040); }
    ~FlushDenormals() { _mm_setcsr(before); }
#endif
};

// work(unit) for every unit in [first, last), on at most `threads` threads; false if memory ran out.
template <class Work>
bool parallel_for(int64_t first, int64_t last, int threads, const Work& work) {
    std::atomic<int64_t> next{first};
    std::atomic<bool> succeeded{true};
    auto work_until_done = [&] {
        FlushDenormals here;
        try {
            for (int64_t unit; (unit = next.fetch_add(1)) < last;) work(unit);
        } catch (const std::bad_alloc&) {
            succeeded = false;
        }
    };
    if (threads > last - first) threads = (int)(last - first);
    if (threads <= 1) {
        work_until_done();
        return succeeded;
    }
#if defined(TRANSOM_STD_THREADS)
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++) others.emplace_back(work_until_done);
    work_until_done();
    for (auto& other : others) other.join();
#else
#pragma omp parallel num_threads(threads)
    work_until_done();
#endif
    return succeeded;
}

// As many threads as gain more than they cost, for so many multiplications.
inline int threads_for(int64_t multiplications, int threads) { return multiplications < (1 << 20) ? 1 : threads; }

}  // namespace transom
