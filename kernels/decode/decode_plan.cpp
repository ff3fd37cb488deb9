#include "kernels/decode/decode_plan.h"

#include "kernels/decode/rows_shapes.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <bit>
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
                attention(l);
                product(DecodeKernel::product_onto, "o", l, m_s.hidden, q, m_s.output_bias);
            } else {
                product(DecodeKernel::norm_product, "k|v", l, 2 * kv, m_s.hidden, m_s.qkv_bias, 1);
                append(l);
            }
            if (!m_s.has_mlp.empty() && !m_s.has_mlp[static_cast<size_t>(l)]) continue;
            gate_up(l);
            product(DecodeKernel::product_onto, "down", l, m_s.hidden, m_s.ffn, m_s.mlp_bias);
        }
        if (m_s.taps > 0) attention_rows();
        product(DecodeKernel::head, "head", -1, m_s.vocab, m_s.hidden, false);
        if (m_s.top_k >= 0) answers();
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

    /// What every product has: matrices of `outputs` rows in all, of which a warp takes `at_once` side by side.
    void count_product(PlannedLaunch& launch, int64_t outputs, int64_t inputs, bool bias, int64_t at_once,
                       int64_t rows) const {
        LaunchTraffic& t = launch.traffic;
        const int64_t groups = row_groups(rows), weights = outputs * inputs;
        const int64_t blocks = launch.busy_blocks / groups;
        t.matrices = matrix_bytes(m_s.type, launch.form, outputs, inputs);
        t.again = (groups - 1) * t.matrices;
        if (bias) t.small_weights += outputs * m_element;
        t.activations = blocks * rows * inputs * 4; // each block takes the inputs of its rows
        launch.instance = rows_held(rows);
        launch.multiply_adds = rows_computed(rows) * weights;
        launch.elements = groups * weights;
        launch.shared_bytes_read = launch.multiply_adds * 4 / at_once;
        launch.bytes_in_flight = t.matrices / blocks; // all of them are asked for at once, into L2
        launch.reads_early = true;
        launch.chain = 1; // the inputs
    }

    /// A launch of a product, of one form or the other.
    PlannedLaunch& add_product(DecodeKernel kernel, MatrixForm form, const char* part, int64_t layer,
                               int64_t outputs, int64_t inputs, int64_t rows,
                               int64_t per_block = outputs_per_block, int64_t matrices = 1) {
        const bool blocks = form != MatrixForm::numbers;
        PlannedLaunch& launch =
            add(blocks ? DecodeKernel::block_product : kernel, part, layer,
                blocks ? decode::block_product(form, outputs, inputs, rows, per_block, matrices)
                       : decode::product(outputs, inputs, rows, per_block));
        launch.form = form;
        return launch;
    }
    /// Multiply-adds for a number that a lane reads of shared memory. Of blocks: half a warp reads the same 16 bytes.
    [[nodiscard]] static int64_t at_once(const PlannedLaunch& launch, int64_t of_numbers,
                                         int64_t matrices = 1) {
        return launch.form == MatrixForm::numbers ? of_numbers : 4 * matrices;
    }

    void product(DecodeKernel kernel, const char* part, int64_t layer, int64_t outputs, int64_t inputs,
                 bool bias) {
        product(kernel, part, layer, outputs, inputs, bias, m_s.rows);
    }
    void product(DecodeKernel kernel, const char* part, int64_t layer, int64_t outputs, int64_t inputs,
                 bool bias, int64_t rows) {
        const bool is_head = kernel == DecodeKernel::head;
        PlannedLaunch& launch =
            add_product(kernel, is_head ? m_s.head_form : m_s.form, part, layer, outputs, inputs, rows,
                        is_head ? head_outputs_per_block : outputs_per_block);
        count_product(launch, outputs, inputs, bias,
                      at_once(launch, is_head ? head_outputs_at_once : outputs_per_warp), rows);
        // Inputs that do not fit into the tile are brought again for each part of a warp's outputs.
        if (is_head && inputs > product_tile(launch.instance))
            launch.traffic.activations *= launch.form == MatrixForm::numbers
                                              ? head_outputs_per_warp / head_outputs_at_once
                                              : head_outputs_per_block / block_rows;
        const int64_t out = rows * outputs * 4;
        if (kernel == DecodeKernel::product_onto) {
            launch.traffic.activations += out; // the residual that it is added to
            ++launch.chain;
        } else {
            launch.traffic.small_weights += m_s.hidden * m_element; // norm
        }
        launch.traffic.activations_written = out;
    }

    void gate_up(int64_t layer) {
        // A warp makes gate and up of its outputs: twice as many rows of weights.
        PlannedLaunch& launch = add_product(DecodeKernel::norm_gate_up, m_s.form, "gate|up", layer, m_s.ffn,
                                            m_s.hidden, m_s.rows, outputs_per_block, 2);
        count_product(launch, 2 * m_s.ffn, m_s.hidden, m_s.mlp_bias, at_once(launch, 2 * outputs_per_warp, 2),
                      m_s.rows);
        launch.traffic.small_weights += m_s.hidden * m_element; // norm
        launch.traffic.activations_written = m_s.rows * m_s.ffn * 4;
    }

    void attention(int64_t layer) {
        const int64_t group = m_s.heads / m_s.kv_heads;
        const LaunchShape shape =
            decode::attention(m_s.kv_heads, group, m_s.head_dim, m_s.rows, m_s.capacity);
        PlannedLaunch& launch = add(DecodeKernel::decode_attention, "attention", layer, shape);
        LaunchTraffic& t = launch.traffic;
        const int64_t window = m_s.windows.empty() ? 0 : m_s.windows[static_cast<size_t>(layer)];
        // A query at p sees (p - window, p]; its own column does not come from the cache.
        const int64_t first = window > 0 ? std::max<int64_t>(m_s.context - window + 1, 0) : 0;
        const int64_t columns = m_s.context - first;
        // From the split of the first visible column to that of the token's own.
        const int64_t busy = m_s.context / split_positions - first / split_positions + 1;
        launch.busy_blocks = busy * m_s.kv_heads * m_s.rows;
        const int64_t entries = 2 * m_s.kv_heads * columns * m_s.head_dim;
        t.cache = entries * m_element;
        t.again = (m_s.rows - 1) * t.cache;
        t.cache_written = 2 * m_s.kv_heads * m_s.head_dim * m_element;
        t.small_weights = m_s.head_dim * 4 + (m_s.qk_norm ? 2 * m_s.head_dim * m_element : 0); // RoPE's row
        // Every busy block takes its queries, key and value; the parts of the splits are written and read once.
        const int64_t parts = m_s.rows * m_s.heads * busy * (m_s.head_dim + 2) * 4;
        t.activations = launch.busy_blocks * (group + 2) * m_s.head_dim * 4 + parts;
        t.activations_written = parts + m_s.rows * m_s.heads * m_s.head_dim * 4;
        if (layer < m_s.taps)
            t.activations_written += m_s.heads * (m_s.context + 1 + 2) * 4; // row 0's scores
        launch.multiply_adds = m_s.rows * group * entries;
        launch.elements = m_s.rows * entries;
        // Queries and weights go to all lanes at once, 16 multiply-adds for a read that costs as much as 4 bytes a lane.
        launch.shared_bytes_read = launch.multiply_adds / 4;
        // Queries; and where splits are merged, the count of those that are there, their sums, their values.
        launch.chain = busy > 1 ? 4 : 1;
        launch.reads_early = true;
        launch.instance = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(group)));
        launch.bytes_in_flight =
            t.cache / (busy * m_s.kv_heads); // a split's keys and values are asked for at once, into L2
    }

    void attention_rows() {
        PlannedLaunch& launch = add(DecodeKernel::attention_rows, "rows", -1,
                                    decode::attention_rows(m_s.heads, m_s.taps, m_s.capacity));
        const int64_t rows = m_s.taps * m_s.heads, numbers = rows * (m_s.context + 1);
        launch.busy_blocks = rows * splits(m_s.context + 1);
        launch.traffic.activations = (numbers + launch.busy_blocks * 2) * 4; // scores, and their sums
        launch.traffic.host_written = numbers * 2;
        launch.chain = 2; // the position; scores
    }

    /// The token's column, of a layer whose attention is left out.
    void append(int64_t layer) {
        PlannedLaunch& launch =
            add(DecodeKernel::rows_append, "column", layer, rows::append(1, 2 * m_s.kv_heads));
        const int64_t numbers = 2 * m_s.kv_heads * m_s.head_dim;
        LaunchTraffic& t = launch.traffic;
        t.small_weights = m_s.head_dim * 4 + (m_s.qk_norm ? m_s.head_dim * m_element : 0); // RoPE's row
        t.activations = numbers * 4;
        t.cache_written = numbers * m_element;
        launch.chain = 2; // the position, the rotation
    }

    void answers() {
        PlannedLaunch& launch = add(DecodeKernel::row_answers, "answers", -1, decode::row_answers(m_s.vocab));
        const int64_t keys = launch.busy_blocks * m_s.top_k * 8;
        launch.traffic.activations = 2 * m_s.vocab * 4 + keys; // the sums read the row, and so do the keys
        launch.traffic.activations_written = keys;
        // The row; one largest logit after the other, in a block's share and again of all blocks; the count of blocks.
        launch.chain = 3 + 2 * m_s.top_k;
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
    case DecodeKernel::product_onto:
        return "product_onto";
    case DecodeKernel::norm_gate_up:
        return "norm_gate_up";
    case DecodeKernel::head:
        return "head";
    case DecodeKernel::attention_rows:
        return "attention_rows";
    case DecodeKernel::block_product:
        return "block_product";
    case DecodeKernel::row_answers:
        return "row_answers";
    case DecodeKernel::rows_embed:
        return "rows_embed";
    case DecodeKernel::rows_norm:
        return "rows_norm";
    case DecodeKernel::rows_product:
        return "rows_product";
    case DecodeKernel::rows_product_f32:
        return "rows_product_f32";
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

std::vector<PlannedLaunch> plan_step(const DecodeShape& s) {
    RL_ASSERT(s.hidden > 0 && s.ffn > 0 && s.layers > 0 && s.kv_heads > 0 && s.head_dim > 0 && s.vocab > 0);
    RL_ASSERT(s.heads > 0 && s.heads % s.kv_heads == 0 && s.heads / s.kv_heads <= most_group);
    RL_ASSERT(s.head_dim <= most_head_dim);
    const auto fits = [&s](MatrixForm form) {
        return form == MatrixForm::numbers ||
               (s.type == WeightType::bf16 && s.hidden % block_width == 0 && s.ffn % block_width == 0);
    };
    RL_ASSERT(fits(s.form) && fits(s.embedding_form) && fits(s.head_form));
    RL_ASSERT(s.attends.empty() || static_cast<int64_t>(s.attends.size()) == s.layers);
    RL_ASSERT(s.has_mlp.empty() || static_cast<int64_t>(s.has_mlp.size()) == s.layers);
    RL_ASSERT(s.context >= 0 && s.context < s.capacity && s.rows >= 1 && s.rows <= 1024);
    RL_ASSERT(s.taps >= 0 && s.taps <= s.layers);
    RL_ASSERT(s.windows.empty() || static_cast<int64_t>(s.windows.size()) == s.layers);
    return Planner(s).all();
}

} // namespace refreshlab::kernels::decode
