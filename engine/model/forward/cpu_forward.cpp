#include "engine/model/forward/cpu_forward.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/hook_calls.h"
#include "engine/model/forward/mc_rows.h"
#include "engine/model/forward/routed_rows.h"
#include "engine/model/llama_model.h"
#include "kernels/blocks/blocks.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/cpu/row_products.h"
#include "kernels/execution/isa.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab {

namespace cpu = kernels::cpu;
using cpu::RowMatrix;

namespace {

/// What a norm multiplies by, in fp32; empty where the family has none.
struct Norm {
    at::Tensor weight;
    Norm(const at::Tensor& stored, double offset)
        : weight(stored.defined() ? stored.to(at::kFloat).contiguous() : at::Tensor()) {
        if (stored.defined() && offset != 0) weight = weight + offset;
    }
    [[nodiscard]] bool defined() const { return weight.defined(); }
    [[nodiscard]] int64_t width() const { return weight.size(0); }
    [[nodiscard]] const float* data() const { return weight.const_data_ptr<float>(); }
};

struct ExpertPlan {
    RowMatrix gate, up, down;
    explicit ExpertPlan(const ExpertWeights& w)
        : gate(w.gate, {})
        , up(w.up, {})
        , down(w.down, {}) {}
};

struct LayerPlan {
    Norm input_norm, post_norm, q_norm, k_norm, o_norm, down_norm;
    RowMatrix q, k, v, o, gate, up, down, router;
    std::vector<ExpertPlan> experts;
    bool attends, has_mlp;

    LayerPlan(const LlamaLayer& w, double offset)
        : input_norm(w.input_norm, offset)
        , post_norm(w.post_norm, offset)
        , q_norm(w.q_norm, offset)
        , k_norm(w.k_norm, offset)
        , o_norm(w.o_norm, offset)
        , down_norm(w.down_norm, offset)
        , k(w.k, w.k_bias)
        , v(w.v, w.v_bias)
        , attends(w.attends)
        , has_mlp(w.has_mlp) {
        if (attends) {
            q = RowMatrix(w.q, w.q_bias);
            o = RowMatrix(w.o, w.o_bias);
        }
        if (has_mlp && w.router.defined()) {
            router = RowMatrix(w.router, {});
            for (const ExpertWeights& expert : w.experts)
                experts.emplace_back(expert);
        } else if (has_mlp) {
            gate = RowMatrix(w.gate, w.gate_bias);
            up = RowMatrix(w.up, w.up_bias);
            down = RowMatrix(w.down, w.down_bias);
        }
    }
};

at::Tensor floats(at::IntArrayRef shape) {
    return at::empty(shape, at::TensorOptions().dtype(at::kFloat));
}

} // namespace

/// What a step of some rows works in. Rows of one cache are a lane: the row of the token, and after it the MC rows. Steps that are made together
/// have a lane each. Tensors, so that hooks are shown them as they are.
struct CpuForward::Buffers {
    at::Tensor x, branch;    ///< [rows, held hidden width]: the residual, and what is added to it
    at::Tensor q, attended;  ///< [rows, heads, head_dim]
    at::Tensor k, v;         ///< [rows, kv_heads, head_dim]
    at::Tensor own_k, own_v; ///< the same in the cache's dtype; with MC rows
    at::Tensor gate, up;     ///< [rows, held intermediate width]
    at::Tensor unnormed;     ///< [rows, held hidden width]: a branch before its norm
    cpu::RowInput h, attended_row, inner; ///< what products read
    /// Of a routed MLP, row by row.
    struct Expert {
        at::Tensor logits;         ///< [rows, experts]
        cpu::RowInput h, inner;    ///< of one row
        at::Tensor gate, up, down; ///< of one row
    };
    std::optional<Expert> expert;
    /// Of a lane.
    struct Lane {
        at::Tensor x, h, q, raw_q, k, v;           ///< what hooks are shown: the token's row alone
        at::Tensor all_q, attended, branch, inner; ///< all rows
    };
    std::vector<Lane> lanes;
    std::vector<RowPlace> places;
    std::vector<int64_t> num_visible, first_visible;
    ChosenEntries chosen;

