// Memory that a thread keeps between calls: a fresh page costs more than a small attention.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <new>

namespace transom {

class Scratch {
  public:
    ~Scratch() { free(memory); }

    // Start again with room for this many floats in all; everything taken before becomes invalid.
    void reserve(size_t floats) {
        used = 0;
        if (floats <= capacity) return;
        free(memory);
        memory = nullptr;
        capacity = 0;
        if (posix_memalign((void**)&memory, 64, floats * sizeof(float))) throw std::bad_alloc();
        capacity = floats;
    }

    float* take(size_t floats) {
        float* taken = memory + used;
        used += padded(floats);
        return taken;
    }

    static size_t padded(size_t floats) { return (floats + 15) / 16 * 16; }

  private:
    float* memory = nullptr;
    size_t capacity = 0, used = 0;
};

inline Scratch& scratch() {
    static thread_local Scratch mine;
    return mine;
}

}  // namespace transom
