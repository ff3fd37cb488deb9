#include "kernels/decode/decode_plan.h"

#include "kernels/decode/expert_shapes.h"
#include "kernels/decode/rows_shapes.h"
#include "kernels/shared/attention_bins.h"
#include "kernels/shared/check.h"
#include "kernels/shared/row_accumulators.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace refreshlab::kernels::decode {

namespace {

int64_t blocks_of(const LaunchShape& shape) {
    return int64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
}

/// Rows that the blocks of a product compute: a block whose rows but one are not there takes the way of one row.
int64_t rows_computed(int64_t rows) {
    const int64_t held = rows_held(rows), rest = rows % rows_per_block;
    return rows / rows_per_block * rows_per_block + (rest == 0 ? 0 : rest == 1 ? 1 : held);
}

constexpr int64_t head_outputs_at_once = 4; ///< of the eight of a warp

/// \param numbers  of all rows. \param weights  of the norms
void count_norm(PlannedLaunch& launch, int64_t numbers, int64_t weights, int64_t element) {
    launch.traffic.small_weights = weights * element;
    launch.traffic.activations = 2 * numbers * 4; // for the sum, and to be multiplied
    launch.traffic.activations_written = numbers * 4;
    launch.multiply_adds = 3 * numbers;
    launch.bytes_in_flight = weights * element;
    launch.reads_early = true;
    launch.chain = 2; // the row, twice
}

/// A step under way: what is added stands behind what was added before.
class Planner {
public:
    explicit Planner(const DecodeShape& shape)
        : m_s(shape)
        , m_element(bytes_of(shape.type)) {}

    std::vector<PlannedLaunch> all() {
        embedding();
        for (int64_t l = 0; l < m_s.layers; ++l) {
            const int64_t q = m_s.heads * m_s.head_dim, kv = m_s.kv_heads * m_s.head_dim;
            if (m_s.attends.empty() || m_s.attends[static_cast<size_t>(l)]) {
                product(DecodeKernel::norm_product, "q|k|v", l, q + 2 * kv, m_s.hidden, m_s.qkv_bias);
                if (m_s.qk_norm_whole) m_launches.push_back(plan_qk_norms(m_s, l, m_s.rows, true));
                attention(l);
                if (joins()) join(l);
                onto("o", l, q, m_s.output_bias);
            } else {
                product(DecodeKernel::norm_product, "k|v", l, 2 * kv, m_s.hidden, m_s.qkv_bias, 1);
                if (m_s.qk_norm_whole) m_launches.push_back(plan_qk_norms(m_s, l, 1, false));
                append(l);
            }
            if (!m_s.has_mlp.empty() && !m_s.has_mlp[static_cast<size_t>(l)]) continue;
            if (m_s.routes(l)) {
                std::ranges::copy(plan_experts(m_s, l, m_s.rows), std::back_inserter(m_launches));
                if (m_s.branch_norms) branch_norm("down norm", l);
                continue;
            }
            gate_up(l);
            onto("down", l, m_s.ffn, m_s.mlp_bias);
        }
        if (m_s.taps > 0) attention_rows();
        product(DecodeKernel::head, "head", -1, m_s.vocab, m_s.hidden, false);
        if (m_s.top_k >= 0) answers(m_launches.back());
        return std::move(m_launches);
    }

private:
    PlannedLaunch& add(DecodeKernel kernel, const char* part, int64_t layer, const LaunchShape& shape) {
        PlannedLaunch launch;
        launch.kernel = kernel;
        launch.part = part;
        launch.layer = layer;
        launch.shape = shape;
        launch.busy_blocks = blocks_of(shape);
        launch.dependent =
            m_s.dependent && !m_launches.empty(); // the first has none of its own step in front
        return m_launches.emplace_back(launch);
    }

