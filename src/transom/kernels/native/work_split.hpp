// How the work is split. This depends on the shape alone, never on the number of threads, and so do the results.
#pragma once
#include <algorithm>

#include "params.hpp"
#include "simd.hpp"

namespace transom {

constexpr int64_t KEY_BLOCK = 2048;  // keys scored at a time: with ROW_BLOCK rows they fill part of the L2 cache
constexpr int64_t MASKED_KEY_BLOCK = 256;  // the same where fully masked blocks can be skipped
constexpr int64_t MIN_UNITS = 32;  // work units to aim for, if there are enough rows, when each needs its own memory

struct WorkSplit {
    int64_t key_block;  // keys scored at a time
    int64_t group_blocks;  // row blocks that go through the keys together
    int64_t groups;  // such groups in one head
    int64_t chunks;  // work units in one head: runs of groups that share their column sums

    WorkSplit(const AttentionParams& params, bool column_sums) {
        key_block = params.mask || params.or_mask_count ? MASKED_KEY_BLOCK : KEY_BLOCK;
        group_blocks = params.keys < 2 * KEY_BLOCK || params.queries < 8 * ROW_BLOCK ? 1 : column_sums ? 2 : 4;
        groups = (params.queries + group_blocks * ROW_BLOCK - 1) / (group_blocks * ROW_BLOCK);
        int64_t heads = std::max<int64_t>(1, params.batch * params.heads);
        chunks = column_sums ? std::min(groups, (MIN_UNITS + heads - 1) / heads) : groups;
    }

    int64_t first_group(int64_t chunk) const { return chunk * groups / chunks; }
};

// The head and the chunk of one work unit. The last chunk comes first: under a causal mask it has the most to do.
struct WorkUnit {
    int64_t head, chunk;

    WorkUnit(int64_t index, int64_t chunks) : head(index / chunks), chunk(chunks - 1 - index % chunks) {}
};

}  // namespace transom
