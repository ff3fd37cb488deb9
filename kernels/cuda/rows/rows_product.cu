#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/rows/rounded_blocks.cuh"
#include "kernels/cuda/rows/rows_product.cuh"

#include <limits>

/// out[r, o] = sum_i in[r, i] * matrix[o, i] (+ bias[o]) for 2 to some hundred rows, by tensor cores; stored, added to what stands there,
/// or silu(gate) * up of two matrices. Matrices that stand one below the other (q, k and v) are one.
///
/// Grid    [groups of 8 NT rows, blocks of outputs, parts of the inputs]. The matrix is the operand with 16 rows (outputs), the activations are the one with 8
///         columns (rows of the pass), so that few rows waste little. A block has 1, 2, 4 or 6 pairs of warps; a pair makes 16 outputs of MT
///         tiles (two tiles: gate and up of the same outputs, or twice as many outputs of one matrix) for all 8 NT rows. The two warps of
///         a pair halve every 64 inputs between them. A weight is read once for up to 128 rows; further groups of rows run beside the first
///         (grid x) and find it in the second cache.
/// Memory  stages of 64 inputs stand in shared memory, 3 to 8 of them, filled by cp.async while others are multiplied: [outputs][64] of
///         the matrices and [rows][64] of the activations, 128 bytes each; the halves of every second one are exchanged, so that the
///         8 lanes of a read meet in no bank. What lies behind the last output, row or input is 0.
/// Lanes   lane 4 g + t reads 8 inputs of an output or row in one go, 8t to 8t + 7 of 32, where the tensor core's layout would take four
///         pairs. Both operands are permuted alike, so the sum is of the same products, and every read has 16 bytes.
/// Blocks  stand in the stages as they do in memory, 576 bytes (q8_0: 1,088; q4_1: 640) of 16 outputs side by side. A lane unpacks the 8
///         inputs that it multiplies, rounded to the type; so a weight is unpacked once for all of a block's rows.
/// Order   of a sum: warp 0 of a pair takes the inputs [0, 32) of every 64 in ascending order, warp 1 [32, 64), in steps of 16 that a
///         tensor core adds to the accumulator (fp32); then the two are added. Nothing of it hangs on rows, tiles or stages: a row has
///         the same bits whatever rows are beside it. Parts of the inputs are sums of their own, which the kernel behind merges (parts.cuh).
/// Bound   few rows: by reading the matrix. 64 rows and more: also by the second cache, which brings all activations to each block; so the launch
///         takes the shape of blocks that gives a multiprocessor the least to read. Parts give products with few outputs (o, down, q | k | v)
///         blocks of 128 of them, and bytes under way on more multiprocessors.
/// Source  PTX ISA 9.0, section 9.7.14.5; skinny products: development/performance.md, 4.
namespace refreshlab::kernels::RL_GPU {
namespace {

constexpr int stage_inputs = static_cast<int>(rows::stage_inputs);
constexpr int row_bytes = static_cast<int>(rows::stage_row_bytes), row_chunks = row_bytes / 16;
constexpr int most_pairs = static_cast<int>(rows::most_pairs);

/// Bytes of 16 outputs in a stage.
template <MatrixForm form>
constexpr int tile_stage_bytes = static_cast<int>(rows::tile_stage_bytes(form));
template <MatrixForm form, int MT, int NT, bool WIDE>
constexpr int num_stages = static_cast<int>(rows::product_stages(form, MT, NT, WIDE));

/// What a block multiplies.
struct Place {
    int pairs, first_row, first_output;
    int tile_outputs; ///< from one tile's first output to the next one's; 0 where they are of two matrices
    int begin, end;   ///< stages of the inputs
};
template <int MT>
__device__ Place place_of_block(const RowsProduct& p, int group_rows) {
    Place place{};
    place.pairs = static_cast<int>(blockDim.x) / 64;
    place.first_row = static_cast<int>(blockIdx.x) * group_rows;
    const int across = 16 * place.pairs;
    place.tile_outputs = p.gated ? 0 : across;
    place.first_output = static_cast<int>(blockIdx.y) * (p.gated ? across : MT * across);
    const int all = (p.inputs + stage_inputs - 1) / stage_inputs;
    place.begin = static_cast<int>(blockIdx.z) * p.part_stages;
    place.end = place.begin + p.part_stages < all ? place.begin + p.part_stages : all;
    return place;
}

/// 8 inputs of a row in a stage.
__device__ inline int chunk_offset(int row, int chunk) {
    return row * row_bytes + (chunk ^ (row % 2 * 4)) * 16;
}

/// 8 inputs of a row of [., inputs]; zeros where it is not `inside`.
__device__ inline void fetch_chunk(const void* rows, int row, bool inside, int inputs, int input, void* to) {
    const auto* const numbers = static_cast<const uint16_t*>(rows);
    async_copy_16(to, inside ? numbers + int64_t{row} * inputs + input : numbers, inside ? 16 : 0);
}

/// Weights of a stage in blocks: the tiles of 16 outputs, as they stand in memory, where they are one stretch.
template <MatrixForm form, int MT>
__device__ void fetch_tiles(const RowsProduct& p, const Place& place, int step, unsigned char* stage) {
    constexpr int chunks = tile_stage_bytes<form> / 16, tile_chunks = bytes_in_tile<form> / 16;
    constexpr int blocks_in_stage = stage_inputs / static_cast<int>(block_width);
    const int blocks = p.inputs / static_cast<int>(block_width), first_block = step * blocks_in_stage;
    const int present = blocks - first_block < blocks_in_stage ? blocks - first_block : blocks_in_stage;
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x); c < MT * place.pairs * chunks; c += 64 * place.pairs) {
        const int tile = c / chunks, chunk = c % chunks, j = MT == 1 || tile < place.pairs ? 0 : 1;
        const int output = place.first_output + j * place.tile_outputs + (tile - j * place.pairs) * 16;
        const MatrixRow from = matrix_row_of(p, output, p.gated && j == 1);
        const bool inside = output < p.outputs && chunk < present * tile_chunks;
        const auto* const tiles = static_cast<const unsigned char*>(from.matrix);
        const int64_t at = (int64_t{from.row / 16} * blocks + first_block) * bytes_in_tile<form> + chunk * 16;
        async_copy_16(stage + tile * tile_stage_bytes<form> + chunk * 16, inside ? tiles + at : tiles,
                      inside ? 16 : 0);
    }
}

