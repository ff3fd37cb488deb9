#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/rows/row_kernels.h"

/// For all layers l, KV heads h and columns c in [first, first + n), of K and of V:
///   journal[l, h, c - first] = student[l, h, c]; then student[l, h, c] = teacher[l, h, c - first + teacher_first], bit by bit;
///   drift[l, c - first] = sum |student - teacher|^2, sum teacher^2, max |student - teacher|, over all heads and channels.
///
/// Grid    [tiles of columns, layers, K or V], 128 threads. A thread has 16 bytes of one column and goes through the heads, four at a
///         time, so that eight reads are under way. A tile has as many columns as 128 threads hold, 8 of head_dim 128 in bf16.
/// Memory  columns of a head stand side by side in both caches and in the journal, so a block reads and writes runs of 2 KB; those of the
///         journal may cross the bus. Student and teacher are read once.
/// Order   of the sums: a thread adds over heads in ascending order, and over its 4 or 8 channels within a head; the column's threads
///         are added in ascending order.
/// Bound   by memory; with a journal of the host, by the bus.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int splice_threads = static_cast<int>(rows::splice_threads), heads_at_once = 4, drift_numbers = 3;

struct Parameters {
    void *k, *v;
    const void *teacher_k, *teacher_v;
    void* journal;
    float* drift;
    int kv_heads, head_dim, n, columns; ///< columns of a tile
    int64_t capacity, teacher_capacity, first, teacher_first;
    bool copies;
};

/// What a thread, and then a column, has summed.
struct Drift {
    float distance, norm, most;

    __device__ void add(float student, float teacher) {
        const float d = student - teacher;
        distance = fmaf(d, d, distance);
        norm = fmaf(teacher, teacher, norm);
        most = larger(most, fabsf(d));
    }
    __device__ void merge(const Drift& other) {
        distance = __fadd_rn(distance, other.distance);
        norm = __fadd_rn(norm, other.norm);
        most = larger(most, other.most);
    }
    /// NaN once one of them is.
    __device__ static float larger(float a, float b) { return a >= b || a != a ? a : b; }
};

template <WeightType type>
__global__ void __launch_bounds__(splice_threads) splice_kernel(const Parameters p) {
    __shared__ Drift parts[splice_threads];
    const int vectors = p.head_dim / per_vector<type>; // of a column of a head
    const int thread = static_cast<int>(threadIdx.x);
    const int column = static_cast<int>(blockIdx.x) * p.columns + thread / vectors;
    const bool mine = thread < p.columns * vectors && column < p.n;
    const int layer = static_cast<int>(blockIdx.y), layers = static_cast<int>(gridDim.y);
    const bool is_v = blockIdx.z == 1;
    Drift drift{};
    if (mine) {
        const int64_t first_head = int64_t{layer} * p.kv_heads;
        const int64_t at = p.first + column;
        const int within = thread % vectors;
        auto* const student =
            static_cast<uint4*>(is_v ? p.v : p.k) + (first_head * p.capacity + at) * vectors + within;
        const auto* const teacher = static_cast<const uint4*>(is_v ? p.teacher_v : p.teacher_k) +
                                    (first_head * p.teacher_capacity + p.teacher_first + column) * vectors +
                                    within;
        uint4* const journal =
            p.journal == nullptr
                ? nullptr
                : static_cast<uint4*>(p.journal) +
                      (((is_v ? int64_t{layers} * p.kv_heads : 0) + first_head) * p.n + column) * vectors +
                      within;
        const bool old_wanted = p.journal != nullptr || p.drift != nullptr;
        for (int first = 0; first < p.kv_heads; first += heads_at_once) {
            uint4 before[heads_at_once], after[heads_at_once];
#pragma unroll
            for (int h = 0; h < heads_at_once; ++h) {
                before[h] = after[h] = make_uint4(0, 0, 0, 0);
                if (first + h >= p.kv_heads) continue;
                after[h] = teacher[(first + h) * p.teacher_capacity * vectors];
                if (old_wanted) before[h] = student[(first + h) * p.capacity * vectors];
            }
#pragma unroll
            for (int h = 0; h < heads_at_once; ++h) {
                if (first + h >= p.kv_heads) break;
                if (p.copies) student[(first + h) * p.capacity * vectors] = after[h];
                if (journal != nullptr) journal[int64_t{first + h} * p.n * vectors] = before[h];
                if (p.drift == nullptr) continue;
#pragma unroll
                for (int part = 0; part < per_vector<type> / 4; ++part) {
                    float a[4], b[4];
                    unpack<type>(before[h], part, a);
                    unpack<type>(after[h], part, b);
#pragma unroll
                    for (int i = 0; i < 4; ++i)
                        drift.add(a[i], b[i]);
                }
            }
        }
    }
    if (p.drift == nullptr) return;
    parts[thread] = drift;
    __syncthreads();
    const int own = static_cast<int>(blockIdx.x) * p.columns + thread;
    if (thread >= p.columns || own >= p.n) return;
    Drift sum{};
    for (int v = 0; v < vectors; ++v)
        sum.merge(parts[thread * vectors + v]);
    float* const out = p.drift + ((int64_t{layer} * p.n + own) * 2 + (is_v ? 1 : 0)) * drift_numbers;
    out[0] = sum.distance;
    out[1] = sum.norm;
    out[2] = sum.most;
}

} // namespace

void launch_splice(const SpliceInputs& in, void* stream) {
    if (in.n == 0) return;
    RL_ASSERT(in.first >= 0 && in.first + in.n <= in.capacity);
    RL_ASSERT(in.teacher_first >= 0 && in.teacher_first + in.n <= in.teacher_capacity);
    with_type(in.type, [&]<WeightType type>() {
        const auto vectors = static_cast<int>(in.head_dim) / per_vector<type>;
        RL_ASSERT(in.head_dim % per_vector<type> == 0 && vectors > 0 && vectors <= splice_threads);
        const auto columns = static_cast<int>(rows::splice_columns(type, in.head_dim));
        const Parameters p{in.k,
                           in.v,
                           in.teacher_k,
                           in.teacher_v,
                           in.journal,
                           in.drift,
                           static_cast<int>(in.kv_heads),
                           static_cast<int>(in.head_dim),
                           static_cast<int>(in.n),
                           columns,
                           in.capacity,
                           in.teacher_capacity,
                           in.first,
                           in.teacher_first,
                           in.copies};
        launch_step(false, splice_kernel<type>, rows::splice(type, in.layers, in.head_dim, in.n), stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
