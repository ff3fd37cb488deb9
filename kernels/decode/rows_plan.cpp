#include "kernels/decode/rows_plan.h"

#include "kernels/decode/device_cache_work.h"
#include "kernels/decode/expert_shapes.h"
#include "kernels/shared/check.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace refreshlab::kernels::decode {

namespace {

using Logits = PassShape::Logits;

/// A pass under way: what is added stands behind what was added before.
class PassPlanner {
public:
    PassPlanner(const DecodeShape& model, const PassShape& pass)
        : m_s(model)
        , m_p(pass)
        , m_element(bytes_of(model.type)) {}

    std::vector<PlannedLaunch> all() {
        embedding();
        for (int64_t l = 0; l < m_s.layers; ++l)
            if (!layer(l)) return std::move(m_launches);
        const int64_t rows = m_p.logits == Logits::last ? 1 : m_p.rows;
        norm(-1, rows);
        product("head", -1, rows, m_s.vocab, m_s.hidden, false, Then::store, m_s.head_form);
        return std::move(m_launches);
    }

private:
    enum class Then : uint8_t { store, onto, gated };

    PlannedLaunch& add(DecodeKernel kernel, const char* part, int64_t layer, const LaunchShape& shape) {
        PlannedLaunch launch;
        launch.kernel = kernel;
        launch.part = part;
        launch.layer = layer;
        launch.shape = shape;
        launch.busy_blocks = int64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
        launch.dependent = m_s.dependent && !m_launches.empty();
        return m_launches.emplace_back(launch);
    }

    void embedding() {
        PlannedLaunch& launch = add(DecodeKernel::rows_embed, "embedding", -1, rows::embed(m_p.rows));
        const int64_t row_bytes =
            matrix_bytes(m_s.type, m_s.embedding_form, block_rows, m_s.hidden) / block_rows;
        launch.form = m_s.embedding_form;
        launch.traffic.small_weights = m_p.rows * row_bytes;
        launch.traffic.activations_written = m_p.rows * m_s.hidden * 4;
        launch.elements = m_p.rows * m_s.hidden;
        launch.bytes_in_flight = row_bytes;
        launch.chain = 1; // the token's id
    }

    /// false: the pass ends with this layer's keys and values.
    bool layer(int64_t l) {
        const int64_t q = m_s.heads * m_s.head_dim, kv = m_s.kv_heads * m_s.head_dim;
        const bool last = l + 1 == m_s.layers, ends = last && m_p.logits == Logits::none;
        const bool with_q = !ends && (m_s.attends.empty() || m_s.attends[static_cast<size_t>(l)]);
        norm(l, m_p.rows);
        // Of keys and values alone, too; norms over all heads are made of whole sums.
        const int64_t qkv_parts = m_s.qk_norm_whole ? 1 : parts_of(m_s.hidden, q + 2 * kv);
        product(with_q ? "q|k|v" : "k|v", l, m_p.rows, (with_q ? q : 0) + 2 * kv, m_s.hidden, m_s.qkv_bias,
                Then::store, m_s.form, qkv_parts);
        if (m_s.qk_norm_whole) m_launches.push_back(plan_qk_norms(m_s, l, m_p.rows, with_q));
        append(l, with_q ? m_s.heads : 0, qkv_parts);
        if (ends) return false;
        const int64_t rows = last && m_p.logits == Logits::last ? 1 : m_p.rows;
        if (with_q) {
            attention(l, m_p.first + m_p.rows - rows, rows);
            product("o", l, rows, m_s.hidden, q, m_s.output_bias, Then::onto, m_s.form,
                    parts_of(q, m_s.hidden));
        }
        if (!m_s.has_mlp.empty() && !m_s.has_mlp[static_cast<size_t>(l)]) return true;
        norm(l, rows);
        if (m_s.routes(l)) {
            experts(l, rows);
            return true;
        }
        product("gate|up", l, rows, m_s.ffn, m_s.hidden, m_s.mlp_bias, Then::gated, m_s.form);
        product("down", l, rows, m_s.hidden, m_s.ffn, m_s.mlp_bias, Then::onto, m_s.form,
                parts_of(m_s.ffn, m_s.hidden));
        return true;
    }

