// Drawing a token from a row of logits: what `engine/sampler.py` tells, in a few passes over the row.
//
// Each filter keeps what is at least some threshold, so nothing is sorted. The thresholds are found
// by bisection among the few values that can be it. Noise is made only for tokens that can still win.

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "parallel.h"
#include "vector.h"

// One row; `id` is the result.
struct Draw {
    const float *logits;
    uint64_t key;
    int64_t top_k;  // 0: all
    float temperature, top_p, min_p;
    int32_t id;
};

namespace {

constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr int TOP_P_STEPS = 20;    // as in the sampler
constexpr float LEAST_RACE = 0.06f;  // a weight of 1 gets more: noise is at most 16.64
constexpr float BEYOND = -22.2f;     // the logarithm of less than the least noise, 2^-32

// A row of logits that becomes 0 for the largest, and is filled up to whole vectors.
struct Row {
    float *values;
    int64_t size;

    void scale(float temperature) const {
        Vector top = fill(-INFINITE);
        for (int64_t i = 0; i < size; i += LANES) top = larger(top, load(values + i));
        // Subtracted first: a tiny temperature then cannot overflow.
        const float largest = largest_across(top);
        for (int64_t i = 0; i < size; i += LANES)
            store(values + i, (load(values + i) - largest) / temperature);
    }
};

// Copies the values that are at least `least`, in order, filled up to whole vectors; may be in place.
Row gather(const Row &from, float least, float *out) {
    int64_t count = 0;
    for (int64_t i = 0; i < from.size; i += LANES)
        for (uint32_t set = lanes_of(load(from.values + i) >= least); set; set &= set - 1)
            out[count++] = from.values[i + __builtin_ctz(set)];
    while (count % LANES) out[count++] = -INFINITE;
    return {out, count};
}

// The k-th largest of values <= 0, exactly: bisection on the bits, which order them.
float kth_largest(const Row &row, int64_t k) {
    int32_t low = 0, high = 0x7f800000;  // of 0 and of infinity
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        Integers counts = {};
        for (int64_t i = 0; i < row.size; i += LANES)
            counts -= ((Integers)load(row.values + i) & 0x7fffffff) <= middle;
        const int64_t count = sum_across(__builtin_convertvector(counts, Vector));
        (count >= k ? high : low) = count >= k ? middle : middle + 1;
    }
    float value;
    std::memcpy(&value, &low, sizeof value);
    return -value;
}

// The least logit that top_k keeps. The k-th of some of the values is a bound: few are above it.
float top_k_floor(const Row &row, int64_t k, float *scratch) {
    constexpr int64_t block = 16;  // vectors of which each lane's largest is taken
    int64_t count = 0;
    for (int64_t i = 0; i < row.size; count += LANES) {
        Vector top = fill(-INFINITE);
        for (const int64_t end = std::min(row.size, i + block * LANES); i < end; i += LANES)
            top = larger(top, load(row.values + i));
        store(scratch + count, top);
    }
    const float bound = count < k ? -INFINITE : kth_largest({scratch, count}, k);
    return kth_largest(gather(row, bound, scratch), k);
}

// The least e^logit that top_p keeps, among logits >= `floor`; as `keep_top_p` of the sampler.
float top_p_least(const Row &row, float floor, float top_p, int64_t vocab, float *scratch) {
    Vector sum = {};
    for (int64_t i = 0; i < row.size; i += LANES) {
        const Vector logits = load(row.values + i);
        const Vector weights = logits >= floor ? exp_of(logits) : fill(0.0f);
        store(scratch + i, weights);
        sum += weights;
    }
    const float total = sum_across(sum);
    // What is below this holds less than 1 - top_p together.
    float high = 1, low = std::min(std::max(1 - top_p, 1e-9f) * total / vocab, high);
    const Row likely = gather({scratch, row.size}, low, scratch);
    for (int step = 0; step < TOP_P_STEPS; step++) {
        const float middle = std::sqrt(low * high);
        Vector kept = {};
        for (int64_t i = 0; i < likely.size; i += LANES) {
            const Vector weights = load(likely.values + i);
            kept += weights >= middle ? weights : fill(0.0f);
        }
        (sum_across(kept) >= top_p * total ? low : high) = middle;
    }
    return low;
}

// lowbias32 (Wellons 2018)
Bits mixed(Bits x) {
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// The uniform number of each of LANES ids from `first`, as in `exponential_noise` of the sampler.
Vector uniform(int64_t first, uint64_t key) {
    Bits ids;
    for (int lane = 0; lane < LANES; lane++) ids[lane] = first + lane;
    const Bits bits = mixed(mixed(ids ^ (uint32_t)key) ^ (uint32_t)(key >> 32));
    const Vector whole = __builtin_convertvector((Integers)(bits & 0x7fffffffu), Vector);
    const Vector number = (whole + 0.5f) * 0x1p-31f, limit = fill(1 - 0x1p-24f);
    return number < limit ? number : limit;
}

// The winner among logits >= `floor` whose e^logit is >= `least`: where e^logit / noise is largest.
int32_t race(const Row &row, uint64_t key, float floor, float least) {
    float best = LEAST_RACE, possible = std::max(floor, std::log(best) + BEYOND);
    int32_t id = -1;
    for (int64_t i = 0; i < row.size; i += LANES) {
        const Vector logits = load(row.values + i);
        if (!lanes_of(logits >= possible)) continue;
        const Vector all = exp_of(logits);
        const Vector weights = (logits >= floor) & (all >= least) ? all : fill(0.0f);
        const Vector number = uniform(i, key);
        // The noise is at least the number that it is made of.
        if (!lanes_of(weights > number * best)) continue;
        const Vector scores = weights / -log1p_of(-number);
        for (uint32_t set = lanes_of(scores > best); set; set &= set - 1) {
            const int lane = __builtin_ctz(set);
            if (scores[lane] > best) best = scores[lane], id = i + lane;
        }
        possible = std::max(floor, std::log(best) + BEYOND);
    }
    return id;
}

void draw_one(Draw &draw, int64_t vocab) {
    // Kept for the next row: the system's fresh pages would cost more than the draw.
    thread_local std::vector<float> memory;
    const int64_t size = (vocab + LANES - 1) / LANES * LANES;
    memory.resize(2 * size);
    const Row row{memory.data(), size};
    float *const scratch = memory.data() + size;
    std::copy_n(draw.logits, vocab, row.values);
    std::fill(row.values + vocab, row.values + size, -INFINITE);
    row.scale(draw.temperature);

    const bool is_k = draw.top_k > 0 && draw.top_k < vocab;
    const float floor = is_k ? top_k_floor(row, draw.top_k, scratch) : -INFINITE;
    const float least = draw.top_p < 1 ? top_p_least(row, floor, draw.top_p, vocab, scratch) : 0;
    const float near = draw.min_p > 0 ? std::log(draw.min_p) : -INFINITE;
    draw.id = race(row, draw.key, std::max(floor, near), least);
    // Logits that are infinite or no numbers have no winner.
    if (draw.id < 0) draw.id = std::max_element(draw.logits, draw.logits + vocab) - draw.logits;
}

}  // namespace

// Draws for each of `draws`, whose rows have `vocab` logits.
extern "C" void draw(Draw *draws, int64_t count, int64_t vocab, int32_t threads) {
    parallel_for(count, threads, [&](int64_t i) { draw_one(draws[i], vocab); });
}
