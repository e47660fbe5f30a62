// Causal attention over slots' keys and values, in float32, one layer at a time.
//
// Whatever tile, chunk or batch a token is computed in, its result has the same bits: a score is one
// chain of multiply-adds over the dimensions in order, values are added in the order of their keys,
// and softmax is rescaled at multiples of KEYS, counted from the sequence's beginning. A key that a
// token does not see adds an exact zero. (Online softmax: Milakov and Gimelshein, arXiv:1805.02867;
// tiled over keys: Dao et al., arXiv:2205.14135.)

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "parallel.h"
#include "vector.h"

namespace {

constexpr int KEYS = 64;                        // of one block
constexpr int ROWS = LANES == 16 ? 6 : 2;       // queries whose sums stay in registers
constexpr int COLUMNS = 4;                      // vectors of each of them
constexpr int TILE = 128;                       // queries that share a transposed block of keys
constexpr float LOWEST = -1e30f;                // below all scores, and its difference is no NaN
constexpr int64_t WORTH_A_THREAD = 1 << 16;     // multiply-adds

}  // namespace

// What all layers of one pass share. Token t belongs to cache row `rows[t]`, at `positions[t]`.
struct Pass {
    const int64_t *rows, *positions;
    const float *cosines, *sines;  // [tokens, dim / 2]
    int64_t tokens, heads, kv_heads, dim, ctx;
    float epsilon;
    int32_t threads;
};

// One layer: `joined` [tokens, heads + 2 * kv_heads, dim], the cache [slots, kv_heads, ctx, dim].
struct Layer {
    float *joined, *keys, *values;
    const float *head_norm;  // [heads + kv_heads, dim] or null
    int64_t window;          // 0: all that is before
    float *output;           // [tokens, heads, dim]
};

namespace {

struct Tile {
    int64_t first, count;  // neighbouring tokens of one row
};

// Floats that are zero at first, aligned for vectors.
class Buffer {
  public:
    explicit Buffer(size_t count)
        : data_(static_cast<float *>(std::aligned_alloc(64, (4 * count + 63) / 64 * 64))) {
        std::fill_n(data_, count, 0.0f);
    }
    ~Buffer() { std::free(data_); }
    Buffer(const Buffer &) = delete;
    operator float *() const { return data_; }

  private:
    float *data_;
};

inline int64_t padded(int64_t dim) { return (dim + LANES - 1) / LANES * LANES; }

void normalise(float *head, const float *weights, int64_t dim, float epsilon) {
    float squares[LANES] = {};
    for (int64_t d = 0; d < dim; d++) squares[d % LANES] += head[d] * head[d];
    const float scale = 1.0f / std::sqrt(sum_across(load(squares)) / dim + epsilon);
    for (int64_t d = 0; d < dim; d++) head[d] = head[d] * scale * weights[d];
}

void rotate(float *head, const float *cosines, const float *sines, int64_t half) {
    int64_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        const Vector real = load(head + i), imaginary = load(head + half + i);
        const Vector cosine = load(cosines + i), sine = load(sines + i);
        store(head + i, real * cosine - imaginary * sine);
        store(head + half + i, real * sine + imaginary * cosine);
    }
    for (; i < half; i++) {
        const float real = head[i], imaginary = head[half + i];
        head[i] = real * cosines[i] - imaginary * sines[i];
        head[half + i] = real * sines[i] + imaginary * cosines[i];
    }
}

// Turns token t's queries and keys, and puts keys and values into the cache.
void place(const Pass &pass, const Layer &layer, int64_t t) {
    const int64_t dim = pass.dim, turned = pass.heads + pass.kv_heads;
    float *token = layer.joined + t * (turned + pass.kv_heads) * dim;
    for (int64_t h = 0; h < turned; h++) {
        float *head = token + h * dim;
        if (layer.head_norm) normalise(head, layer.head_norm + h * dim, dim, pass.epsilon);
        rotate(head, pass.cosines + t * dim / 2, pass.sines + t * dim / 2, dim / 2);
    }
    for (int64_t h = 0; h < pass.kv_heads; h++) {
        const int64_t at = ((pass.rows[t] * pass.kv_heads + h) * pass.ctx + pass.positions[t]) * dim;
        std::memcpy(layer.keys + at, token + (pass.heads + h) * dim, 4 * dim);
        std::memcpy(layer.values + at, token + (turned + h) * dim, 4 * dim);
    }
}

