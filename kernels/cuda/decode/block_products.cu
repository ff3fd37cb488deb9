#include "kernels/cuda/decode/block_products.h"
#include "kernels/cuda/decode/block_weights.cuh"
#include "kernels/cuda/decode/elementwise.cuh"
#include "kernels/cuda/decode/head_answers.cuh"
#include "kernels/cuda/decode/row_products.cuh"

#include <initializer_list>

/// The products of a step whose matrices stand in blocks: norm_product, norm_gate_up, product_onto and head, as their own files say, of the same
/// fp32 activations.
///
/// Grid    [groups of 8 rows, blocks of outputs], 8 warps. A block makes the 16 outputs of a tile (kernels/blocks/device_blocks.h) at a time, all its
///         warps together; gate and up of the same outputs at once; the head's blocks make four tiles one after the other.
/// Lanes   lane l has output l % 16 and reads 16 bytes of it, 32 numbers (q8_0: 16). The 16 halves of warps take the inputs in turns: half h of warp
///         w the runs 2 w + h, 2 w + h + 16, ... of so many inputs. So a warp reads 256 bytes side by side twice, each weight is read and unpacked by
///         one lane for all rows, and the scales are read by the lanes that need them.
/// Memory  a block asks for its rows of tiles, which are one stream, before it waits for the kernel in front.
/// Tile    of inputs in shared memory: [sides][ROWS][side], a side is what all halves take at a time, 512 inputs (q8_0: 256). The lanes of a half read
///         the same 16 bytes; in every second 32 inputs neighbouring 16 bytes are exchanged, so that the other half, which is 32 inputs
///         further on, reads other banks. Inputs behind the end are 0. Behind the tile the warps leave their sums.
/// Order   of a sum: a lane adds its products one by one in ascending order, by fused multiply-add; then the two halves of a warp, then the warps in
///         ascending order. Nothing of it hangs on ROWS or the tile's length. Then the row's factor, the bias, and what the product is for.
/// Bound   one row: by reading the matrix, and nearly as much by arithmetic: a weight of four bits takes three operations and a quarter of a read
///         of shared memory (q4_1: four), where bf16 takes one and a half for four times the bytes. Rows beyond the first: by arithmetic.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int warps = static_cast<int>(decode::product_warps), tile_rows = static_cast<int>(block_rows);

enum class Then : uint8_t { store, onto, gated, answer };

struct Parameters {
    const StepState* state = nullptr;
    const float* in = nullptr;
    NormWeights norm{};
    float width = 1, eps = 0, cap = 0;
    Matrix matrices[3]; ///< one below the other; of gated ones gate and up
    float* out = nullptr;
    Masks masks;
    int rows = 0, inputs = 0;
    int outputs = 0; ///< numbers from row to row of `out`
    int tiles = 1;   ///< rows of tiles that a block makes
    Then then = Then::store;
    Activation activation = Activation::silu;
    HeadAnswers answers; ///< Then::answer
};

/// A row of tiles, by its number in the matrices together: where it is, and its first output in its own matrix.
struct TileRow {
    const unsigned char* tiles = nullptr;
    const void* bias = nullptr;
    int output = 0;
};
template <MatrixForm form>
__device__ TileRow tile_row_of(const Matrix& matrix, int output) {
    return {static_cast<const unsigned char*>(matrix.data) +
                int64_t{output / tile_rows} * (matrix.inputs / block_width) * bytes_in_tile<form>,
            matrix.bias, output};
}
template <MatrixForm form>
__device__ TileRow tile_row(const Parameters& p, int output) {
    int first = 0, m = 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        if (m == i && output - first >= p.matrices[i].outputs) {
            first += static_cast<int>(p.matrices[i].outputs);
            m = i + 1;
        }
    }
    return tile_row_of<form>(m == 0 ? p.matrices[0] : m == 1 ? p.matrices[1] : p.matrices[2], output - first);
}

/// Inputs of a row that all halves of the block's warps take side by side.
template <MatrixForm form>
constexpr int side = static_cast<int>(decode::side_inputs(form));