    void embedding() {
        PlannedLaunch& launch = add(DecodeKernel::embed, "embedding", -1, embed(m_s.rows));
        launch.form = m_s.embedding_form;
        // A row of blocks is a sixteenth of a row of tiles.
        const int64_t row = matrix_bytes(m_s.type, launch.form, block_rows, m_s.hidden) / block_rows;
        launch.traffic.small_weights = row;
        launch.traffic.again = (m_s.rows - 1) * row;
        launch.traffic.activations_written = m_s.rows * m_s.hidden * 4;
        launch.elements = m_s.rows * m_s.hidden;
        launch.bytes_in_flight = row;
        launch.chain = 1; // the token's id
    }

    /// A product as its launch sees it.
    struct Product {
        DecodeKernel kernel{};
        const char* part = "";
        int64_t layer = -1, outputs = 0, inputs = 0, rows = 1;
        bool bias = false;
        MatrixForm form = MatrixForm::numbers;
        int64_t matrices = 1;     ///< 2: gate and up at once, each of so many outputs
        int64_t per_block = 0;    ///< outputs of a block, with the token's row alone or in blocks
        int64_t at_once = 0;      ///< rows of weights that a warp takes side by side then
        int64_t mc_per_block = 0; ///< rows of weights of a block with MC rows
    };
    /// \return whether MC rows go beside the token's, by a kernel of their own
    [[nodiscard]] static bool has_mc(const Product& p) { return p.rows > 1 && p.form == MatrixForm::numbers; }

    PlannedLaunch& add_product(const Product& p) {
        const bool blocks = p.form != MatrixForm::numbers, mc = has_mc(p);
        const int64_t rows_of_weights = p.outputs * p.matrices, weights = rows_of_weights * p.inputs;
        PlannedLaunch& launch =
            add(blocks ? DecodeKernel::block_product : p.kernel, p.part, p.layer,
                blocks ? decode::block_product(p.form, p.outputs, p.inputs, p.rows, p.per_block, p.matrices)
                : mc   ? mc_product(m_s.type, rows_of_weights, p.inputs, p.rows, p.mc_per_block)
                       : decode::product(p.outputs, p.inputs, p.rows, p.per_block));
        launch.form = p.form;
        LaunchTraffic& t = launch.traffic;
        const int64_t groups = launch.shape.grid[0], in_group = launch.busy_blocks / groups;
        t.matrices = matrix_bytes(m_s.type, p.form, rows_of_weights, p.inputs);
        t.again = (groups - 1) * t.matrices;
        if (p.bias) t.small_weights += rows_of_weights * m_element;
        t.activations = in_group * p.rows * p.inputs * 4; // each block takes the inputs of its rows
        launch.bytes_in_flight = t.matrices / in_group;   // all of them are asked for at once, into L2
        launch.reads_early = true;
        launch.chain = 1; // the inputs
        if (mc) {
            count_mc(launch, p, weights, in_group);
            return launch;
        }
        launch.instance = rows_held(p.rows);
        launch.multiply_adds = rows_computed(p.rows) * weights;
        launch.elements = groups * weights;
        // Multiply-adds for a number that a lane reads of shared memory. Of blocks: half a warp reads the same 16 bytes.
        launch.shared_bytes_read = launch.multiply_adds * 4 / (blocks ? 4 * p.matrices : p.at_once);
        return launch;
    }
    /// The token's row and MC rows in one launch.
    void count_mc(PlannedLaunch& launch, const Product& p, int64_t weights, int64_t blocks) const {
        const bool tensor = m_s.type != WeightType::f32;
        const int64_t mc_rows = (p.rows - 1 + 7) / 8 * 8; // what is not there is computed too
        const int64_t at_once = p.mc_per_block / 16;      // of a lane
        launch.instance = mc_rows_held(m_s.type, p.rows);
        launch.elements = launch.multiply_adds = weights;
        launch.shared_bytes_read =
            weights * 4 / at_once + mc_rows / 8 * weights * 4 / at_once * (tensor ? 1 : 8);
        launch.shared_bytes_read += 2 * launch.traffic.activations; // brought there, and written
        if (tensor) {
            launch.tensor_multiply_adds = 2 * mc_rows * weights; // two parts
            launch.elements += 2 * blocks * (p.rows - 1) * p.inputs;
        } else {
            launch.multiply_adds += mc_rows * weights;
        }
        // As often as the tile is filled.
        launch.chain = (p.inputs + mc_product_tile(launch.instance) - 1) / mc_product_tile(launch.instance);
    }