    void norm(int64_t l, int64_t rows) {
        PlannedLaunch& launch = add(DecodeKernel::rows_norm, "norm", l, rows::norm(rows));
        const int64_t row_bytes = m_s.hidden * 4;
        if (m_s.pre_norms || l < 0) launch.traffic.small_weights = m_s.hidden * m_element;
        launch.traffic.activations =
            rows * (row_bytes + m_s.hidden * m_element); // again from the first cache
        launch.traffic.activations_written = rows * m_s.hidden * m_element;
        launch.multiply_adds = rows * m_s.hidden * 3;
        if (m_onto.parts > 0) { // joins x, which is written for whoever adds to it next
            launch.traffic.activations += (m_onto.normed ? 2 : 1) * m_onto.parts * rows * row_bytes;
            launch.traffic.activations_written += rows * row_bytes;
            if (m_onto.bias && m_onto.parts > 1) launch.traffic.small_weights += m_s.hidden * m_element;
            if (m_onto.normed) launch.traffic.small_weights += m_s.hidden * m_element;
            m_onto = {};
        }
        launch.bytes_in_flight = m_s.hidden * m_element;
        launch.reads_early = true;
        launch.chain = 1; // the row
    }

    /// \param parts  of its inputs
    void product(const char* part, int64_t l, int64_t rows, int64_t outputs, int64_t inputs, bool bias,
                 Then then, MatrixForm matrix, int64_t parts = 1) {
        const bool gated = then == Then::gated;
        PlannedLaunch& launch = m_s.type == WeightType::f32
                                    ? product_f32(part, l, rows, outputs, inputs, gated)
                                    : tensor_product(part, l, rows, outputs, inputs, gated, matrix, parts);
        LaunchTraffic& t = launch.traffic;
        const int64_t groups = launch.shape.grid[0], matrices = gated ? 2 : 1;
        t.matrices = matrices * matrix_bytes(m_s.type, matrix, outputs, inputs);
        t.again = (groups - 1) * t.matrices;
        if (bias && parts == 1) t.small_weights = matrices * outputs * m_element;
        t.activations = rows * inputs * m_element * launch.shape.grid[1]; // every block takes its group's
        t.activations_written = parts * rows * outputs * (gated ? m_element : 4);
        launch.chain = 1; // the rows
        if (then == Then::onto && parts == 1 && !m_s.branch_norms) {
            t.activations += rows * outputs * 4; // the residual that it is added to
            ++launch.chain;
        }
        if (then == Then::onto && (parts > 1 || m_s.branch_norms)) m_onto = {parts, bias, m_s.branch_norms};
    }

    PlannedLaunch& tensor_product(const char* part, int64_t l, int64_t rows, int64_t outputs, int64_t inputs,
                                  bool gated, MatrixForm matrix, int64_t parts) {
        const rows::ProductForm form = rows::product_form(matrix, rows, outputs, gated, parts);
        PlannedLaunch& launch =
            add(form.wide() ? DecodeKernel::rows_product_wide : DecodeKernel::rows_product, part, l,
                rows::product(form));
        const int64_t whole = form.row_tiles * 8, stages = rows::blocks_for(inputs, rows::stage_inputs);
        // Tiles of 8 rows that have none are left out, in a last group.
        const int64_t row_tiles = (rows / whole) * form.row_tiles + rows::blocks_for(rows % whole, 8);
        const int64_t pair_tiles = form.blocks * form.pairs * form.tiles; // of 16 outputs
        launch.tensor_multiply_adds = pair_tiles * 16 * row_tiles * 8 * stages * rows::stage_inputs;
        const int64_t of_tile = rows::tile_stage_bytes(matrix);
        const int64_t read = form.groups * pair_tiles * of_tile +
                             form.blocks * form.pairs * row_tiles * 8 * rows::stage_row_bytes;
        const int64_t brought =
            form.groups * form.blocks * rows::stage_bytes(matrix, form.tiles, form.row_tiles, form.pairs);
        launch.shared_bytes_read = (read + brought) * stages;
        launch.bytes_in_flight =
            std::min(form.stages - 1, rows::part_stages(inputs, parts)) * form.tiles * form.pairs * of_tile;
        if (matrix != MatrixForm::numbers)
            launch.elements = form.groups * pair_tiles * 16 * stages * rows::stage_inputs;
        launch.form = matrix;
        launch.reads_early = true;
        launch.outer_instance = form.tiles;
        launch.instance = form.row_tiles;
        return launch;
    }

