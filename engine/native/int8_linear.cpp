// Linear layers of int8 weights and int8 activations, exact to the integer: a row's result is bit
// for bit the same alone, among other rows and with any number of threads.
//
// A row of activations, or each group of it, is divided by its largest magnitude and rounded to
// 255 levels. Weights lie in panels of some outputs, four inputs side by side as the instructions
// want them; each panel is read from memory once for all rows.

#ifdef __AVX2__

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "parallel.h"
#include "vector.h"

namespace {

#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
constexpr int INT_LANES = 16;
// Rows of a tile: their sums fit the registers, of groups beside their results.
constexpr int ROWS = 12, GROUPED_ROWS = 6;
// VNNI multiplies unsigned by signed bytes: weights are stored 128 too large, and `sums` undo it.
constexpr uint8_t OFFSET = 128;
using Ints = __m512i;
inline Ints all(int32_t x) { return _mm512_set1_epi32(x); }
inline Ints load(const uint8_t *from) { return _mm512_loadu_si512(from); }
inline Ints dot(Ints sums, Ints weights, Ints inputs) {
    // As an intrinsic, GCC moves every sum to another register and back at each step.
    asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(weights), "v"(inputs));
    return sums;
}
#else
constexpr int INT_LANES = 8;
constexpr int ROWS = 4, GROUPED_ROWS = 2;
using Ints = __m256i;
inline Ints all(int32_t x) { return _mm256_set1_epi32(x); }
inline Ints load(const uint8_t *from) { return _mm256_loadu_si256((const Ints *)from); }
#ifdef __AVXVNNI__
constexpr uint8_t OFFSET = 128;
inline Ints dot(Ints sums, Ints weights, Ints inputs) {
    return _mm256_dpbusd_avx_epi32(sums, weights, inputs);
}
#else
constexpr uint8_t OFFSET = 0;
// Two products of magnitudes up to 127 fit 16 bits: nothing saturates.
inline Ints dot(Ints sums, Ints weights, Ints inputs) {
    Ints pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(inputs), _mm256_sign_epi8(weights, inputs));
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif
#endif

constexpr int64_t PANEL = 2 * INT_LANES;
constexpr float LEVELS = 127;
// Adding it rounds a float32 to an integer, half to even.
constexpr float ROUNDER = 12582912;
typedef float Floats __attribute__((vector_size(4 * INT_LANES)));
typedef int32_t Int32s __attribute__((vector_size(4 * INT_LANES)));
typedef int8_t Bytes __attribute__((vector_size(LANES)));

enum Inputs : int32_t { PLAIN, NORMED, GATED };

int64_t quotient_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

extern "C" {

// What stays the same between calls; `engine/native_linear.py` has the same fields.
struct Int8Layer {
    const uint8_t *weights;  // as int8_linear_pack writes them
    const float *scales;     // [outputs]
    const float *bias;       // [outputs] or null
    int64_t width, outputs;
    int64_t group;  // inputs that share a scale: a multiple of 16, from `width` on all of a row
    float epsilon;
    int32_t inputs;  // of `Inputs`
    int32_t adds;    // whether results are added to what `out` holds
};
}

namespace {

// Rows of activations as bytes, with a scale and a sum for each group. `size` rows, a tile, lie
// together, four inputs of each side by side: what a step of `multiply` reads is in one place.
struct Rounded {
    int64_t rows, size, width, groups;
    std::vector<int8_t> bytes;
    std::vector<float> peaks;
    std::vector<int32_t> sums;

