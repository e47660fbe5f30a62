// The product of SwiGLU: silu(gate) * up, element by element.

#include <algorithm>

#include "parallel.h"
#include "vector.h"

namespace {

void gate_row(const float *gate, const float *up, int64_t width, float *out) {
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) store(out + i, gated(load(gate + i), load(up + i)));
    if (i == width) return;
    // The rest goes through the same instructions, in a vector of its own.
    float rest[3][LANES] = {};
    std::copy(gate + i, gate + width, rest[0]);
    std::copy(up + i, up + width, rest[1]);
    store(rest[2], gated(load(rest[0]), load(rest[1])));
    std::copy_n(rest[2], width - i, out + i);
}

}  // namespace

// Gates `gate_up` [rows, 2 * width] to `out` [rows, width].
extern "C" void gate(const float *gate_up, int64_t rows, int64_t width, float *out, int32_t threads) {
    constexpr int64_t block = 16;  // rows a thread takes at once
    parallel_for((rows + block - 1) / block, threads, [&](int64_t i) {
        for (int64_t row = i * block; row < std::min(rows, (i + 1) * block); row++) {
            const float *at = gate_up + 2 * row * width;
            gate_row(at, at + width, width, out + row * width);
        }
    });
}