    void product(DecodeKernel kernel, const char* part, int64_t layer, int64_t outputs, int64_t inputs,
                 bool bias) {
        product(kernel, part, layer, outputs, inputs, bias, m_s.rows);
    }
    void product(DecodeKernel kernel, const char* part, int64_t layer, int64_t outputs, int64_t inputs,
                 bool bias, int64_t rows) {
        const bool is_head = kernel == DecodeKernel::head, onto = kernel == DecodeKernel::product_onto;
        Product p;
        p.kernel = kernel;
        p.part = part;
        p.layer = layer;
        p.outputs = outputs;
        p.inputs = inputs;
        p.rows = rows;
        p.bias = bias;
        p.form = is_head ? m_s.head_form : m_s.form;
        p.per_block = is_head ? head_outputs_per_block : outputs_per_block;
        p.at_once = is_head ? head_outputs_at_once : outputs_per_warp;
        p.mc_per_block = onto ? mc_onto_outputs_per_block : mc_outputs_per_block;
        PlannedLaunch& launch = add_product(p);
        // Inputs that do not fit into the tile are brought again for each part of a warp's outputs.
        if (is_head && !has_mc(p) && inputs > product_tile(launch.instance))
            launch.traffic.activations *= launch.form == MatrixForm::numbers
                                              ? head_outputs_per_warp / head_outputs_at_once
                                              : head_outputs_per_block / block_rows;
        const int64_t out = rows * outputs * 4;
        if (onto && m_s.branch_norms) {
            // It goes onto nothing.
        } else if (onto) {
            launch.traffic.activations += out; // the residual that it is added to
            if (has_mc(p)) ++launch.chain;     // the token alone has it asked for beside the inputs
        } else if (m_s.pre_norms || is_head) {
            launch.traffic.small_weights += m_s.hidden * m_element; // norm
        }
        launch.traffic.activations_written = out;
    }
    /// o or down, and the norm of what it adds.
    void onto(const char* part, int64_t layer, int64_t inputs, bool bias) {
        product(DecodeKernel::product_onto, part, layer, m_s.hidden, inputs, bias);
        if (m_s.branch_norms) branch_norm(part[0] == 'o' ? "o norm" : "down norm", layer);
    }
    void branch_norm(const char* part, int64_t layer) {
        PlannedLaunch& launch = add(DecodeKernel::norm_rows, part, layer, decode::norm_rows(1, m_s.rows));
        count_norm(launch, m_s.rows * m_s.hidden, m_s.hidden, m_element);
        launch.traffic.activations += m_s.rows * m_s.hidden * 4; // the residual that it is added to
    }

    void gate_up(int64_t layer) {
        // A warp makes gate and up of its outputs: twice as many rows of weights.
        Product p;
        p.kernel = DecodeKernel::norm_gate_up;
        p.part = "gate|up";
        p.layer = layer;
        p.outputs = m_s.ffn;
        p.inputs = m_s.hidden;
        p.rows = m_s.rows;
        p.bias = m_s.mlp_bias;
        p.form = m_s.form;
        p.matrices = 2;
        p.per_block = outputs_per_block;
        p.at_once = 2 * outputs_per_warp;
        p.mc_per_block = 2 * mc_gate_up_per_block;
        PlannedLaunch& launch = add_product(p);
        if (m_s.pre_norms) launch.traffic.small_weights += m_s.hidden * m_element;
        launch.traffic.activations_written = m_s.rows * m_s.ffn * 4;
    }