/// The tile's inputs [begin, begin + length) of all rows; zeros where there is no row or no input. Squares of what was read are added.
template <MatrixForm form, int ROWS>
__device__ void fill_sides(const Parameters& p, const float* rows, int live, int begin, int length,
                           float* tile, float (&squares)[ROWS]) {
    constexpr int fours = side<form> / 4;
    const int padded = (length + side<form> - 1) / side<form> * fours;
    for (int i = static_cast<int>(threadIdx.x); i < padded; i += product_threads) {
        const bool inside = i * 4 < length;
        float4 norm = make_float4(1, 1, 1, 1);
        if (p.norm && inside) norm = four_weights_at<WeightType::bf16>(p.norm, begin + i * 4);
        const int place = i % fours;
        float4* const to =
            reinterpret_cast<float4*>(tile) + i / fours * ROWS * fours + (place ^ (place / 8 % 2));
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float4 x = make_float4(0, 0, 0, 0);
            if (inside && r < live) {
                x = __ldcg(reinterpret_cast<const float4*>(rows + int64_t{r} * p.inputs + begin) + i);
                squares[r] = fmaf(x.x, x.x, squares[r]);
                squares[r] = fmaf(x.y, x.y, squares[r]);
                squares[r] = fmaf(x.z, x.z, squares[r]);
                squares[r] = fmaf(x.w, x.w, squares[r]);
                x = make_float4(x.x * norm.x, x.y * norm.y, x.z * norm.z, x.w * norm.w);
            }
            to[r * fours] = x;
        }
    }
}

/// sums[m][r] += the lane's vector of each matrix times its inputs, which begin at `even` (those with an even number) and `odd`.
template <MatrixForm form, int ROWS, int MATRICES>
__device__ void add_vector(const uint4 (&vectors)[MATRICES], const BlockScale (&scales)[MATRICES],
                           const float4* even, const float4* odd, float (&sums)[MATRICES][ROWS]) {
    constexpr int parts = numbers_in_vector<form> / 4;
    [[maybe_unused]] constexpr int unrolled =
        ROWS > 4 ? 2 : parts; // eight rows of more parts would not fit into the registers
#pragma unroll unrolled
    for (int part = 0; part < parts; ++part) {
        float w[MATRICES][4];
#pragma unroll
        for (int m = 0; m < MATRICES; ++m)
            unpack_block<form>(vectors[m], part, scales[m], w[m]);
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const float4 x = (part % 2 == 0 ? even : odd)[part + r * (side<form> / 4)];
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
                sums[m][r] = fmaf(w[m][0], x.x, sums[m][r]);
                sums[m][r] = fmaf(w[m][1], x.y, sums[m][r]);
                sums[m][r] = fmaf(w[m][2], x.z, sums[m][r]);
                sums[m][r] = fmaf(w[m][3], x.w, sums[m][r]);
            }
        }
    }
}

/// The lane's share of the tile's inputs. \param tiles  those of the tile's first inputs \param blocks  of them
template <MatrixForm form, int ROWS, int MATRICES>
__device__ void add_sides(const unsigned char* const (&tiles)[MATRICES], int blocks, const float* tile,
                          float (&sums)[MATRICES][ROWS]) {
    constexpr int numbers = numbers_in_vector<form>;
    constexpr int at_once =
        (ROWS <= 2 ? 4 : 2) / MATRICES; // reads in flight; for many rows, registers hold their sums
    constexpr int vectors_in_block = static_cast<int>(block_width) / numbers;
    const int lane = static_cast<int>(threadIdx.x) % 32, output = lane % tile_rows;
    const int mine = static_cast<int>(threadIdx.x) / 32 * 2 + lane / tile_rows; // of the vectors of a side
    const int flip = mine / vectors_in_block % 2;
    const float4* const x = reinterpret_cast<const float4*>(tile) + mine * (numbers / 4);
    const int vectors = blocks * vectors_in_block;
    for (int first = 0; first < vectors; first += at_once * 2 * warps) {
        uint4 read[at_once][MATRICES];
        BlockScale scales[at_once][MATRICES];
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
            const int v = first + s * 2 * warps + mine;
#pragma unroll
            for (int m = 0; m < MATRICES; ++m) {
                read[s][m] = make_uint4(0, 0, 0, 0);
                scales[s][m] = {0, 0}; // all numbers are 0
                if (v < vectors) {
                    const unsigned char* const at = tiles[m] + v / vectors_in_block * bytes_in_tile<form>;
                    read[s][m] =
                        __ldg(reinterpret_cast<const uint4*>(at) + v % vectors_in_block * tile_rows + output);
                    scales[s][m] = block_scale<form>(at, output);
                }
            }
        }
#pragma unroll
        for (int s = 0; s < at_once; ++s) {
            if (first + s * 2 * warps >= vectors) break;
            const float4* const here = x + (first / (2 * warps) + s) * ROWS * (side<form> / 4);
            add_vector<form, ROWS, MATRICES>(read[s], scales[s], here + flip, here - flip, sums);
        }
    }
}