    Buffers(const LlamaModel& model, int64_t rows, int64_t num_lanes)
        : Buffers(model.config(), rows, num_lanes, LlamaWeights::held_width(model.config().hidden_size),
                  LlamaWeights::held_width(model.config().intermediate_size)) {
        const bool rounded = model.dtype() != at::kFloat;
        const ModelConfig& c = model.config();
        if (c.branch_norms) unnormed = at::empty_like(x);
        if (c.experts.count > 0) {
            const int64_t width = LlamaWeights::held_width(c.experts.width);
            expert.emplace(Expert{floats({rows, c.experts.count}),
                                  {1, x.size(1)},
                                  {1, width},
                                  floats({width}),
                                  floats({width}),
                                  floats({x.size(1)})});
        }
        own_k = rounded ? at::empty_like(k, at::TensorOptions().dtype(model.dtype())) : k;
        own_v = rounded ? at::empty_like(v, at::TensorOptions().dtype(model.dtype())) : v;
    }
    [[nodiscard]] int64_t rows() const { return h.rows(); }

private:
    Buffers(const ModelConfig& c, int64_t rows, int64_t num_lanes, int64_t hidden, int64_t inner_width)
        : x(floats({rows, hidden}))
        , branch(floats({rows, hidden}))
        , q(floats({rows, c.num_heads, c.head_dim}))
        , k(floats({rows, c.num_kv_heads, c.head_dim}))
        , v(floats({rows, c.num_kv_heads, c.head_dim}))
        , gate(floats({rows, inner_width}))
        , up(floats({rows, inner_width}))
        , h(rows, hidden)
        , attended_row(rows, c.num_heads * c.head_dim)
        , inner(rows, inner_width)
        , places(static_cast<size_t>(rows))
        , num_visible(static_cast<size_t>(rows))
        , first_visible(static_cast<size_t>(rows)) {
        attended = attended_row.tensor().view({rows, c.num_heads, c.head_dim});
        const int64_t each = rows / num_lanes;
        for (int64_t row = 0; row < rows; row += each) {
            const auto first = [row](const at::Tensor& t) { return t.narrow(0, row, 1); };
            const auto all = [row, each](const at::Tensor& t) { return t.narrow(0, row, each); };
            lanes.push_back({first(x), first(h.tensor()), first(q), floats({1, c.num_heads, c.head_dim}),
                             first(k), first(v), all(q), all(attended), all(branch), all(inner.tensor())});
        }
    }
};

struct CpuForward::Plan {
    const LlamaModel& model;
    std::vector<LayerPlan> layers;
    Norm final_norm;
    RowMatrix head;
    /// Sessions on several threads share the model: a step takes a set of buffers and gives it back.
    std::mutex mutex;
    std::vector<std::unique_ptr<Buffers>> free;

    explicit Plan(const LlamaModel& of)
        : model(of)
        , final_norm(of.weights().final_norm, of.config().norm_offset)
        , head(of.weights().head, {}) {
        for (const LlamaLayer& layer : of.weights().layers)
            layers.emplace_back(layer, of.config().norm_offset);
    }
    [[nodiscard]] std::unique_ptr<Buffers> take(int64_t rows, int64_t lanes) {
        {
            const std::lock_guard lock(mutex);
            const auto found =
                std::ranges::find_if(free, [rows, lanes](const std::unique_ptr<Buffers>& buffers) {
                    return buffers->rows() == rows && std::ssize(buffers->lanes) == lanes;
                });
            if (found != free.end()) {
                auto buffers = std::move(*found);
                free.erase(found);
                return buffers;
            }
        }
        return std::make_unique<Buffers>(model, rows, lanes);
    }
    void give_back(std::unique_ptr<Buffers> buffers) {
        const std::lock_guard lock(mutex);
        free.push_back(std::move(buffers));
    }
};

