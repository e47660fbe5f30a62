// Vectors of floats in the compiler's own notation, with few functions that every kernel shares.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __AVX__
#include <immintrin.h>
#endif

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

// log(1 + x) for -1 < x <= 0. Within 3 units in the last place.
// Range reduction and polynomial are those of logf in Cephes; what 1 + x loses is added at the end.
inline Vector log1p_of(Vector x) {
    const Vector one = fill(1.0f), sum = x + 1.0f;
    const Bits bits = (Bits)sum - 0x3f3504f3u;  // of the square root of 1/2
    const Vector power = __builtin_convertvector((Integers)bits >> 23, Vector);
    const Vector f = (Vector)((bits & 0x007fffffu) + 0x3f3504f3u) - one;
    Vector series = fill(7.0376836292e-2f);
    series = series * f - 1.1514610310e-1f;
    series = series * f + 1.1676998740e-1f;
    series = series * f - 1.2420140846e-1f;
    series = series * f + 1.4249322787e-1f;
    series = series * f - 1.6668057665e-1f;
    series = series * f + 2.0000714765e-1f;
    series = series * f - 2.4999993993e-1f;
    series = series * f + 3.3333331174e-1f;
    const Vector square = f * f;
    const Vector small = series * f * square - power * 2.12194440e-4f - square * 0.5f;
    return f + small + power * 0.693359375f + (x - (sum - one)) / sum;
}

// The product of SwiGLU: silu(gate) * up.
inline Vector gated(Vector gate, Vector up) {
    // Beyond 88 the exponential is no number; the result is as good as zero long before.
    const Vector limit = fill(88.0f);
    return gate / (exp_of(-gate < limit ? -gate : limit) + 1.0f) * up;
}

// A bit for each lane that a comparison is true for, the first lane's the lowest.
inline uint32_t lanes_of(Integers compared) {
#if defined(__AVX512DQ__)
    return _mm512_movepi32_mask((__m512i)compared);
#elif defined(__AVX__) && !defined(__AVX512F__)
    return _mm256_movemask_ps((__m256)compared);
#else
    uint32_t bits = 0;
    for (int lane = 0; lane < LANES; lane++) bits |= (compared[lane] & 1u) << lane;
    return bits;
#endif
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
