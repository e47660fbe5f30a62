// Vectors of floats in the compiler's own notation, with few functions that every kernel shares.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __AVX512F__
constexpr int LANES = 16;
#else
constexpr int LANES = 8;
#endif

typedef float Vector __attribute__((vector_size(4 * LANES)));
typedef int32_t Integers __attribute__((vector_size(4 * LANES)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));
typedef float Unaligned __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

inline Vector load(const float *from) { return *reinterpret_cast<const Unaligned *>(from); }
inline void store(float *to, Vector values) { *reinterpret_cast<Unaligned *>(to) = values; }
inline Vector fill(float value) { return Vector{} + value; }
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// e^x for x <= 88; exactly 1 at 0 and exactly 0 below -87. Within 2 units in the last place.
// Range reduction and polynomial are those of expf in Moshier's Cephes library.
inline Vector exp_of(Vector x) {
    const Vector shift = fill(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer.
    const Vector shifted = x * 1.44269504088896341f + shift;
    const Vector whole = shifted - shift;
    const Vector rest = x - whole * 0.693359375f - whole * -2.12194440e-4f;
    Vector sum = fill(1.9875691500e-4f);
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    sum = sum * (rest * rest) + rest + 1.0f;
    // The integer stands in the lowest bits of `shifted`; added to the exponent, it multiplies.
    const Vector power = (Vector)(((Bits)shifted << 23) + ((Bits)fill(1.0f)));
    return x < -87.0f ? fill(0.0f) : sum * power;
}

// The product of SwiGLU: silu(gate) * up.
inline Vector gated(Vector gate, Vector up) {
    // Beyond 88 the exponential is no number; the result is as good as zero long before.
    const Vector limit = fill(88.0f);
    return gate / (exp_of(-gate < limit ? -gate : limit) + 1.0f) * up;
}

// All lanes combined in a tree, whose order is fixed.
template <class Combine> inline float across(Vector values, Combine combine) {
    float lanes[LANES];
    store(lanes, values);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lanes[i] = combine(lanes[i], lanes[i + half]);
    return lanes[0];
}
inline float sum_across(Vector values) {
    return across(values, [](float a, float b) { return a + b; });
}
inline float largest_across(Vector values) {
    return across(values, [](float a, float b) { return a > b ? a : b; });
}