/// Sums of the block's 16 outputs, left by the warps at `exchange`, [warps][MATRICES][ROWS][16]. All threads come here.
/// \param fill     the tile does not yet hold what the last call, of the same rows, left there
/// \param squares  filled in the first call
template <MatrixForm form, int ROWS, int MATRICES>
__device__ void multiply_tiles(const Parameters& p, const float* rows, int live,
                               const TileRow (&of)[MATRICES], bool fill, float* tile, float* exchange,
                               SquareParts<ROWS>& squares) {
    constexpr int most = tile_inputs<ROWS>;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    float mine[ROWS] = {}, sums[MATRICES][ROWS] = {};
    const bool whole = p.inputs <= most;
    for (int begin = 0; begin < p.inputs; begin += most) {
        const int length = p.inputs - begin < most ? p.inputs - begin : most;
        if (fill || !whole) {
            if (begin > 0 || !fill) __syncthreads(); // all warps are through with what stood there
            fill_sides<form, ROWS>(p, rows, live, begin, length, tile, mine);
            if (fill && begin + length == p.inputs) {
                const float sum = warp_sums(mine);
                if (lane % lanes_of_sum<ROWS> == 0) squares.of[lane / lanes_of_sum<ROWS>][warp] = sum;
            }
            __syncthreads();
        }
        const unsigned char* tiles[MATRICES];
#pragma unroll
        for (int m = 0; m < MATRICES; ++m)
            tiles[m] = of[m].tiles + begin / static_cast<int>(block_width) * bytes_in_tile<form>;
        add_sides<form, ROWS, MATRICES>(tiles, length / static_cast<int>(block_width), tile, sums);
    }
#pragma unroll
    for (int m = 0; m < MATRICES; ++m) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            const float sum = __fadd_rn(sums[m][r], __shfl_xor_sync(0xFFFFFFFFU, sums[m][r], tile_rows));
            if (lane < tile_rows) exchange[((warp * MATRICES + m) * ROWS + r) * tile_rows + lane] = sum;
        }
    }
    __syncthreads();
}

/// What the warps left for an output: in their order. \param stride  from one warp's to the next one's
__device__ inline float sum_of_warps(const float* exchange, int stride) {
    float sum = exchange[0];
#pragma unroll
    for (int w = 1; w < warps; ++w)
        sum = __fadd_rn(sum, exchange[w * stride]);
    return sum;
}
__device__ inline float with_bias(float sum, const TileRow& row, int o) {
    return row.bias == nullptr ? sum : __fadd_rn(sum, weight_at<WeightType::bf16>(row.bias, row.output + o));
}

/// What a product is added to; 0 where it goes onto nothing. \param pass  the row \param output  among those of all matrices
__device__ inline float before(const Parameters& p, int pass, int output) {
    return p.then == Then::onto ? __ldcg(p.out + int64_t{pass} * p.outputs + output) : 0.0F;
}
/// A finished product goes where it belongs. \param onto  before() of it \param of_block  the token's logits of the block
__device__ inline void finish(const Parameters& p, int pass, int output, float y, float onto,
                              float* of_block) {
    float* const out = p.out + int64_t{pass} * p.outputs + output;
    if (p.then != Then::onto) {
        *out = y;
        if (pass == 0 && p.then == Then::answer) of_block[output % head_answers::of_block] = y;
        return;
    }
    if (pass > 0 && p.masks.threshold > 0) {
        const shared::MaskStream stream =
            masks_of(*p.state, p.masks.site, p.masks.layer, pass, 0, p.masks.threshold);
        y = shared::mask_keeps(stream, static_cast<uint32_t>(output)) ? __fmul_rn(y, p.masks.scale) : 0.0F;
    }
    *out = __fadd_rn(onto, y);
}

