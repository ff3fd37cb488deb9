#include "kernels/cuda/decode/rotate_head.cuh"
#include "kernels/cuda/rows/parts.cuh"
#include "kernels/cuda/rows/rounded.cuh"

/// What stands between a layer's q | k | v and its attention. For each head of row r, at position p = first + r:
///   q, k: h = h / sqrt(mean of h^2 + eps) * norm, where the model has such a norm; then rotated by the angles of p,
///         (a, b) = (h[i], h[i + P]) -> (a cos[p, i] - b sin[p, i], b cos[p, i] + a sin[p, i]), i < P, the pairs that turn;
///   q goes back to where it was, k and v to column p of the cache, rounded to its type.
///
/// Grid    [blocks of 4 heads, rows], a warp a head: q first, then k, then v.
/// Memory  a lane holds 4 numbers of a head and the 4 that they are rotated with, or 8 that stay: 2 reads of 16 bytes. Columns of a KV head
///         stand side by side in the cache.
///         Where the product was left in parts, they are merged as they are read.
/// Order   of the mean's sum: a lane adds its 8 squares in ascending order, lanes add up as a tree.
/// Bound   by the launch, and by memory from some hundred rows on; with parts by the second cache.
/// Source: RoPE, Su et al. 2021; pairs as in Hugging Face's Llama; norms of heads as in Qwen3.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int append_warps = static_cast<int>(rows::append_warps);

struct Parameters {
    float* qkv;
    HeadNumbers head;
    const float *cos, *sin;
    void *k_cache, *v_cache;
    int heads, kv_heads, head_dim;
    int64_t capacity, first;
    const int64_t* position;
    PartSums parts;
    const void *q_bias, *k_bias, *v_bias;
};

/// Four numbers of a head, and the four that they are rotated with.
struct Halves {
    float a[4], b[4];
};
__device__ float4 four(const float (&x)[4]) {
    return make_float4(x[0], x[1], x[2], x[3]);
}
__device__ void take(const float4& from, float (&to)[4]) {
    to[0] = from.x;
    to[1] = from.y;
    to[2] = from.z;
    to[3] = from.w;
}

/// The head over its root mean square. Lanes behind the head hold zeros.
template <WeightType type>
__device__ void norm_head(Halves& h, const NormWeights& norm, int head_dim, float eps, int first, int second,
                          bool inside) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j)
        sum = fmaf(h.a[j], h.a[j], sum);
#pragma unroll
    for (int j = 0; j < 4; ++j)
        sum = fmaf(h.b[j], h.b[j], sum);
    sum = warp_sum(sum);
    if (!inside) return;
    const float factor = 1.0F / sqrtf(__fadd_rn(sum / static_cast<float>(head_dim), eps));
    float a[4], b[4];
    take(four_weights_at<type>(norm, first), a);
    take(four_weights_at<type>(norm, second), b);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        h.a[j] = h.a[j] * factor * a[j];
        h.b[j] = h.b[j] * factor * b[j];
    }
}

__device__ void rotate(Halves& h, const float4& cosines, const float4& sines) {
    float c[4], s[4];
    take(cosines, c);
    take(sines, s);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const float a = h.a[j], b = h.b[j];
        h.a[j] = fmaf(a, c[j], -__fmul_rn(b, s[j]));
        h.b[j] = fmaf(b, c[j], __fmul_rn(a, s[j]));
    }
}

template <WeightType type>
__global__ void __launch_bounds__(32 * append_warps) rows_append_kernel(const Parameters p) {
    grid_allow_dependents();
    const int head = static_cast<int>(blockIdx.x) * append_warps + static_cast<int>(threadIdx.x / 32);
    const int all = p.heads + 2 * p.kv_heads;
    if (head >= all) {
        grid_dependency_wait(); // a kernel that ends has waited: the one behind relies on it
        return;
    }
    const int half = p.head_dim / 2, i = static_cast<int>(threadIdx.x % 32) * 4;
    const bool inside = i < half, is_q = head < p.heads, is_v = head >= p.heads + p.kv_heads;
    const auto row = static_cast<int64_t>(blockIdx.y);
    const bool given = p.position == nullptr;
    int64_t position = p.first + row;
    float4 cosines{}, sines{};
    const bool turns = i < p.head.turned_pairs && !is_v;
    const auto read_angles = [&] {
        if (!turns) return;
        const int64_t angle = position * p.head.turned_pairs + i;
        cosines = __ldg(reinterpret_cast<const float4*>(p.cos + angle));
        sines = __ldg(reinterpret_cast<const float4*>(p.sin + angle));
    };
    if (given) read_angles(); // are there before the kernel in front has ended
    grid_dependency_wait();
    if (!given) {
        position = *p.position + row;
        read_angles();
    }
    const Turn turn{nullptr, nullptr, p.head.turned_pairs};
    const int first = turn.first(i), second = turn.second(i, half);
    float* const from = p.qkv + (row * all + head) * p.head_dim;
    Halves h{};
    if (inside && p.parts.count > 1) {
        const void* const bias = is_v ? p.v_bias : is_q ? p.q_bias : p.k_bias;
        const int64_t at = (row * all + head) * p.head_dim;
        const int of_first = is_q ? 0 : is_v ? p.heads + p.kv_heads : p.heads; // head of the matrix
        const int output = (head - of_first) * p.head_dim;
        take(merged_parts<type>(p.parts, at + first, bias, output + first), h.a);
        take(merged_parts<type>(p.parts, at + second, bias, output + second), h.b);
    } else if (inside) {
        take(*reinterpret_cast<const float4*>(from + first), h.a);
        take(*reinterpret_cast<const float4*>(from + second), h.b);
    }
    const NormWeights norm = is_v ? NormWeights{} : is_q ? p.head.q_norm : p.head.k_norm;
    if (norm) norm_head<type>(h, norm, p.head_dim, p.head.eps, first, second, inside);
    if (!inside) return;
    if (turns) rotate(h, cosines, sines);
    if (is_q) {
        *reinterpret_cast<float4*>(from + first) = four(h.a);
        *reinterpret_cast<float4*>(from + second) = four(h.b);
        return;
    }
    const int kv_head = (head - p.heads) % p.kv_heads;
    auto* const to = static_cast<Stored<type>*>(is_v ? p.v_cache : p.k_cache) +
                     (kv_head * p.capacity + position) * p.head_dim;
    store_four<type>(to + first, h.a[0], h.a[1], h.a[2], h.a[3]);
    store_four<type>(to + second, h.b[0], h.b[1], h.b[2], h.b[3]);
}

} // namespace

void launch_rows_append(const RowsAppendInputs& in, void* stream) {
    RL_ASSERT(in.rows > 0 && in.head_dim % 16 == 0 && in.head_dim <= 256 &&
              in.first + in.rows <= in.capacity);
    const Parameters p{in.qkv,
                       head_numbers(in),
                       in.cos,
                       in.sin,
                       in.k_cache,
                       in.v_cache,
                       static_cast<int>(in.heads),
                       static_cast<int>(in.kv_heads),
                       static_cast<int>(in.head_dim),
                       in.capacity,
                       in.first,
                       in.position,
                       part_sums(in.parts, in.rows, (in.heads + 2 * in.kv_heads) * in.head_dim),
                       in.q_bias,
                       in.k_bias,
                       in.v_bias};
    const LaunchShape shape = rows::append(in.rows, in.heads + 2 * in.kv_heads);
    with_type(in.type, [&]<WeightType type>() {
        launch_step(in.dependent, rows_append_kernel<type>, shape, stream, p);
    });
}

} // namespace refreshlab::kernels::RL_GPU