/// Buffers of the plan, for as long as a step takes.
class CpuForward::Buffered {
public:
    Buffered(Plan& plan, int64_t rows, int64_t lanes)
        : m_plan(plan)
        , m_buffers(plan.take(rows, lanes)) {}
    Buffered(const Buffered&) = delete;
    Buffered& operator=(const Buffered&) = delete;
    ~Buffered() { m_plan.give_back(std::move(m_buffers)); }
    [[nodiscard]] Buffers& operator*() const { return *m_buffers; }

private:
    Plan& m_plan;
    std::unique_ptr<Buffers> m_buffers;
};

/// Tokens through all layers, each over a cache of its own (a lane), or one token and its MC rows with it; with the calls of PlainForward's layer
/// loop to hooks, lane after lane. What multiplies by weights is done for all rows at once.
class CpuForward::Step {
public:
    struct Lane {
        KvCache& cache;
        const StepInputs& in;
        HookCalls hooks;  ///< those of `in`, and the dropout of the MC rows
        int64_t position; ///< the cache's length
        std::array<std::pair<at::Tensor, at::Tensor>, 3> rotations =
            {};              ///< cos and sin of the token, by Rope
        LayerTaps taps = {}; ///< of the layer

        Lane(KvCache& of, const StepInputs& inputs, std::span<LayerHooks* const> all_hooks)
            : cache(of)
            , in(inputs)
            , hooks(all_hooks)
            , position(of.length()) {}
    };

    /// \param lanes  as many as the buffers have (asserted)
    Step(const Plan& plan, Buffers& buffers, std::span<Lane> lanes)
        : m_plan(plan)
        , m_model(plan.model)
        , m_config(plan.model.config())
        , m_table(cpu::kernels())
        , m(buffers)
        , m_rows(buffers.rows())
        , m_lanes(lanes)
        , m_each(m_rows / std::ssize(lanes))
        , m_hidden(buffers.x.size(1))
        , m_x(buffers.x.mutable_data_ptr<float>()) {
        RL_ASSERT(lanes.size() == buffers.lanes.size());
        for (const Lane& lane : lanes)
            m_hooked = m_hooked || !lane.hooks.empty();
    }

    /// \return of each lane
    std::vector<StepOutputs> run() {
        for (size_t l = 0; l < m_lanes.size(); ++l) {
            place(l);
            embed(l);
        }
        for (int64_t layer = 0; layer < m_config.num_layers; ++layer)
            run_layer(layer);
        for (size_t l = 0; l < m_lanes.size(); ++l)
            m_lanes[l].hooks.finish(m.lanes[l].x);
        return read_head();
    }

private:
    [[nodiscard]] bool with_mc() const { return m_each > 1; }
    /// The lane's part of what has an item for every row.
    template <typename T>
    [[nodiscard]] std::span<T> part(std::vector<T>& of_rows, size_t lane) const {
        return std::span(of_rows).subspan(lane * static_cast<size_t>(m_each), static_cast<size_t>(m_each));
    }
    [[nodiscard]] int64_t first_row(size_t lane) const { return static_cast<int64_t>(lane) * m_each; }

    void place(size_t l) {
        Lane& lane = m_lanes[l];
        // Beside MC rows every row brings the column of its own position as its last key (plain_forward.cpp).
        const RowPlace place{lane.position, lane.position, with_mc() ? lane.position : lane.position + 1};
        const std::span<RowPlace> places = part(m.places, l);
        std::ranges::fill(places, place);
        lane.hooks.place(places);
        const std::span<int64_t> num_visible = part(m.num_visible, l);
        for (size_t r = 0; r < places.size(); ++r) {
            RL_ASSERT(places[r].rotated_as == places[0].rotated_as);
            num_visible[r] = places[r].num_visible;
        }
        for (const Rope rope : {Rope::global, Rope::local}) {
            if (rope == Rope::local && m_config.local_rope_theta == 0) continue;
            lane.rotations[static_cast<size_t>(rope)] =
                m_model.rope_rows(rope, lane.cache.context(), places[0].rotated_as, 1);
        }
    }