template <bool gated, MatrixForm form, int ROWS>
__global__ void __launch_bounds__(product_threads, 2) block_product_kernel(const Parameters p) {
    constexpr int matrices = gated ? 2 : 1;
    __shared__ head_answers::Memory memory;
    grid_allow_dependents();
    if (p.then == Then::answer) head_answers::prepare(memory);
    const int begin = static_cast<int>(blockIdx.y) * p.tiles * tile_rows;
    const auto place = [&](int output, TileRow(&of)[matrices]) {
        if constexpr (gated) {
            of[0] = tile_row_of<form>(p.matrices[0], output);
            of[1] = tile_row_of<form>(p.matrices[1], output);
        } else {
            of[0] = tile_row<form>(p, output);
        }
    };
    const int bytes = p.inputs / static_cast<int>(block_width) * bytes_in_tile<form>;
    const int end = begin + p.tiles * tile_rows < p.outputs ? begin + p.tiles * tile_rows : p.outputs;
    for (int output = begin; output < end; output += tile_rows) {
        TileRow of[matrices];
        place(output, of);
#pragma unroll
        for (int m = 0; m < matrices; ++m) {
            for (int at = static_cast<int>(threadIdx.x) * 128; at < bytes; at += product_threads * 128)
                prefetch_l2(of[m].tiles + at);
        }
    }
    grid_dependency_wait();
    const int first = static_cast<int>(blockIdx.x) * static_cast<int>(decode::rows_per_block);
    const float* const in = p.in + int64_t{first} * p.inputs;
    with_live_rows<ROWS>(live_rows(p.state, p.rows, first, ROWS), [&]<int rows>(int live) {
        __shared__ SquareParts<rows> squares;
        auto* const exchange = dynamic_shared<float>();
        float* const tile = exchange + warps * matrices * rows * tile_rows;
        for (int output = begin; output < end; output += tile_rows) {
            TileRow of[matrices];
            place(output, of);
            const int r = static_cast<int>(threadIdx.x) / tile_rows,
                      o = static_cast<int>(threadIdx.x) % tile_rows;
            // Asked for beside the inputs: nobody waits for it once the product is there.
            const float onto = r < live ? before(p, first + r, output + o) : 0.0F;
            multiply_tiles<form, rows, matrices>(p, in, live, of, output == begin, tile, exchange, squares);
            if (r < live) {
                constexpr int stride = matrices * rows * tile_rows;
                const float* const left = exchange + r * tile_rows + o;
                const float factor = inverse_rms(p.norm, squares, r, p.width, p.eps);
                float y = with_bias(__fmul_rn(sum_of_warps(left, stride), factor), of[0], o);
                if constexpr (gated) {
                    const float up = __fmul_rn(sum_of_warps(left + rows * tile_rows, stride), factor);
                    y = __fmul_rn(activated(p.activation, y), with_bias(up, of[1], o));
                }
                y = soft_capped(y, p.cap);
                finish(p, first + r, output + o, y, onto, memory.logits);
            }
            if (output + tile_rows < end) __syncthreads(); // the warps' sums have been read
        }
    });
    if constexpr (!gated) {
        if (p.then == Then::answer && first == 0)
            head_answers::answer<product_threads>(p.answers, p.state, p.out, p.outputs, memory);
    }
}