    PlannedLaunch& product_f32(const char* part, int64_t l, int64_t rows, int64_t outputs, int64_t inputs,
                               bool gated) {
        const int64_t matrices = gated ? 2 : 1, of_thread = rows::f32_rows(rows);
        PlannedLaunch& launch =
            add(DecodeKernel::rows_product_f32, part, l, rows::product_f32(rows, outputs, matrices));
        const int64_t blocks = launch.busy_blocks;
        launch.multiply_adds = blocks * matrices * rows::f32_outputs * 16 * of_thread * inputs;
        launch.shared_bytes_read = launch.multiply_adds * 4 / of_thread; // a weight serves a thread's rows
        launch.bytes_in_flight = matrices * rows::f32_outputs * rows::f32_inputs * 4;
        launch.outer_instance = matrices;
        launch.instance = of_thread;
        return launch;
    }

    void experts(int64_t l, int64_t rows) {
        const ExpertShape& e = m_s.experts;
        if (m_s.type == WeightType::f32) {
            std::ranges::copy(plan_experts(m_s, l, rows), std::back_inserter(m_launches));
            if (m_s.branch_norms) m_onto = {1, false, true};
            return;
        }
        m_launches.push_back(plan_router(m_s, l, rows));
        const auto add_expert = [&](DecodeKernel kernel, const char* part, int64_t outputs, int64_t inputs,
                                    int64_t matrices, int64_t per_block) -> LaunchTraffic& {
            PlannedLaunch& launch = add(kernel, part, l, expert_rows(e.count, outputs, per_block));
            // As many experts as so many rows can be sent to; each has one tile of 16 rows at least.
            const int64_t busy = std::min(e.count, rows * e.used), of_expert = outputs * inputs * matrices;
            const int64_t tiles = busy * rows::blocks_for(rows::blocks_for(rows * e.used, busy), 16);
            launch.busy_blocks = busy * launch.shape.grid[1];
            LaunchTraffic& t = launch.traffic;
            t.matrices = busy * matrices * matrix_bytes(m_s.type, m_s.form, outputs, inputs);
            launch.form = m_s.form;
            if (m_s.form != MatrixForm::numbers) launch.elements = tiles * of_expert;
            t.activations = rows * e.used * launch.shape.grid[1] * (inputs * m_element + 8);
            launch.tensor_multiply_adds = tiles * 16 * of_expert;
            launch.bytes_in_flight = expert_rows_warps * 32 * 8 * 16; // eight vectors of each lane
            launch.chain = 3; // the choices; where the matrices are; the rows
            return t;
        };
        add_expert(DecodeKernel::expert_rows_gate_up, "gate|up", e.width, m_s.hidden, 2,
                   expert_gate_up_outputs)
            .activations_written = rows * e.used * e.width * m_element;
        add_expert(DecodeKernel::expert_rows_down, "down", m_s.hidden, e.width, 1, expert_down_outputs)
            .activations_written = rows * e.used * m_s.hidden * 4;
        m_onto = {e.used, false, m_s.branch_norms};
    }