    void embed(size_t l) {
        const int32_t token = m_lanes[l].in.tokens[0];
        RL_ASSERT(token >= 0 && token < m_config.vocab_size);
        float* const x = m_x + first_row(l) * m_hidden;
        const at::Tensor& embedding = m_model.weights().embedding;
        if (kernels::is_blocks(embedding)) {
            const int64_t row = token;
            const at::Tensor values = kernels::block_values(embedding, std::span(&row, 1));
            std::copy_n(values.const_data_ptr<float>(), m_hidden, x);
        } else {
            cpu::Conversion c;
            c.from = cpu::element(embedding, token * embedding.stride(0));
            c.from_type = cpu::element_type(embedding);
            c.to = x;
            c.rows = 1;
            c.width = m_hidden;
            cpu::convert_rows(c);
        }
        if (m_config.embedding_scale != 1) {
            for (int64_t i = 0; i < m_hidden; ++i)
                x[i] *= static_cast<float>(m_config.embedding_scale);
        }
        for (int64_t r = 1; r < m_each; ++r)
            std::copy_n(x, m_hidden, x + r * m_hidden);
    }

    /// Norm of rows of the residual's width; padded channels do not count in the mean.
    void normalise(const Norm& norm, const float* from, float* to) const {
        for (int64_t r = 0; r < m_rows; ++r) {
            m_table.rms_norm(from + r * m_hidden, norm.data(), m_hidden,
                             static_cast<double>(m_config.hidden_size), m_config.rms_norm_eps,
                             to + r * m_hidden);
        }
    }
    /// h = norm of the residual, or the residual where the family has none.
    void read_residual(const Norm& norm) {
        if (norm.defined()) return normalise(norm, m_x, m.h.data());
        std::copy_n(m_x, m_rows * m_hidden, m.h.data());
    }
    void normalise_heads(const Norm& norm, const at::Tensor& heads) {
        if (!norm.defined()) return;
        float* const data = heads.mutable_data_ptr<float>();
        const int64_t width = norm.width(); // of a head, or of all of them
        m_head.resize(static_cast<size_t>(width));
        for (int64_t i = 0; i < heads.numel(); i += width) {
            m_table.rms_norm(data + i, norm.data(), width, static_cast<double>(width), m_config.rms_norm_eps,
                             m_head.data());
            std::ranges::copy(m_head, data + i);
        }
    }
    /// \param heads  [all rows, heads, head_dim]
    void rotate(const at::Tensor& heads, Rope rope) const {
        if (rope == Rope::still) return;
        float* data = heads.mutable_data_ptr<float>();
        const int64_t of_lane = heads.numel() / std::ssize(m_lanes);
        for (const Lane& lane : m_lanes) {
            const auto& [cos, sin] = lane.rotations[static_cast<size_t>(rope)];
            const auto *const c = cos.const_data_ptr<float>(), *const s = sin.const_data_ptr<float>();
            for (int64_t i = 0; i < of_lane; i += m_config.head_dim)
                m_table.rope(data + i, c, s, m_config.rotary() / 2);
            data += of_lane;
        }
    }

    void run_layer(int64_t layer) {
        const LayerPlan& w = m_plan.layers[static_cast<size_t>(layer)];
        for (Lane& lane : m_lanes)
            lane.taps = lane.hooks.taps(layer);
        read_residual(w.input_norm);
        project(layer, w);
        if (with_mc()) round_own_columns();
        for (size_t l = 0; l < m_lanes.size(); ++l) {
            Lane& lane = m_lanes[l];
            const Buffers::Lane& rows = m.lanes[l];
            lane.cache.write(layer, rows.k, rows.v);
            LayerView view;
            if (!lane.hooks.empty()) {
                view.layer = layer;
                view.cache = &lane.cache;
                view.positions = std::span(&lane.position, 1);
                view.residual = rows.x;
                view.input = rows.h;
                view.k = rows.k;
                view.v = rows.v;
                if (w.attends) view.q = rows.q;
                if (w.attends && lane.taps.raw_queries) view.raw_q = rows.raw_q;
            }
            if (w.attends) read_cache(layer, l, view);
            view.left_out = !w.attends;
            lane.hooks.observe(view);
        }
        if (w.attends) {
            m.attended_row.prepare({&w.o});
            add(layer, Branch::attention_output, m.attended_row, w.o, w.o_norm);
        }
        if (w.has_mlp) run_mlp(layer, w);
    }