/// \param per_block  outputs
void launch_tiles(Parameters& p, const LaunchShape& shape, int64_t per_block, bool dependent, void* stream) {
    const MatrixForm form = p.matrices[0].form;
    p.tiles = static_cast<int>(per_block / block_rows);
    for (const Matrix& matrix : p.matrices)
        RL_ASSERT(matrix.outputs == 0 || (matrix.form == form && matrix.inputs == p.inputs &&
                                          can_pack_blocks(matrix.outputs, matrix.inputs)));
    const auto of = [&]<MatrixForm f, int rows>() {
        if (p.then == Then::gated) {
            launch_step(dependent, block_product_kernel<true, f, rows>, shape, stream, p);
        } else {
            launch_step(dependent, block_product_kernel<false, f, rows>, shape, stream, p);
        }
    };
    with_form(WeightType::bf16, form, [&]<WeightType, MatrixForm f>() {
        if constexpr (f != MatrixForm::numbers) {
            switch (decode::rows_held(p.rows)) {
            case 1:
                return of.template operator()<f, 1>();
            case 2:
                return of.template operator()<f, 2>();
            case 4:
                return of.template operator()<f, 4>();
            default:
                return of.template operator()<f, 8>();
            }
        }
    });
}

/// What the products after a norm have in common.
template <typename Inputs>
Parameters with_norm(const Inputs& in, std::initializer_list<Matrix> matrices, float* out) {
    RL_ASSERT(in.type == WeightType::bf16);
    Parameters p;
    p.state = in.state;
    p.in = in.x;
    p.norm = norm_weights(in.norm, in.norm_offset);
    p.width = static_cast<float>(in.width);
    p.eps = static_cast<float>(in.eps);
    p.out = out;
    p.rows = static_cast<int>(in.rows);
    p.inputs = static_cast<int>(in.hidden);
    int count = 0; // those that are there, one behind the other
    for (const Matrix& matrix : matrices) {
        if (matrix.outputs == 0) continue;
        p.matrices[count++] = matrix;
        p.outputs += static_cast<int>(matrix.outputs);
    }
    return p;
}

} // namespace

void launch_block_product(const NormProductInputs& in, void* stream) {
    Parameters p = with_norm(in, {in.matrices[0], in.matrices[1], in.matrices[2]}, in.out);
    const LaunchShape shape = decode::block_product(p.matrices[0].form, p.outputs, in.hidden, in.rows);
    launch_tiles(p, shape, decode::outputs_per_block, in.dependent, stream);
}

void launch_block_product(const NormGateUpInputs& in, void* stream) {
    RL_ASSERT(in.gate.outputs == in.up.outputs && in.gate.outputs > 0);
    Parameters p = with_norm(in, {in.gate, in.up}, in.inner);
    p.then = Then::gated;
    p.activation = in.activation;
    p.outputs = static_cast<int>(in.gate.outputs);
    const LaunchShape shape =
        decode::block_product(in.gate.form, p.outputs, in.hidden, in.rows, decode::outputs_per_block, 2);
    launch_tiles(p, shape, decode::outputs_per_block, in.dependent, stream);
}

void launch_block_product(const ProductOntoInputs& in, void* stream) {
    RL_ASSERT(in.type == WeightType::bf16);
    Parameters p;
    p.state = in.state;
    p.in = in.in;
    p.matrices[0] = in.matrix;
    p.out = in.x;
    p.masks = masks(in.dropout);
    p.rows = static_cast<int>(in.rows);
    p.inputs = static_cast<int>(in.matrix.inputs);
    p.outputs = static_cast<int>(in.matrix.outputs);
    RL_ASSERT(in.adds || in.dropout.probability == 0.0F);
    p.then = in.adds ? Then::onto : Then::store;
    const LaunchShape shape = decode::block_product(in.matrix.form, p.outputs, p.inputs, in.rows);
    launch_tiles(p, shape, decode::outputs_per_block, in.dependent, stream);
}

void launch_block_product(const HeadInputs& in, void* stream) {
    Parameters p = with_norm(in, {in.head}, in.logits);
    p.cap = static_cast<float>(in.cap);
    if (in.answers.to != nullptr) {
        RL_ASSERT(in.answers.top_k >= 0 && in.answers.top_k <= most_answer_keys &&
                  in.answers.top_k <= in.head.outputs);
        p.then = Then::answer;
        p.answers = in.answers;
    }
    const LaunchShape shape =
        decode::block_product(in.head.form, p.outputs, in.hidden, in.rows, decode::head_outputs_per_block);
    launch_tiles(p, shape, decode::head_outputs_per_block, in.dependent, stream);
}

} // namespace refreshlab::kernels::RL_GPU