    [[nodiscard]] bool norms_of_heads() const { return m_s.qk_norm && !m_s.qk_norm_whole; }

    /// What the token sees of a layer's cache.
    struct Sight {
        int64_t columns, splits; ///< splits: from that of the first visible column to that of the token's own
    };
    [[nodiscard]] Sight sight(int64_t layer) const {
        const int64_t window = m_s.windows.empty() ? 0 : m_s.windows[static_cast<size_t>(layer)];
        // A query at p sees (p - window, p]; its own column does not come from the cache.
        const int64_t first = window > 0 ? std::max<int64_t>(m_s.context - window + 1, 0) : 0;
        return {m_s.context - first, m_s.context / split_positions - first / split_positions + 1};
    }

    void attention(int64_t layer) {
        const int64_t group = m_s.heads / m_s.kv_heads, rows = mc_rows_apart(m_s.type) ? 1 : m_s.rows;
        PlannedLaunch& launch = add(DecodeKernel::decode_attention, "attention", layer,
                                    decode::attention(m_s.kv_heads, group, m_s.head_dim, rows, m_s.capacity));
        LaunchTraffic& t = launch.traffic;
        const auto [columns, busy] = sight(layer);
        launch.busy_blocks = busy * m_s.kv_heads * rows;
        const int64_t entries = 2 * m_s.kv_heads * columns * m_s.head_dim;
        t.cache = entries * m_element;
        t.again = (rows - 1) * t.cache;
        t.cache_written = 2 * m_s.kv_heads * m_s.head_dim * m_element;
        t.small_weights =
            m_s.head_dim * 4 + (norms_of_heads() ? 2 * m_s.head_dim * m_element : 0); // RoPE's row
        // Every busy block takes its queries, key and value; the parts of the splits are written and read once.
        const int64_t parts = rows * m_s.heads * busy * (m_s.head_dim + 2) * 4;
        t.activations = launch.busy_blocks * (group + 2) * m_s.head_dim * 4 + parts;
        t.activations_written = parts + rows * m_s.heads * m_s.head_dim * 4;
        if (layer < m_s.taps)
            t.activations_written += m_s.heads * (m_s.context + 1 + 2) * 4; // row 0's scores
        launch.multiply_adds = rows * group * entries;
        launch.elements = rows * entries;
        // Queries and weights go to all lanes at once, 16 multiply-adds for a read that costs as much as 4 bytes a lane.
        launch.shared_bytes_read = launch.multiply_adds / 4;
        // Queries; and where splits are merged, the count of those that are there, and what they left.
        launch.chain = busy > 1 ? 2 + merge_rounds(group, m_s.head_dim, busy) : 1;
        if (m_s.entropies) {
            const int64_t sums =
                busy > 1 ? m_s.heads * busy * 4 : 0; // and what they left for entropies, a lane a split
            t.activations += 3 * sums;
            t.activations_written += sums + m_s.heads * 4;
            launch.chain += busy > 1 ? (busy + 31) / 32 : 0;
        }
        launch.reads_early = true;
        launch.instance = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(group)));
        launch.bytes_in_flight =
            t.cache / (busy * m_s.kv_heads); // a split's keys and values are asked for at once, into L2
        if (rows < m_s.rows) mc_attention(layer);
    }

    /// q|k|v and attention are one launch.
    [[nodiscard]] bool joins() const {
        return m_s.clusters && m_s.rows == 1 && m_s.form == MatrixForm::numbers && !m_s.qk_norm_whole &&
               joins_attention(m_s.type, m_s.kv_heads, m_s.heads / m_s.kv_heads, m_s.head_dim, m_s.hidden,
                               m_s.capacity);
    }
    /// Makes one of the last two, which are one after the other: what q|k|v leaves attention goes through the cluster's shared memory.
    void join(int64_t layer) {
        PlannedLaunch attention = std::move(m_launches.back());
        m_launches.pop_back();
        PlannedLaunch product = std::move(m_launches.back());
        m_launches.pop_back();
        PlannedLaunch& launch = add(
            DecodeKernel::qkv_attention, "q|k|v attention", layer,
            qkv_attention(m_s.kv_heads, m_s.heads / m_s.kv_heads, m_s.head_dim, m_s.hidden, m_s.capacity));
        product.busy_blocks = launch.busy_blocks;
        product.bytes_in_flight = product.traffic.matrices / product.busy_blocks;
        product.traffic.activations = product.busy_blocks * m_s.hidden * 4;
        product.traffic.activations_written = 0;
        attention.traffic.activations = 0;
        attention.traffic.activations_written = m_s.heads * m_s.head_dim * 4;
        if (layer < m_s.taps) attention.traffic.activations_written += m_s.heads * (m_s.context + 1 + 2) * 4;
        if (m_s.entropies) attention.traffic.activations_written += m_s.heads * 4;
        launch.traffic = product.traffic;
        LaunchTraffic& t = launch.traffic;
        t.cache = attention.traffic.cache;
        t.cache_written = attention.traffic.cache_written;
        t.small_weights += attention.traffic.small_weights;
        t.activations_written = attention.traffic.activations_written;
        launch.multiply_adds = product.multiply_adds + attention.multiply_adds;
        launch.elements = product.elements + attention.elements;
        launch.shared_bytes_read = product.shared_bytes_read + attention.shared_bytes_read;
        launch.bytes_in_flight = product.bytes_in_flight + attention.bytes_in_flight;
        launch.chain = 1;         // the inputs
        launch.cluster_waits = 2; // q, k and v; what splits leave
        launch.reads_early = true;
        launch.instance = attention.instance;
        const int64_t of_head = attention.busy_blocks / m_s.kv_heads, cluster = launch.shape.cluster;
        attention.turns = (of_head + cluster - 1) / cluster;
        launch.phases = {std::move(product), std::move(attention)};
    }

    void mc_attention(int64_t layer) {
        const int64_t group = m_s.heads / m_s.kv_heads, rows = m_s.rows - 1;
        PlannedLaunch& launch =
            add(DecodeKernel::mc_attention, "attention MC", layer,
                decode::mc_attention(m_s.kv_heads, group, m_s.head_dim, m_s.rows, m_s.capacity));
        LaunchTraffic& t = launch.traffic;
        const auto [columns, busy] = sight(layer);
        const int64_t tiles = launch.shape.grid[2], queries = 16 * mc_attention_tiles(group, m_s.rows);
        launch.busy_blocks = busy * m_s.kv_heads * tiles;
        const int64_t entries = 2 * m_s.kv_heads * columns * m_s.head_dim;
        t.again = tiles * entries * m_element;
        t.small_weights = norms_of_heads() ? 2 * m_s.head_dim * m_element : 0;
        const int64_t parts = busy > 1 ? rows * m_s.heads * busy * (m_s.head_dim + 2) * 4 : 0;
        t.activations = busy * rows * (m_s.heads + m_s.kv_heads) * m_s.head_dim * 4 + parts;
        t.activations_written = parts + rows * m_s.heads * m_s.head_dim * 4;
        // Two parts of queries and of weights, of all queries that a block holds; whole splits.
        launch.tensor_multiply_adds = 2 * launch.busy_blocks * queries * 2 * split_positions * m_s.head_dim;
        // A mask's call of Philox, 10 rounds of 2 products and about 6 other operations, makes eight draws; e^x as much as 8 products.
        launch.multiply_adds = launch.busy_blocks * queries * split_positions * (100 / 8 + 8);
        // Each warp reads the queries, each share of the channels the weights; scores are written, read and written.
        launch.shared_bytes_read =
            launch.busy_blocks * queries *
            (attention_warps * m_s.head_dim * 4 + split_positions * 4 * (3 + (m_s.head_dim + 63) / 64));
        // Queries; and where splits are merged, the count of those that are there, their sums, their values.
        launch.chain = busy > 1 ? 4 : 1;
        launch.reads_early = true;
        launch.instance = mc_attention_tiles(group, m_s.rows);
        launch.bytes_in_flight = std::max<int64_t>(t.again / launch.busy_blocks, 1);
    }

    void attention_rows() {
        const bool whole = m_s.bins == 0;
        PlannedLaunch& launch =
            whole ? add(DecodeKernel::attention_rows, "rows", -1,
                        decode::attention_rows(m_s.heads, m_s.taps, m_s.capacity))
                  : add(DecodeKernel::attention_bins, "rows", -1,
                        decode::attention_bins(m_s.heads, m_s.taps, m_s.capacity, m_s.bins));
        const int64_t rows = m_s.taps * m_s.heads, keys = m_s.context + 1;
        const int64_t width = shared::bin_width(keys, m_s.bins), kept = shared::num_bins(keys, width);
        launch.busy_blocks = rows * (whole ? splits(keys) : rows::blocks_for(kept, attention_bin_threads));
        launch.traffic.activations = (rows * keys + launch.busy_blocks * 2) * 4; // scores, and their sums
        launch.traffic.host_written = rows * kept * 2;
        launch.chain =
            1 + rows::blocks_for(width * 4, 128); // the position; lines of scores that a thread reads
    }

    /// The token's column, of a layer whose attention is left out.
    void append(int64_t layer) {
        PlannedLaunch& launch =
            add(DecodeKernel::rows_append, "column", layer, rows::append(1, 2 * m_s.kv_heads));
        const int64_t numbers = 2 * m_s.kv_heads * m_s.head_dim;
        LaunchTraffic& t = launch.traffic;
        t.small_weights = m_s.head_dim * 4 + (norms_of_heads() ? m_s.head_dim * m_element : 0); // RoPE's row
        t.activations = numbers * 4;
        t.cache_written = numbers * m_element;
        launch.chain = 2; // the position, the rotation
    }

    /// About the token's row: the blocks' own are merged twice.
    void answers(PlannedLaunch& head) const {
        const int64_t blocks = answer_blocks(m_s.vocab), groups = answer_groups(m_s.vocab);
        const int64_t parts =
            (blocks + groups) * (static_cast<int64_t>(sizeof(shared::SoftmaxSums)) + m_s.top_k * 8);
        head.traffic.activations += parts;
        head.traffic.activations_written += parts;
        // A warp's lists come one after the other; then those of the warps, each of a half to one of the other.
        if (m_s.top_k > answer_rounds)
            for (const int64_t lists : {std::min(blocks, answer_group), groups})
                head.chain += (lists + answer_warps - 1) / answer_warps - 1 +
                              std::bit_width(static_cast<uint64_t>(answer_warps)) - 1;
        if (m_s.draws) {
            // Sums of weights; the walk reads those of all groups and of a group's blocks again, with their maxima, and a block's logits.
            const int64_t weight = sizeof(double), walked = groups + std::min(blocks, answer_group);
            head.traffic.activations +=
                (blocks + groups) * weight +
                walked * (weight + static_cast<int64_t>(sizeof(shared::SoftmaxSums))) +
                head_outputs_per_block * 4;
            head.traffic.activations_written += (blocks + groups) * weight;
            head.chain += 2; // of the group's blocks; of the block's logits
        }
        if (m_s.entropies) { // read beside what the groups left
            head.traffic.activations += m_s.layers * m_s.heads * 4;
            head.traffic.host_written += m_s.layers * m_s.heads * 4;
        }
        head.chain += 4; // the count of a group's blocks, what they left; the count of groups, what they left
    }

    const DecodeShape& m_s;
    int64_t m_element;
    std::vector<PlannedLaunch> m_launches;
};

} // namespace