    /// q, k and v of the layer's input, rotated.
    void project(int64_t layer, const LayerPlan& w) {
        const Rope rope = m_config.rope(layer);
        const std::array<cpu::RowProduct, 3> products{{{&w.k, m.k.mutable_data_ptr<float>()},
                                                       {&w.v, m.v.mutable_data_ptr<float>()},
                                                       {&w.q, m.q.mutable_data_ptr<float>()}}};
        m.h.prepare({&w.k, &w.v, &w.q});
        cpu::multiply(m.h, std::span(products).first(w.attends ? 3 : 2));
        normalise_heads(w.k_norm, m.k);
        rotate(m.k, rope);
        if (!w.attends) return;
        normalise_heads(w.q_norm, m.q);
        if (m_config.query_scale != 1) {
            float* const q = m.q.mutable_data_ptr<float>();
            for (int64_t i = 0; i < m.q.numel(); ++i)
                q[i] *= static_cast<float>(m_config.query_scale);
        }
        for (size_t l = 0; l < m_lanes.size(); ++l)
            if (m_lanes[l].taps.raw_queries) m.lanes[l].raw_q.copy_(m.lanes[l].q);
        rotate(m.q, rope);
    }

    /// As a stored column is rounded, so that a row without dropout has the bits of a step without MC rows.
    void round_own_columns() const {
        if (m.own_k.is_same(m.k)) return;
        kernels::convert_into(m.own_k.view({-1}), m.k.view({-1}));
        kernels::convert_into(m.own_v.view({-1}), m.v.view({-1}));
    }

    /// Attention of a lane's rows into m.attended, and what hooks want to see of it.
    void read_cache(int64_t layer, size_t l, LayerView& view) {
        Lane& lane = m_lanes[l];
        const HeadPositions* chosen = lane.hooks.select(view); // may change what is held
        kernels::AttentionInputs in;
        in.q = m.lanes[l].all_q;
        in.out = m.lanes[l].attended;
        const LayerEntries entries = lane.cache.entries(layer);
        in.k_cache = entries.k;
        in.v_cache = entries.v;
        in.lists = chosen != nullptr ? m.chosen.lists(lane.cache, layer, *chosen) : entries.lists;
        in.num_visible = part(m.num_visible, l);
        const int64_t window = m_config.window(layer);
        if (window > 0) {
            const std::span<int64_t> first_visible = part(m.first_visible, l);
            std::ranges::fill(first_visible, std::max<int64_t>(lane.position - window + 1, 0));
            in.first_visible = first_visible;
        }
        in.scale = 1.0 / std::sqrt(static_cast<double>(m_config.head_dim));
        in.soft_cap = m_config.attention_cap;
        if (with_mc()) {
            in.own_k = m.own_k;
            in.own_v = m.own_v;
        }
        lane.hooks.attend(layer, in);
        view.lists = in.lists;
        const LayerTaps& taps = lane.taps;
        const bool halved =
            taps.half_row.position == lane.position && in.lists.empty() &&
            in.num_visible[0] + (with_mc() ? 1 : 0) == lane.position + 1; // no fault shifts it
        if (halved) {
            in.halves = {taps.half_row.to, static_cast<size_t>(m_config.num_heads * taps.half_row.numbers())};
            in.bin = taps.half_row.bin();
            view.half_row = true;
        }
        const bool shown = taps.shown_from(halved) <= lane.position;
        if (!shown && !taps.sums.defined()) {
            (void)kernels::attention(in);
            return;
        }
        at::Tensor probabilities;
        (void)kernels::attention(in, &probabilities);
        if (taps.sums.defined()) taps.sums.narrow(1, 0, probabilities.size(2)).add_(probabilities[0]);
        if (shown) view.attention = with_mc() ? probabilities.narrow(0, 0, 1) : std::move(probabilities);
    }