    void shape(const Int8Layer &layer, int64_t count) {
        rows = count;
        width = quotient_up(layer.width, LANES) * LANES;
        groups = quotient_up(layer.width, layer.group);
        size = quotient_up(rows, quotient_up(rows, groups == 1 ? ROWS : GROUPED_ROWS));
        bytes.resize(rows * width);
        peaks.resize(rows * groups);
        sums.resize(rows * groups);
    }
    int64_t in_tile(int64_t tile) const { return std::min(size, rows - tile * size); }
};

template <class T> T read(const void *from, int64_t bytes = sizeof(T)) {
    T value{};
    memcpy(&value, from, std::clamp<int64_t>(bytes, 0, sizeof(T)));
    return value;
}

// The layer's inputs `[at, at + LANES)` of a row, zero beyond its end.
Vector input(const Int8Layer &layer, const float *row, int64_t at) {
    const int64_t bytes = 4 * (layer.width - at);
    Vector x = read<Vector>(row + at, bytes);
    return layer.inputs == GATED ? gated(x, read<Vector>(row + layer.width + at, bytes)) : x;
}

// The largest of magnitudes, above zero. As integers, not-a-number is the largest of all.
float peak_of(Integers magnitudes) {
    int32_t peak = 0x00800000;
    for (int i = 0; i < LANES; i++) peak = std::max(peak, magnitudes[i]);
    return read<float>(&peak);
}

void round_row(const Int8Layer &layer, const float *row, int64_t index, Rounded &to) {
    static thread_local std::vector<Vector> values;
    values.resize(to.width / LANES);
    const int64_t tile = index / to.size, count = to.in_tile(tile);
    int8_t *bytes = &to.bytes[tile * to.size * to.width + index % to.size * 4];
    Vector squares{};
    for (int64_t g = 0; g < to.groups; g++) {
        const int64_t begin = g * layer.group / LANES;
        const int64_t end = std::min(begin + layer.group / LANES, to.width / LANES);
        Integers largest{}, sums{};
        for (int64_t i = begin; i < end; i++) {
            const Vector x = values[i] = input(layer, row, i * LANES);
            const Integers magnitude = (Integers)x & 0x7fffffff;
            largest = magnitude > largest ? magnitude : largest;
            squares += x * x;
        }
        const float peak = peak_of(largest);
        for (int64_t i = begin; i < end; i++) {
            // By way of 128, as FBGEMM does, so that both round the same.
            const Vector above = values[i] / peak * LEVELS + 128.0f;
            const Vector level = above + ROUNDER - ROUNDER - 128.0f;
            const Integers rounded = __builtin_convertvector(level, Integers);
            const Bytes narrow = __builtin_convertvector(rounded, Bytes);
            sums += rounded;
            for (int four = 0; four < LANES / 4; four++)
                memcpy(bytes + (LANES / 4 * i + four) * 4 * count, (const int8_t *)&narrow + 4 * four, 4);
        }
        int32_t total = 0;
        for (int i = 0; i < LANES; i++) total += sums[i];
        to.peaks[index * to.groups + g] = peak;
        to.sums[index * to.groups + g] = -OFFSET * total;
    }
    if (layer.inputs != NORMED) return;
    const float norm = 1 / std::sqrt(sum_across(squares) / layer.width + layer.epsilon);
    for (int64_t g = 0; g < to.groups; g++) to.peaks[index * to.groups + g] *= norm;
}

// Writes some outputs of a row, from output `at` on, as far as there are any.
void write(const Int8Layer &layer, Floats results, int64_t at, float *row) {
    const int64_t bytes = std::clamp<int64_t>(4 * (layer.outputs - at), 0, sizeof(Floats));
    if (layer.bias) results += read<Floats>(layer.bias + at, bytes);
    if (layer.adds) results += read<Floats>(row + at, bytes);
    memcpy(row + at, &results, bytes);
}

// Adds the products of inputs `[4 * begin, 4 * end)`.
template <int R>
inline void add_products(const uint8_t *weights, const int8_t *inputs, int64_t begin, int64_t end,
                         Ints (&sums)[R][2]) {
    for (int64_t k = begin; k < end; k++) {
        const Ints low = load(weights + k * 4 * PANEL);
        const Ints high = load(weights + k * 4 * PANEL + 4 * INT_LANES);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            const Ints x = all(read<int32_t>(inputs + (k * R + r) * 4));
            sums[r][0] = dot(sums[r][0], low, x);
            sums[r][1] = dot(sums[r][1], high, x);
        }
    }
}