const char* name_of(DecodeKernel kernel) {
    switch (kernel) {
    case DecodeKernel::embed:
        return "embed";
    case DecodeKernel::norm_product:
        return "norm_product";
    case DecodeKernel::decode_attention:
        return "decode_attention";
    case DecodeKernel::qkv_attention:
        return "qkv_attention";
    case DecodeKernel::mc_attention:
        return "mc_attention";
    case DecodeKernel::product_onto:
        return "product_onto";
    case DecodeKernel::norm_rows:
        return "norm_rows";
    case DecodeKernel::norm_gate_up:
        return "norm_gate_up";
    case DecodeKernel::router:
        return "router";
    case DecodeKernel::expert_gate_up:
        return "expert_gate_up";
    case DecodeKernel::expert_down:
        return "expert_down";
    case DecodeKernel::head:
        return "head";
    case DecodeKernel::attention_rows:
        return "attention_rows";
    case DecodeKernel::attention_bins:
        return "attention_bins";
    case DecodeKernel::block_product:
        return "block_product";
    case DecodeKernel::rows_embed:
        return "rows_embed";
    case DecodeKernel::rows_norm:
        return "rows_norm";
    case DecodeKernel::rows_product_wide:
        return "rows_product_wide";
    case DecodeKernel::rows_product:
        return "rows_product";
    case DecodeKernel::rows_product_f32:
        return "rows_product_f32";
    case DecodeKernel::expert_rows_gate_up:
        return "expert_rows_gate_up";
    case DecodeKernel::expert_rows_down:
        return "expert_rows_down";
    case DecodeKernel::rows_append:
        return "rows_append";
    case DecodeKernel::rows_attention:
        return "rows_attention";
    case DecodeKernel::rows_attention_f32:
        return "rows_attention_f32";
    case DecodeKernel::rows_attention_merge:
        return "rows_attention_merge";
    case DecodeKernel::splice:
        return "splice";
    }
    return "";
}