#ifdef __AVX512F__
// Exchanges bit `BIT` of a number's row with that of its column.
template <int BIT> void exchange(Vector *rows) {
    constexpr auto low = [](int i) { return i & BIT ? LANES + (i ^ BIT) : i; };
    constexpr auto high = [](int i) { return i & BIT ? LANES + i : i | BIT; };
    for (int r = 0; r < 16; r++) {
        if (r & BIT) continue;
        const Vector a = rows[r], b = rows[r | BIT];
        rows[r] = __builtin_shufflevector(a, b, low(0), low(1), low(2), low(3), low(4), low(5), low(6),
                                          low(7), low(8), low(9), low(10), low(11), low(12), low(13),
                                          low(14), low(15));
        rows[r | BIT] = __builtin_shufflevector(
            a, b, high(0), high(1), high(2), high(3), high(4), high(5), high(6), high(7), high(8),
            high(9), high(10), high(11), high(12), high(13), high(14), high(15));
    }
}
#endif

// Writes keys [count, dim] as [dim, KEYS].
void transpose(const float *keys, int64_t count, int64_t dim, float *to) {
    int64_t key = 0;
#ifdef __AVX512F__
    for (; key + LANES <= count; key += LANES) {
        int64_t d = 0;
        for (; d + LANES <= dim; d += LANES) {
            Vector rows[LANES];
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) rows[i] = load(keys + (key + i) * dim + d);
            exchange<1>(rows), exchange<2>(rows), exchange<4>(rows), exchange<8>(rows);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++) store(to + (d + i) * KEYS + key, rows[i]);
        }
        for (; d < dim; d++)
            for (int i = 0; i < LANES; i++) to[d * KEYS + key + i] = keys[(key + i) * dim + d];
    }
#endif
    for (; key < count; key++)
        for (int64_t d = 0; d < dim; d++) to[d * KEYS + key] = keys[key * dim + d];
}

// Asks for what is read next: a block is too short for the processor to notice by itself.
inline void fetch(const float *from, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) __builtin_prefetch(from + i);
}

// Scores [R, KEYS] of queries [R, dim] and a block of transposed keys.
template <int R> void score(const float *queries, const float *keys, int64_t dim, float *scores) {
    for (int c = 0; c < KEYS; c += COLUMNS * LANES) {
        Vector sums[R][COLUMNS] = {};
        for (int64_t d = 0; d < dim; d++)
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 8
                for (int j = 0; j < COLUMNS; j++)
                    sums[r][j] += queries[r * dim + d] * load(keys + d * KEYS + c + j * LANES);
        for (int r = 0; r < R; r++)
            for (int j = 0; j < COLUMNS; j++) store(scores + r * KEYS + c + j * LANES, sums[r][j]);
    }
}

// Adds `count` values, weighted, to V vectors of each of R sums, `width` floats apart.
template <int R, int V>
void add(const float *weights, const float *values, int64_t stride, int64_t count, const float *shrink,
         float *sums, int64_t width) {
    Vector total[R][V];
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < V; j++) total[r][j] = load(sums + r * width + j * LANES) * shrink[r];
    for (int64_t key = 0; key < count; key++)
#pragma GCC unroll 8
        for (int r = 0; r < R; r++)
#pragma GCC unroll 8
            for (int j = 0; j < V; j++)
                total[r][j] += weights[r * KEYS + key] * load(values + key * stride + j * LANES);
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int j = 0; j < V; j++) store(sums + r * width + j * LANES, total[r][j]);
}

// One query's softmax so far.
struct Softmax {
    float largest = LOWEST;
    Vector sum = {};

    // Makes a block's scores weights, those of keys in [from, to); returns what shrinks earlier sums.
    float take(float *scores, int64_t from, int64_t to) {
        Vector top = fill(LOWEST);
        if (from > 0 || to < KEYS)
            for (int key = 0; key < KEYS; key++)
                scores[key] = from <= key && key < to ? scores[key] : -INFINITY;
        for (int key = 0; key < KEYS; key += LANES) top = larger(top, load(scores + key));
        const float before = largest;
        largest = std::max(before, largest_across(top));
        const float shrink = exp_of(fill(before - largest))[0];
        sum *= shrink;
        for (int key = 0; key < KEYS; key += LANES) {
            const Vector weight = exp_of(load(scores + key) - largest);
            store(scores + key, weight);
            sum += weight;
        }
        return shrink;
    }
};

// Neighbouring tokens of one cache row, and the query heads that share one head of keys.
class TileOfQueries {
  public:
    TileOfQueries(const Pass &pass, const Layer &layer, Tile tile, int64_t kv_head)
        : pass_(pass), layer_(layer), tile_(tile), kv_head_(kv_head), group_(pass.heads / pass.kv_heads),
          count_(tile.count * group_), width_(padded(pass.dim)), queries_(count_ * pass.dim),
          sums_(count_ * width_), keys_(pass.dim * KEYS), values_(pass.dim % LANES ? KEYS * width_ : 0),
          softmax_(count_) {}