    void run_mlp(int64_t layer, const LayerPlan& w) {
        read_residual(w.post_norm);
        if (!w.experts.empty()) return run_experts(layer, w);
        m.h.prepare({&w.gate, &w.up});
        cpu::multiply_gated(m_config.activation, m.h, w.gate, w.up, m.gate.mutable_data_ptr<float>(),
                            m.up.mutable_data_ptr<float>(), m.inner.data());
        for (size_t l = 0; l < m_lanes.size(); ++l)
            m_lanes[l].hooks.inner(layer, m.lanes[l].inner);
        m.inner.prepare({&w.down});
        add(layer, Branch::mlp_output, m.inner, w.down, w.down_norm);
    }

    /// Each row by the experts that it is sent to, in the order of plain_forward.cpp; MC rows may go to others.
    void run_experts(int64_t layer, const LayerPlan& w) {
        Buffers::Expert& e = *m.expert;
        float* const sums = before_norm(w.down_norm);
        float* const logits = e.logits.mutable_data_ptr<float>();
        m.h.prepare({&w.router});
        const std::array<cpu::RowProduct, 1> routing{{{&w.router, logits}}};
        cpu::multiply(m.h, routing);
        const int64_t count = m_config.experts.count;
        const float* const down = e.down.const_data_ptr<float>();
        for (int64_t r = 0; r < m_rows; ++r) {
            float* const sum = sums + r * m_hidden;
            std::fill_n(sum, m_hidden, 0.0F);
            std::copy_n(m.h.data() + r * m_hidden, m_hidden, e.h.data());
            for (const RoutedExpert& chosen :
                 experts_of_row(m_config.experts, {logits + r * count, static_cast<size_t>(count)})) {
                const ExpertPlan& expert = w.experts[static_cast<size_t>(chosen.expert)];
                e.h.prepare({&expert.gate, &expert.up});
                cpu::multiply_gated(m_config.activation, e.h, expert.gate, expert.up,
                                    e.gate.mutable_data_ptr<float>(), e.up.mutable_data_ptr<float>(),
                                    e.inner.data());
                e.inner.prepare({&expert.down});
                const std::array<cpu::RowProduct, 1> product{
                    {{&expert.down, e.down.mutable_data_ptr<float>()}}};
                cpu::multiply(e.inner, product);
                for (int64_t i = 0; i < m_hidden; ++i)
                    sum[i] += down[i] * chosen.share;
            }
        }
        add_branch(layer, Branch::mlp_output, w.down_norm);
    }

    /// Where a branch is made: its place in m.branch, or before its norm.
    [[nodiscard]] float* before_norm(const Norm& norm) const {
        return (norm.defined() ? m.unnormed : m.branch).mutable_data_ptr<float>();
    }
    /// A product as a branch onto the residual.
    void add(int64_t layer, Branch place, const cpu::RowInput& row, const RowMatrix& matrix,
             const Norm& norm) {
        float* const made = before_norm(norm);
        if (!m_hooked && !norm.defined()) return cpu::multiply_onto(row, matrix, made, m_x);
        const std::array<cpu::RowProduct, 1> product{{{&matrix, made}}};
        cpu::multiply(row, product);
        add_branch(layer, place, norm);
    }
    void add_branch(int64_t layer, Branch place, const Norm& norm) {
        if (norm.defined())
            normalise(norm, m.unnormed.const_data_ptr<float>(), m.branch.mutable_data_ptr<float>());
        for (size_t l = 0; l < m_lanes.size(); ++l) {
            at::Tensor rows = m.lanes[l].branch;
            m_lanes[l].hooks.branch(layer, place, rows);
            RL_ASSERT(rows.numel() == m_each * m_hidden && rows.is_contiguous());
            const float* const added = rows.const_data_ptr<float>();
            float* const x = m_x + first_row(l) * m_hidden;
            for (int64_t i = 0; i < m_each * m_hidden; ++i)
                x[i] += added[i];
        }
    }