PlannedLaunch plan_qk_norms(const DecodeShape& s, int64_t layer, int64_t rows, bool with_q) {
    PlannedLaunch launch;
    launch.kernel = DecodeKernel::norm_rows;
    launch.part = "q/k norm";
    launch.layer = layer;
    launch.shape = norm_rows(with_q ? 2 : 1, rows);
    launch.busy_blocks = blocks_of(launch.shape);
    launch.dependent = s.dependent;
    const int64_t numbers = ((with_q ? s.heads : 0) + s.kv_heads) * s.head_dim;
    count_norm(launch, rows * numbers, numbers, bytes_of(s.type));
    return launch;
}

void require_experts(const DecodeShape& s) {
    const ExpertShape& experts = s.experts;
    RL_ASSERT(experts.count == 0 || (experts.used > 0 && experts.used <= experts.count && experts.width > 0 &&
                                     experts.count <= most_experts));
    RL_ASSERT(s.routed.empty() || static_cast<int64_t>(s.routed.size()) == s.layers);
}

PlannedLaunch plan_router(const DecodeShape& s, int64_t layer, int64_t rows) {
    const int64_t element = bytes_of(s.type), matrix = s.experts.count * s.hidden;
    PlannedLaunch launch;
    launch.kernel = DecodeKernel::router;
    launch.part = "router";
    launch.layer = layer;
    launch.shape = router(s.experts.count, s.hidden, rows);
    launch.busy_blocks = blocks_of(launch.shape);
    launch.dependent = s.dependent;
    LaunchTraffic& t = launch.traffic;
    t.matrices = matrix * element;
    t.again = (rows - 1) * t.matrices;
    if (s.pre_norms) t.small_weights = s.hidden * element;
    t.activations = (launch.busy_blocks * s.hidden + rows * s.experts.count) * 4; // logits, by the last block
    t.activations_written = rows * (s.experts.count * 4 + s.experts.used * 8);
    launch.multiply_adds = launch.elements = rows * matrix;
    launch.shared_bytes_read = launch.multiply_adds * 4 / outputs_per_warp;
    launch.bytes_in_flight = t.matrices * rows / launch.busy_blocks;
    launch.reads_early = true;
    launch.chain = 3; // the row; the count of blocks; their logits
    return launch;
}

