// How the work is cut. It follows from the shape alone, never from the number of threads: so do the results.
#pragma once
#include <algorithm>

#include "attention.hpp"
#include "lanes.hpp"

namespace transom {

constexpr int64_t BLOCK = 2048;  // keys scored at a time: with ROWS rows they fill a part of the second-level cache
constexpr int64_t MASKED_BLOCK = 256;  // the same where blocks may be skipped as wholly masked
constexpr int64_t PARTS = 32;  // units there should be at least, if rows suffice, when each needs memory of its own

struct Plan {
    int64_t block;  // keys scored at a time
    int64_t group;  // blocks of rows that go over the keys together
    int64_t tasks;  // such groups in one head
    int64_t chunks;  // units in one head: runs of tasks whose column sums belong together

    Plan(const Attention& of, bool columns) {
        block = of.given || of.eithers ? MASKED_BLOCK : BLOCK;
        group = of.keys < 2 * BLOCK || of.queries < 8 * ROWS ? 1 : columns ? 2 : 4;
        tasks = (of.queries + group * ROWS - 1) / (group * ROWS);
        int64_t heads = std::max<int64_t>(1, of.batch * of.heads);
        chunks = columns ? std::min(tasks, (PARTS + heads - 1) / heads) : tasks;
    }

    int64_t first_task(int64_t chunk) const { return chunk * tasks / chunks; }
};

// Which head, and which chunk of it: the longest first, as later rows see more keys when no row may look ahead.
struct Unit {
    int64_t head, chunk;

    Unit(int64_t number, int64_t chunks) : head(number / chunks), chunk(chunks - 1 - number % chunks) {}
};

}  // namespace transom