    /// \param parts  of q, k and v
    void append(int64_t l, int64_t heads, int64_t parts) {
        const int64_t all = heads + 2 * m_s.kv_heads;
        PlannedLaunch& launch = add(DecodeKernel::rows_append, "append", l, rows::append(m_p.rows, all));
        LaunchTraffic& t = launch.traffic;
        const bool norms = m_s.qk_norm && !m_s.qk_norm_whole;
        t.small_weights = m_p.rows * m_s.head_dim * 4 + (norms ? 2 * m_s.head_dim * m_element : 0);
        if (parts > 1 && m_s.qkv_bias) t.small_weights += all * m_s.head_dim * m_element;
        t.activations = parts * m_p.rows * all * m_s.head_dim * 4 +
                        m_p.rows * (heads + m_s.kv_heads - 1) * m_s.head_dim * 4; // rotations of each head
        t.activations_written = m_p.rows * heads * m_s.head_dim * 4;
        t.cache_written = m_p.rows * 2 * m_s.kv_heads * m_s.head_dim * m_element;
        launch.multiply_adds = m_p.rows * all * m_s.head_dim * 2;
        launch.bytes_in_flight = rows::append_warps * m_s.head_dim * 4;
        launch.reads_early = !norms && !(parts > 1 && m_s.qkv_bias);
        launch.chain = 1; // q | k | v
    }

    void attention(int64_t l, int64_t first, int64_t rows) {
        const int64_t window = m_s.windows.empty() ? 0 : m_s.windows[static_cast<size_t>(l)];
        const int64_t at_once = rows::attention_rows_at_once(first, rows, window, m_s.capacity);
        for (int64_t done = 0; done < rows; done += at_once)
            attention_turn(l, first + done, std::min(at_once, rows - done), window, done == 0);
    }

    /// \param cold  these columns are read for the first time
    void attention_turn(int64_t l, int64_t first, int64_t rows, int64_t window, bool cold) {
        const int64_t group = m_s.heads / m_s.kv_heads, dim = m_s.head_dim;
        const rows::AttentionForm form = rows::attention_form(m_s.type, group, dim);
        const rows::AttentionSplits splits = rows::attention_splits_of(first, rows, window);
        const bool f32 = m_s.type == WeightType::f32;
        PlannedLaunch& launch =
            add(f32 ? DecodeKernel::rows_attention_f32 : DecodeKernel::rows_attention, "attention", l,
                rows::attention(m_s.type, form, m_s.kv_heads, dim, rows, splits.count));
        // Of one KV head: what its blocks bring, multiply and leave.
        int64_t busy = 0, columns = 0, tiles = 0, products = 0, row_splits = 0;
        for (int64_t row = 0; row < rows; row += form.tile_rows) {
            const int64_t of_tile = std::min(form.tile_rows, rows - row);
            const int64_t begin = rows::sight(first + row, window).begin, end = first + row + of_tile;
            const int64_t working = rows::blocks_for(of_tile * group, form.warp_queries); // warps
            for (int64_t s = begin / rows::attention_split; s * rows::attention_split < end; ++s) {
                const int64_t from = std::max(begin, s * rows::attention_split);
                const int64_t to = std::min(end, (s + 1) * rows::attention_split);
                const int64_t blocks = rows::blocks_for(to, rows::attention_columns) -
                                       from / rows::attention_columns; // of 32 columns
                ++busy;
                columns += to - from;
                tiles += blocks;
                products += working * blocks;
                row_splits += of_tile;
            }
        }
        const int64_t kv = m_s.kv_heads, column = 2 * dim * m_element;
        LaunchTraffic& t = launch.traffic;
        const int64_t old = std::max<int64_t>(m_p.first - rows::sight(first, window).begin, 0);
        t.cache = cold ? kv * old * column : 0; // of the others this pass has just written
        t.again = kv * columns * column - t.cache;
        t.activations = kv * row_splits * group * dim * 4;
        t.activations_written =
            splits.count > 1 ? kv * row_splits * group * (dim + 4) * 4 : rows * m_s.heads * dim * m_element;
        launch.busy_blocks = busy * kv;
        const int64_t of_warp = kv * products * form.warp_queries * rows::attention_columns * dim;
        const int64_t brought = kv * tiles * rows::attention_columns * column;
        if (f32) {
            launch.multiply_adds = 2 * of_warp;
            launch.shared_bytes_read = 2 * of_warp * 4 / form.warp_queries + brought;
        } else {
            launch.tensor_multiply_adds = 4 * of_warp; // q k and p v, each of two parts
            // A warp reads keys and values of 32 columns, and the two parts of its 16 queries.
            launch.shared_bytes_read =
                kv * products * (rows::attention_columns + form.warp_queries) * column + brought;
        }
        launch.bytes_in_flight = std::max<int64_t>(form.stages - 1, 1) * rows::attention_columns * column;
        launch.chain = 1; // queries
        launch.outer_instance = f32 ? 0 : form.channel_tiles;
        launch.instance = f32 ? form.quads : form.stages;
        if (splits.count > 1) merge(l, rows, row_splits * m_s.heads);
    }