std::vector<PlannedLaunch> plan_experts(const DecodeShape& s, int64_t layer, int64_t rows) {
    const int64_t element = bytes_of(s.type), used = s.experts.used, width = s.experts.width;
    const int64_t matrix = width * s.hidden, matrix_size = matrix_bytes(s.type, s.form, width, s.hidden);
    std::vector<PlannedLaunch> launches{plan_router(s, layer, rows)};
    const auto add = [&](DecodeKernel kernel, const char* part, const LaunchShape& shape,
                         int64_t matrices) -> PlannedLaunch& {
        PlannedLaunch& launch = launches.emplace_back();
        launch.kernel = kernel;
        launch.part = part;
        launch.layer = layer;
        launch.shape = shape;
        launch.busy_blocks = blocks_of(shape);
        launch.dependent = s.dependent;
        LaunchTraffic& t = launch.traffic;
        launch.form = s.form;
        t.matrices = used * matrices * matrix_size; // the token's; other rows may be sent to others
        t.again = (rows - 1) * t.matrices;
        launch.multiply_adds = launch.elements = rows * used * matrices * matrix;
        launch.shared_bytes_read = launch.multiply_adds * 4 / (outputs_per_warp * matrices);
        launch.bytes_in_flight = rows * t.matrices / launch.busy_blocks;
        launch.chain = 3; // whose matrices; where they are; the inputs
        return launch;
    };
    PlannedLaunch& gate_up =
        add(DecodeKernel::expert_gate_up, "gate|up", expert_gate_up(s.form, used, width, s.hidden, rows), 2);
    if (s.pre_norms) gate_up.traffic.small_weights = s.hidden * element;
    gate_up.traffic.activations = gate_up.busy_blocks * (s.hidden * 4 + 4);
    gate_up.traffic.activations_written = rows * used * width * 4;
    PlannedLaunch& down =
        add(DecodeKernel::expert_down, "down", expert_down(s.form, used, width, s.hidden, rows), 1);
    down.traffic.activations = down.busy_blocks * used * (width * 4 + 8);
    if (!s.branch_norms) down.traffic.activations += rows * s.hidden * 4; // the residual that it is added to
    down.traffic.activations_written = rows * s.hidden * 4;
    return launches;
}