    void attend() {
        read_queries();
        const int64_t *positions = pass_.positions + tile_.first;
        const auto [low, high] = std::minmax_element(positions, positions + tile_.count);
        const int64_t first = layer_.window ? std::max<int64_t>(0, *low - layer_.window + 1) : 0;
        for (int64_t start = first / KEYS * KEYS; start <= *high; start += KEYS)
            block(start, std::min<int64_t>(KEYS, *high + 1 - start));
        write_output();
    }

  private:
    void read_queries() {
        const float scale = 1.0f / std::sqrt(static_cast<float>(pass_.dim));
        const int64_t stride = (pass_.heads + 2 * pass_.kv_heads) * pass_.dim;
        for (int64_t i = 0; i < count_; i++) {
            const int64_t head = kv_head_ * group_ + i % group_;
            const float *from = layer_.joined + (tile_.first + i / group_) * stride + head * pass_.dim;
            for (int64_t d = 0; d < pass_.dim; d++) queries_[i * pass_.dim + d] = from[d] * scale;
        }
    }

    // Keys [start, start + count).
    void block(int64_t start, int64_t count) {
        const int64_t row = pass_.rows[tile_.first];
        const int64_t at = ((row * pass_.kv_heads + kv_head_) * pass_.ctx + start) * pass_.dim;
        const int64_t size = count * pass_.dim;
        const float *values = layer_.values + at;
        fetch(values, size);
        transpose(layer_.keys + at, count, pass_.dim, keys_);
        fetch(layer_.keys + at + size, size);
        if (pass_.dim % LANES) {
            for (int64_t key = 0; key < count; key++)
                std::memcpy(values_ + key * width_, values + key * pass_.dim, 4 * pass_.dim);
            values = values_;
        }
        int64_t i = 0;
        for (; i + ROWS <= count_; i += ROWS) queries<ROWS>(i, start, count, values);
        for (; i < count_; i++) queries<1>(i, start, count, values);
    }

    template <int R> void queries(int64_t i, int64_t start, int64_t count, const float *values) {
        alignas(64) float scores[R * KEYS];
        float shrink[R];
        score<R>(queries_ + i * pass_.dim, keys_, pass_.dim, scores);
        for (int r = 0; r < R; r++) {
            const int64_t position = pass_.positions[tile_.first + (i + r) / group_] - start;
            const int64_t from = layer_.window ? position - layer_.window + 1 : 0;
            shrink[r] = softmax_[i + r].take(scores + r * KEYS, from, position + 1);
        }
        float *sums = sums_ + i * width_;
        int64_t d = 0;
        for (; d + COLUMNS * LANES <= width_; d += COLUMNS * LANES)
            add<R, COLUMNS>(scores, values + d, width_, count, shrink, sums + d, width_);
        for (; d < width_; d += LANES)
            add<R, 1>(scores, values + d, width_, count, shrink, sums + d, width_);
    }

    void write_output() {
        for (int64_t i = 0; i < count_; i++) {
            const int64_t token = tile_.first + i / group_, head = kv_head_ * group_ + i % group_;
            const float total = sum_across(softmax_[i].sum);
            float *to = layer_.output + (token * pass_.heads + head) * pass_.dim;
            for (int64_t d = 0; d < pass_.dim; d++) to[d] = sums_[i * width_ + d] / total;
        }
    }

    const Pass &pass_;
    const Layer &layer_;
    const Tile tile_;
    const int64_t kv_head_, group_, count_, width_;
    const Buffer queries_, sums_, keys_, values_;
    std::vector<Softmax> softmax_;
};

std::vector<Tile> tiles_of(const Pass &pass) {
    const int64_t most = std::max<int64_t>(1, TILE * pass.kv_heads / pass.heads);
    std::vector<Tile> tiles;
    for (int64_t t = 0; t < pass.tokens; t++) {
        const bool begins = t == 0 || pass.rows[t] != pass.rows[t - 1] || tiles.back().count == most;
        if (begins) tiles.push_back({t, 0});
        tiles.back().count++;
    }
    return tiles;
}

int64_t work_of(const Pass &pass) {
    int64_t keys = 0;
    for (int64_t t = 0; t < pass.tokens; t++) keys += pass.positions[t] + 1;
    return keys * pass.heads * pass.dim;
}

}  // namespace

// Turns queries and keys, stores keys and values, and lets all tokens attend.
extern "C" void attend(const Pass *pass, const Layer *layer) {
    const int threads = work_of(*pass) < WORTH_A_THREAD ? 1 : pass->threads;
    parallel_for(pass->tokens, threads, [&](int64_t t) { place(*pass, *layer, t); });
    const std::vector<Tile> tiles = tiles_of(*pass);
    parallel_for(tiles.size() * pass->kv_heads, threads, [&](int64_t i) {
        const Tile tile = tiles[i / pass->kv_heads];
        TileOfQueries(*pass, *layer, tile, i % pass->kv_heads).attend();
    });
}