/// Weights of a stage: output i of tile j stands in row j * 16 * pairs + i.
template <MatrixForm form, int MT>
__device__ void fetch_weights(const RowsProduct& p, const Place& place, int step, unsigned char* stage) {
    if constexpr (form != MatrixForm::numbers) return fetch_tiles<form, MT>(p, place, step, stage);
    const int thread = static_cast<int>(threadIdx.x), chunk = thread % row_chunks;
    const int input = step * stage_inputs + chunk * 8;
#pragma unroll 1 // addresses of several rows at once would not fit into the registers beside the sums
    for (int i = 0; i < 2 * MT; ++i) { // 8 * pairs rows at a time
        const int tile = i / 2, within = thread / row_chunks + i % 2 * 8 * place.pairs;
        const int output = place.first_output + tile * place.tile_outputs + within;
        const MatrixRow from = matrix_row_of(p, output, p.gated && tile == 1);
        fetch_chunk(from.matrix, from.row, output < p.outputs && input < p.inputs, p.inputs, input,
                    stage + chunk_offset(tile * 16 * place.pairs + within, chunk));
    }
}
template <int NT>
__device__ void fetch_activations(const RowsProduct& p, const Place& place, int step, unsigned char* stage) {
    const int thread = static_cast<int>(threadIdx.x), chunk = thread % row_chunks;
    const int input = step * stage_inputs + chunk * 8;
    for (int row = thread / row_chunks; row < NT * 8; row += 8 * place.pairs)
        fetch_chunk(p.in, place.first_row + row, place.first_row + row < p.rows && input < p.inputs, p.inputs,
                    input, stage + chunk_offset(row, chunk));
}

template <int MT, int NT>
using Sums = float[MT][NT][4];