    /// \param parts  of rows, heads and splits
    void merge(int64_t l, int64_t rows, int64_t parts) {
        PlannedLaunch& launch =
            add(DecodeKernel::rows_attention_merge, "merge", l, rows::attention_merge(m_s.heads, rows));
        launch.traffic.activations = parts * (m_s.head_dim + 6) * 4; // the maximum twice
        launch.traffic.activations_written = rows * m_s.heads * m_s.head_dim * m_element;
        launch.multiply_adds = parts * m_s.head_dim;
        launch.chain = 2; // maxima, then the parts
        launch.instance = rows::attention_quads(m_s.head_dim);
    }

    [[nodiscard]] int64_t parts_of(int64_t inputs, int64_t outputs) const {
        return rows::product_parts(m_s.type, inputs, outputs);
    }

    const DecodeShape& m_s;
    const PassShape& m_p;
    /// What the norm that comes next adds to x.
    struct Onto {
        int64_t parts = 0;
        bool bias = false, normed = false;
    } m_onto;
    int64_t m_element;
    std::vector<PlannedLaunch> m_launches;
};

} // namespace

std::vector<PlannedLaunch> plan_pass(const DecodeShape& s, const PassShape& p) {
    RL_ASSERT(s.hidden > 0 && s.ffn > 0 && s.layers > 0 && s.kv_heads > 0 && s.head_dim > 0 && s.vocab > 0);
    RL_ASSERT(s.heads > 0 && s.heads % s.kv_heads == 0 && s.heads / s.kv_heads <= most_group);
    RL_ASSERT(s.head_dim <= most_head_dim && s.head_dim % 16 == 0 && (s.qk_norm || !s.qk_norm_whole));
    require_experts(s);
    RL_ASSERT(s.has_mlp.empty() || static_cast<int64_t>(s.has_mlp.size()) == s.layers);
    RL_ASSERT(s.windows.empty() || static_cast<int64_t>(s.windows.size()) == s.layers);
    RL_ASSERT(p.rows >= 1 && p.first >= 0 && p.first + p.rows <= s.capacity);
    return PassPlanner(s, p).all();
}

std::vector<PlannedLaunch> plan_splice(const DecodeShape& s, int64_t n) {
    std::vector<PlannedLaunch> launches;
    const auto columns_of = [&](int64_t some) {
        return 2 * s.layers * s.kv_heads * some * s.head_dim * bytes_of(s.type);
    };
    const auto add = [&](const char* part, int64_t some) -> LaunchTraffic& {
        PlannedLaunch& launch = launches.emplace_back();
        launch.kernel = DecodeKernel::splice;
        launch.part = part;
        launch.shape = rows::splice(s.type, s.layers, s.head_dim, some);
        launch.busy_blocks = int64_t{launch.shape.grid[0]} * launch.shape.grid[1] * launch.shape.grid[2];
        // Four heads at a time, of both caches.
        launch.bytes_in_flight = rows::splice_threads * 16 * 2 * std::min<int64_t>(4, s.kv_heads);
        return launch.traffic;
    };
    LaunchTraffic& drift = add("drift", n);
    drift.cache = 2 * columns_of(n); // the student's and the teacher's
    drift.activations_written = s.layers * n * 6 * 4;
    launches.back().multiply_adds = 2 * s.layers * s.kv_heads * n * s.head_dim * 3;
    for (int64_t done = 0; done < n; done += most_spliced_columns) {
        const int64_t some = std::min(most_spliced_columns, n - done);
        LaunchTraffic& splice = add("splice", some);
        splice.again = 2 * columns_of(some);
        splice.cache_written = 2 * columns_of(some); // the student's, and what stood there
    }
    return launches;
}

} // namespace refreshlab::kernels::decode