    std::vector<StepOutputs> read_head() {
        read_residual(m_plan.final_norm);
        m.h.prepare({&m_plan.head});
        const at::Tensor rows = floats({m_rows, m_config.vocab_size});
        float* const logits = rows.mutable_data_ptr<float>();
        std::vector<StepOutputs> outs(m_lanes.size());
        const auto& only = m_lanes[0].in.ask;
        if (outs.size() == 1 && only && only->kl_rows.empty() && m_config.logit_cap == 0) {
            const int32_t token = only->tokens.empty() ? -1 : only->tokens[0];
            outs[0].summary.push_back(cpu::multiply_summarized(
                m.h, m_plan.head, logits, std::min(only->top_k, m_config.vocab_size), token));
        } else {
            const std::array<cpu::RowProduct, 1> product{{{&m_plan.head, logits}}};
            cpu::multiply(m.h, product);
            at::Tensor capped = rows;
            if (m_config.logit_cap > 0) kernels::soft_cap_(capped, m_config.logit_cap);
        }
        for (size_t l = 0; l < outs.size(); ++l) {
            const at::Tensor row = m_rows > 1 ? rows.narrow(0, first_row(l), 1) : rows;
            const StepInputs& in = m_lanes[l].in;
            if (in.ask && outs[l].summary.empty()) outs[l].summary = kernels::summarize_rows(row, *in.ask);
            if (gives_row(in, outs[l])) outs[l].logits = row;
        }
        if (with_mc()) outs[0].mc_logits = rows.narrow(0, 1, m_rows - 1);
        return outs;
    }

    const Plan& m_plan;
    const LlamaModel& m_model;
    const ModelConfig& m_config;
    const cpu::CpuKernels& m_table;
    Buffers& m;
    int64_t m_rows;
    std::span<Lane> m_lanes;
    int64_t m_each; ///< rows of a lane
    int64_t m_hidden;
    bool m_hooked = false;     ///< some lane has hooks
    float* m_x;                ///< the residual
    std::vector<float> m_head; ///< of normalise_heads()
};

CpuForward::CpuForward(const LlamaModel& model)
    : m_plain(model) {
    RL_ASSERT(model.device().is_cpu());
    const c10::InferenceMode guard;
    m_plan = std::make_unique<Plan>(model);
}

CpuForward::~CpuForward() = default;

StepOutputs CpuForward::prefill(KvCache& cache, const StepInputs& in) const {
    return m_plain.prefill(cache, in);
}

StepOutputs CpuForward::read_only(const KvCache& cache, int64_t position, const StepInputs& in) const {
    return m_plain.read_only(cache, position, in);
}

StepOutputs CpuForward::step(KvCache& cache, const StepInputs& in) const {
    if (kernels::isa() == kernels::Isa::reference) return m_plain.step(cache, in);
    const c10::InferenceMode guard;
    PlainForward::require_step(model(), cache, in);
    const Buffered buffers(*m_plan, 1 + in.mc.passes, 1);
    const auto run = [&](std::span<LayerHooks* const> hooks) {
        Step::Lane lane(cache, in, hooks);
        return std::move(Step(*m_plan, *buffers, std::span(&lane, 1)).run()[0]);
    };
    StepOutputs out;
    if (in.mc.passes == 0) {
        out = run(in.hooks);
    } else {
        McRows dropout(in.mc, cache.length(), 0);
        std::vector<LayerHooks*> hooks(in.hooks.begin(), in.hooks.end());
        hooks.push_back(&dropout);
        out = run(hooks);
    }
    cache.commit(1, in.origin);
    return out;
}

std::vector<StepOutputs> CpuForward::step_together(std::span<const CacheStep> steps) const {
    if (steps.size() < 2 || kernels::isa() == kernels::Isa::reference) return Forward::step_together(steps);
    const c10::InferenceMode guard;
    std::vector<Step::Lane> lanes;
    lanes.reserve(steps.size());
    for (const CacheStep& step : steps) {
        PlainForward::require_step(model(), *step.cache, step.in);
        RL_ASSERT(step.in.mc.passes == 0);
        lanes.emplace_back(*step.cache, step.in, step.in.hooks);
    }
    const Buffered buffers(*m_plan, std::ssize(lanes), std::ssize(lanes));
    std::vector<StepOutputs> outs = Step(*m_plan, *buffers, lanes).run();
    for (const CacheStep& step : steps)
        step.cache->commit(1, step.in.origin);
    return outs;
}

} // namespace refreshlab