/// The warp's 32 inputs of a stage. \param half  which of the two
template <WeightType type, MatrixForm form, int MT, int NT>
__device__ void multiply_stage(const unsigned char* weights, const unsigned char* activations, int pairs,
                               int pair, int half, int live, Sums<MT, NT>& sums) {
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
    const int mine = chunk_offset(g, half * 4 + t); // in every 8 rows
    uint4 low[MT], high[MT];
#pragma unroll
    for (int j = 0; j < MT; ++j) {
        const unsigned char* const tile = weights + (j * pairs + pair) * tile_stage_bytes<form>;
        if constexpr (form == MatrixForm::numbers) {
            low[j] = *reinterpret_cast<const uint4*>(tile + mine);
            high[j] = *reinterpret_cast<const uint4*>(tile + mine + 8 * row_bytes);
        } else {
            low[j] = weights_of_block<type, form>(tile + half * bytes_in_tile<form>, g, t);
            high[j] = weights_of_block<type, form>(tile + half * bytes_in_tile<form>, g + 8, t);
        }
    }
#pragma unroll
    for (int n = 0; n < NT; ++n) {
        if (n * 8 >= live) break;
        const uint4 x = *reinterpret_cast<const uint4*>(activations + n * 8 * row_bytes + mine);
        const uint32_t first[2] = {x.x, x.y}, second[2] = {x.z, x.w};
#pragma unroll
        for (int j = 0; j < MT; ++j) {
            const uint32_t a[4] = {low[j].x, high[j].x, low[j].y, high[j].y};
            mma_m16n8k16<type == WeightType::bf16>(sums[j][n], a, first);
            const uint32_t b[4] = {low[j].z, high[j].z, low[j].w, high[j].w};
            mma_m16n8k16<type == WeightType::bf16>(sums[j][n], b, second);
        }
    }
}

/// The first warp of each pair gets the second one's sums added, through shared memory that nobody uses any more.
template <int MT, int NT>
__device__ void merge_halves(int pair, int half, float* exchange, Sums<MT, NT>& sums) {
    float* const mine = exchange + pair * MT * NT * 4 * 32 + static_cast<int>(threadIdx.x) % 32;
    if (half == 1) {
#pragma unroll
        for (int j = 0; j < MT; ++j) {
#pragma unroll
            for (int n = 0; n < NT; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    mine[((j * NT + n) * 4 + i) * 32] = sums[j][n][i];
            }
        }
    }
    __syncthreads();
    if (half == 1) return;
#pragma unroll
    for (int j = 0; j < MT; ++j) {
#pragma unroll
        for (int n = 0; n < NT; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                sums[j][n][i] = __fadd_rn(sums[j][n][i], mine[((j * NT + n) * 4 + i) * 32]);
        }
    }
}

template <WeightType type, MatrixForm form, int MT, int NT, bool WIDE>
__device__ void multiply_rows(const RowsProduct& p) {
    constexpr int stages = num_stages<form, MT, NT, WIDE>;
    auto* const shared = dynamic_shared<unsigned char>();
    grid_allow_dependents();
    const Place place = place_of_block<MT>(p, NT * 8);
    const int warp = static_cast<int>(threadIdx.x) / 32, pair = warp / 2, half = warp % 2;
    const int activations_at = MT * place.pairs * tile_stage_bytes<form>;
    const int bytes = activations_at + NT * 8 * row_bytes;
    const int live = p.rows - place.first_row;
    // Weights are there before the kernel in front has ended, activations are not.
    for (int s = 0; s < stages - 1 && place.begin + s < place.end; ++s)
        fetch_weights<form, MT>(p, place, place.begin + s, shared + s * bytes);
    grid_dependency_wait();
#pragma unroll
    for (int s = 0; s < stages - 1; ++s) {
        if (place.begin + s < place.end)
            fetch_activations<NT>(p, place, place.begin + s, shared + s * bytes + activations_at);
        async_commit();
    }
    Sums<MT, NT> sums = {};
    int at = 0,
        free =
            stages - 1; // the stage that is multiplied, and the one before it, which the next fetch may fill
    for (int step = place.begin; step < place.end; ++step) {
        async_wait<stages - 2>();
        __syncthreads();
        if (step + stages - 1 < place.end) {
            unsigned char* const next = shared + free * bytes;
            fetch_weights<form, MT>(p, place, step + stages - 1, next);
            fetch_activations<NT>(p, place, step + stages - 1, next + activations_at);
        }
        async_commit();
        const unsigned char* const stage = shared + at * bytes;
        multiply_stage<type, form, MT, NT>(stage, stage + activations_at, place.pairs, pair, half, live,
                                           sums);
        free = at;
        at = at + 1 == stages ? 0 : at + 1;
    }
    __syncthreads();
    merge_halves<MT, NT>(pair, half, reinterpret_cast<float*>(shared), sums);
    if (half == 1) return;
    const int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
    const int part_row =
        static_cast<int>(blockIdx.z) * p.rows + place.first_row; // parts stand below each other
#pragma unroll
    for (int j = 0; j < MT; ++j) {
        if (p.gated && j > 0) break;
#pragma unroll
        for (int n = 0; n < NT; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = n * 8 + 2 * t + i % 2;
                const int output = place.first_output + j * place.tile_outputs + pair * 16 + g + 8 * (i / 2);
                if (row < live && output < p.outputs)
                    finish_product<type>(p, part_row + row, output, sums[j][n][i], sums[MT - 1][n][i]);
            }
        }
    }
}