// A tile of R rows times one panel of weights.
template <int R, bool GROUPED>
void multiply(const Int8Layer &layer, const Rounded &from, int64_t tile, int64_t panel, float *out) {
    const int64_t steps = quotient_up(layer.width, 4), first = tile * from.size;
    const uint8_t *weights = layer.weights + panel * steps * 4 * PANEL;
    const int8_t *inputs = &from.bytes[first * from.width];
    const float *peaks = &from.peaks[first * from.groups];
    const int32_t *starts = &from.sums[first * from.groups];
    const float *scales = layer.scales + panel * PANEL;
    const int64_t bytes = 4 * (layer.outputs - panel * PANEL);
    Floats results[R][2] = {};
    for (int64_t g = 0; g < (GROUPED ? from.groups : 1); g++) {
        Ints sums[R][2];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) sums[r][0] = sums[r][1] = all(starts[r * from.groups + g]);
        const int64_t end = GROUPED ? std::min((g + 1) * layer.group / 4, steps) : steps;
        add_products<R>(weights, inputs, g * layer.group / 4, end, sums);
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            const Floats scale = read<Floats>(scales + v * INT_LANES, bytes - v * 4 * INT_LANES);
#pragma GCC unroll 16
            for (int r = 0; r < R; r++) {
                const Floats product = __builtin_convertvector((Int32s)sums[r][v], Floats) * scale;
                results[r][v] += product * peaks[r * from.groups + g];
            }
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
        for (int v = 0; v < 2; v++)
            write(layer, results[r][v], panel * PANEL + v * INT_LANES, out + (first + r) * layer.outputs);
}

// Calls multiply for the number of rows that the tile has.
template <int R, bool GROUPED>
void multiply_tile(const Int8Layer &layer, const Rounded &from, int64_t tile, int64_t panel, float *out) {
    if (from.in_tile(tile) == R) return multiply<R, GROUPED>(layer, from, tile, panel, out);
    if constexpr (R > 1) multiply_tile<R - 1, GROUPED>(layer, from, tile, panel, out);
}

}  // namespace

extern "C" {

int64_t int8_linear_packed_bytes(int64_t width, int64_t outputs) {
    return quotient_up(outputs, PANEL) * PANEL * quotient_up(width, 4) * 4;
}

// Lays rows `[outputs, width]` out in panels.
void int8_linear_pack(const int8_t *rows, int64_t width, int64_t outputs, uint8_t *packed) {
    const int64_t steps = quotient_up(width, 4);
    memset(packed, OFFSET, int8_linear_packed_bytes(width, outputs));
    for (int64_t o = 0; o < outputs; o++) {
        uint8_t *panel = packed + (o / PANEL * steps * PANEL + o % PANEL) * 4;
        for (int64_t i = 0; i < width; i++)
            panel[i / 4 * 4 * PANEL + i % 4] = (uint8_t)(rows[o * width + i] + OFFSET);
    }
}

// Maps `[rows, width]`, or for a gated layer `[rows, 2 * width]`, to `out` `[rows, outputs]`.
void int8_linear(const Int8Layer *layer, const float *in, int64_t rows, float *out, int threads) {
    if (rows == 0) return;
    static thread_local Rounded kept;
    // A lambda cannot capture `kept`: each thread that runs it would take its own.
    Rounded &rounded = kept;
    rounded.shape(*layer, rows);
    const int64_t stride = layer->inputs == GATED ? 2 * layer->width : layer->width;
    parallel_for(rows, threads, [&](int64_t row) {
        round_row(*layer, in + row * stride, row, rounded);
    });
    const int64_t panels = quotient_up(layer->outputs, PANEL);
    const int64_t tiles = quotient_up(rows, rounded.size);
    parallel_for(panels, threads, [&](int64_t panel) {
        for (int64_t tile = 0; tile < tiles; tile++)
            if (rounded.groups == 1)
                multiply_tile<ROWS, false>(*layer, rounded, tile, panel, out);
            else
                multiply_tile<GROUPED_ROWS, true>(*layer, rounded, tile, panel, out);
    });
}
}

#endif
