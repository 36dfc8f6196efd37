// The C interface of writing: steps of a model, and the choice of tokens.
#include "foremost.hpp"
#include "program.hpp"

using namespace transom;

extern "C" {

// The sizes of what is handed over, in 12 bits each: tells whether the caller means the same.
int64_t transom_writing_layout() { return sizeof(Program) << 12 | sizeof(Operation); }

// Numbers of a packed matrix.
int64_t transom_packed_numbers(int64_t inputs, int64_t outputs) { return panels(outputs) * PANEL * inputs; }

// matrix[outputs][inputs], laid out for products.
int transom_pack(const float* matrix, int64_t inputs, int64_t outputs, float* to, int threads) {
    return share(
               0, panels(outputs), threads,
               [&](int64_t panel) { pack_panel(matrix, inputs, outputs, panel, to + panel * inputs * PANEL); }
           )
               ? 0
               : 1;
}

// All operations, one after another, for one new token of each row.
int transom_step(const Program* program, int threads) {
    const Lists& own = program->lists[0];
    for (int64_t row = 0; own.slots && row < program->rows; row++)
        own.slots[row * own.stride + own.length - 1] = (int32_t)(program->slot + row);
    for (int64_t i = 0; i < program->count; i++)
        if (!run(*program, program->operations[i], threads)) return 1;
    return 0;
}

// Y[rows][outputs] = X[rows][inputs] · matrix + shift.
int transom_product(
    const float* X, int64_t rows, int64_t inputs, int64_t outputs, const float* matrix, const float* shift, float* Y,
    int threads
) {
    Product product{inputs, outputs, matrix, shift};
    return shared_product(product, X, rows, Y, threads) ? 0 : 1;
}

// How many parts the vocabulary is cut into for so many rows.
int64_t transom_chunks(int64_t rows) { return chunks(rows); }

// The k largest of X[rows][inputs] · matrix in each row and chunk: values and places [rows][chunks][k]; and log Σ e^x
// of all, lse[rows][chunks], where there is room for it.
int transom_foremost(
    const float* X, int64_t rows, int64_t inputs, int64_t outputs, const float* matrix, const float* shift, int64_t k,
    float* values, int64_t* places, float* lse, int threads
) {
    threads = worth(rows * inputs * outputs, threads);
    Search search({inputs, outputs, matrix, shift}, X, rows, k, values, places, lse, threads);
    return share(0, search.units(), threads, [&](int64_t unit) { search.run(unit); }) ? 0 : 1;
}
}