/// Of a multiprocessor: the sums of 128 rows of two tiles take all its registers for one.
template <int MT, int NT>
constexpr int blocks_at_once = (MT * NT > 16) ? 1 : 2;

template <WeightType type, MatrixForm form, int MT, int NT>
__global__ void __launch_bounds__(64 * most_pairs, (blocks_at_once<MT, NT>))
    rows_product_kernel(const RowsProduct p) {
    multiply_rows<type, form, MT, NT, false>(p);
}
/// Two tiles, and 64 rows.
template <WeightType type, MatrixForm form, int MT, int NT>
__global__ void __launch_bounds__(64 * static_cast<int>(rows::wide_pairs), 1)
    rows_product_wide_kernel(const RowsProduct p) {
    multiply_rows<type, form, MT, NT, true>(p);
}

template <WeightType type, MatrixForm form, int NT>
void start(const RowsProduct& p, const rows::ProductForm& cut, bool dependent, void* stream) {
    const LaunchShape shape = rows::product(cut);
    if constexpr (NT == 8) {
        if (cut.wide())
            return launch_step(dependent, rows_product_wide_kernel<type, form, 2, NT>, shape, stream, p);
    }
    if (cut.tiles == 2) {
        launch_step(dependent, rows_product_kernel<type, form, 2, NT>, shape, stream, p);
    } else {
        launch_step(dependent, rows_product_kernel<type, form, 1, NT>, shape, stream, p);
    }
}

} // namespace

void launch_rows_product(const RowsProductInputs& in, void* stream) {
    const bool gated = in.then == RowsProductInputs::Then::gated;
    const bool whole = in.parts.count == 1;
    RL_ASSERT(in.rows > 0 && in.outputs > 0 && in.inputs > 0 && gated == (in.up != nullptr));
    RL_ASSERT(whole || (!gated && in.cap == 0 && in.type != WeightType::f32 && in.parts.sums != nullptr));
    constexpr int none = std::numeric_limits<int>::max();
    RowsProduct p{in.in,
                  {in.matrix, in.up, nullptr},
                  {whole ? in.bias : nullptr, in.up_bias, nullptr},
                  {0, none, none},
                  static_cast<int>(in.rows),
                  static_cast<int>(in.inputs),
                  static_cast<int>(in.outputs),
                  whole ? in.out : in.parts.sums,
                  in.out_stride,
                  whole ? in.then : RowsProductInputs::Then::store,
                  gated,
                  static_cast<int>(rows::part_stages(in.inputs, in.parts.count)),
                  in.activation,
                  static_cast<float>(in.cap)};
    for (int m = 0; m < 2; ++m) {
        const RowsProductInputs::Below& below = in.below[m];
        if (below.outputs == 0) continue;
        RL_ASSERT(!gated && (m == 0 || in.below[0].outputs > 0));
        p.matrix[m + 1] = below.matrix;
        p.bias[m + 1] = whole ? below.bias : nullptr;
        p.first[m + 1] = p.outputs;
        p.outputs += static_cast<int>(below.outputs);
        RL_ASSERT(in.form == MatrixForm::numbers || below.outputs % block_rows == 0);
    }
    if (!whole) p.out_stride = p.outputs;
    RL_ASSERT(in.form == MatrixForm::numbers || in.outputs % block_rows == 0);
    with_form(in.type, in.form, [&]<WeightType type, MatrixForm form>() {
        RL_ASSERT(in.inputs % (form == MatrixForm::numbers ? per_vector<type> : block_width) == 0);
        if constexpr (type == WeightType::f32) {
            launch_rows_product_f32(p, in.dependent, stream);
        } else {
            const rows::ProductForm cut = rows::product_form(form, p.rows, p.outputs, gated, in.parts.count);
            switch (cut.row_tiles) {
            case 1:
                return start<type, form, 1>(p, cut, in.dependent, stream);
            case 2:
                return start<type, form, 2>(p, cut, in.dependent, stream);
            case 4:
                return start<type, form, 4>(p, cut, in.dependent, stream);
            case 8:
                return start<type, form, 8>(p, cut, in.dependent, stream);
            default:
                return start<type, form, 16>(p, cut, in.dependent, stream);
            }
        }
    });
}

} // namespace refreshlab::kernels::RL_GPU