std::vector<PlannedLaunch> plan_step(const DecodeShape& s) {
    RL_ASSERT(s.hidden > 0 && s.ffn > 0 && s.layers > 0 && s.kv_heads > 0 && s.head_dim > 0 && s.vocab > 0);
    RL_ASSERT(s.heads > 0 && s.heads % s.kv_heads == 0 && s.heads / s.kv_heads <= most_group);
    RL_ASSERT(s.head_dim <= most_head_dim);
    const auto fits = [&s](MatrixForm form) {
        return form == MatrixForm::numbers ||
               (s.type == WeightType::bf16 && s.hidden % block_width == 0 && s.ffn % block_width == 0);
    };
    RL_ASSERT(fits(s.form) && fits(s.embedding_form) && fits(s.head_form));
    RL_ASSERT(s.qk_norm || !s.qk_norm_whole);
    require_experts(s);
    RL_ASSERT(s.attends.empty() || static_cast<int64_t>(s.attends.size()) == s.layers);
    RL_ASSERT(s.has_mlp.empty() || static_cast<int64_t>(s.has_mlp.size()) == s.layers);
    RL_ASSERT(s.context >= 0 && s.context < s.capacity && s.rows >= 1 && s.rows <= 1024);
    RL_ASSERT(s.taps >= 0 && s.taps <= s.layers && s.bins >= 0 && (!s.entropies || s.top_k >= 0));
    RL_ASSERT(s.windows.empty() || static_cast<int64_t>(s.windows.size()) == s.layers);
    return Planner(s).all();
}

} // namespace refreshlab::kernels::decode
