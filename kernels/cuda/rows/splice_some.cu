#include "kernels/cuda/decode/steps.cuh"
#include "kernels/cuda/decode/weights.cuh"
#include "kernels/cuda/rows/row_kernels.h"
#include "kernels/decode/device_cache_work.h"

#include <algorithm>

/// For the KV heads heads[i] of all layers and the columns columns[j], of K, of V or of both:
///   saved[i, j] = student[heads[i], first + columns[j]]; then student[heads[i], first + columns[j]] = teacher[.., teacher_first + columns[j]],
///   or what stands at [i, j] of packed memory; bit by bit.
///
/// Grid    [tiles of columns, KV heads, halves], 128 threads. A thread has 16 bytes of one column of one head.
/// Memory  each entry is read once and written once or twice; entries of neighbouring columns stand side by side in the caches, and all in what
///         is saved, which may be memory of the host. Which entries: in the kernel's parameters, so nothing is copied for it.
/// Bound   by memory; of few entries, by the launch.
namespace refreshlab::kernels::RL_GPU {
namespace {

struct Parameters {
    void *k, *v;
    const void *teacher_k, *teacher_v;
    void *saved_k, *saved_v;
    int head_dim, n, tile; ///< n columns, so many of them in a block
    int64_t capacity, teacher_capacity, first, teacher_first;
    bool packed;
    int32_t columns[most_spliced_columns];
    uint16_t heads[rows::most_spliced_heads];
};
static_assert(sizeof(Parameters) <= 4096, "what a launch takes on every architecture");

template <WeightType type>
__global__ void __launch_bounds__(static_cast<int>(rows::splice_threads))
    splice_some_kernel(const Parameters p) {
    const int vectors = p.head_dim / per_vector<type>; // of a column of a head
    const int thread = static_cast<int>(threadIdx.x), within = thread % vectors;
    const int j = static_cast<int>(blockIdx.x) * p.tile + thread / vectors;
    if (thread >= p.tile * vectors || j >= p.n) return;
    const int i = static_cast<int>(blockIdx.y);
    const bool is_v = p.k == nullptr || blockIdx.z == 1;
    const int64_t head = p.heads[i], column = p.columns[j];
    auto* const student =
        static_cast<uint4*>(is_v ? p.v : p.k) + (head * p.capacity + p.first + column) * vectors + within;
    const int64_t from =
        p.packed ? i * p.teacher_capacity + j : head * p.teacher_capacity + p.teacher_first + column;
    const auto* const teacher =
        static_cast<const uint4*>(is_v ? p.teacher_v : p.teacher_k) + from * vectors + within;
    auto* const saved = static_cast<uint4*>(is_v ? p.saved_v : p.saved_k);
    const uint4 after = *teacher;
    if (saved != nullptr) saved[(int64_t{i} * p.n + j) * vectors + within] = *student;
    *student = after;
}

} // namespace

void launch_splice_some(const SpliceSomeInputs& in, void* stream) {
    if (in.columns.empty() || in.heads.empty()) return;
    const auto n = static_cast<int64_t>(in.columns.size()),
               halves = int64_t{in.k != nullptr} + int64_t{in.v != nullptr};
    RL_ASSERT(halves > 0 && n <= most_spliced_columns && in.heads.size() <= rows::most_spliced_heads);
    RL_ASSERT(in.first + in.columns.front() >= 0 && in.first + in.columns.back() < in.capacity);
    RL_ASSERT(in.packed ? n <= in.teacher_capacity
                        : in.teacher_first + in.columns.back() < in.teacher_capacity);
    with_type(in.type, [&]<WeightType type>() {
        const auto vectors = static_cast<int>(in.head_dim) / per_vector<type>;
        RL_ASSERT(in.head_dim % per_vector<type> == 0 && vectors > 0 && vectors <= rows::splice_threads);
        Parameters p{};
        p.k = in.k;
        p.v = in.v;
        p.teacher_k = in.teacher_k;
        p.teacher_v = in.teacher_v;
        p.saved_k = in.saved_k;
        p.saved_v = in.saved_v;
        p.head_dim = static_cast<int>(in.head_dim);
        p.n = static_cast<int>(n);
        p.tile = static_cast<int>(rows::splice_columns(type, in.head_dim));
        p.capacity = in.capacity;
        p.teacher_capacity = in.teacher_capacity;
        p.first = in.first;
        p.teacher_first = in.teacher_first;
        p.packed = in.packed;
        std::copy(in.columns.begin(), in.columns.end(), p.columns);
        std::copy(in.heads.begin(), in.heads.end(), p.heads);
        launch_step(false, splice_some_kernel<type>,
                    rows::splice_some(type, static_cast<int64_t>(in.heads.size()), halves, in.head_dim, n),
                    stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
