#include "engine/model/forward/cpu_forward.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/hook_calls.h"
#include "engine/model/llama_model.h"
#include "kernels/blocks/blocks.h"
#include "kernels/cpu/convert_rows.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/cpu/row_products.h"
#include "kernels/execution/isa.h"
#include "kernels/ops/attention.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace refreshlab {

namespace cpu = kernels::cpu;
using cpu::RowMatrix;

namespace {

/// A norm's weight in fp32; empty where the family has none.
struct Norm {
    at::Tensor weight;
    explicit Norm(const at::Tensor& stored)
        : weight(stored.defined() ? stored.to(at::kFloat).contiguous() : at::Tensor()) {}
    [[nodiscard]] const float* data() const { return weight.const_data_ptr<float>(); }
};

struct LayerPlan {
    Norm input_norm, post_norm, q_norm, k_norm;
    RowMatrix q, k, v, o, gate, up, down;
    bool attends, has_mlp;

    explicit LayerPlan(const LlamaLayer& w)
        : input_norm(w.input_norm)
        , post_norm(w.post_norm)
        , q_norm(w.q_norm)
        , k_norm(w.k_norm)
        , k(w.k, w.k_bias)
        , v(w.v, w.v_bias)
        , attends(w.attends)
        , has_mlp(w.has_mlp) {
        if (attends) {
            q = RowMatrix(w.q, w.q_bias);
            o = RowMatrix(w.o, w.o_bias);
        }
        if (has_mlp) {
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

/// What one step works in. Tensors, so that hooks are shown them as they are.
struct CpuForward::Buffers {
    at::Tensor x, branch;                 ///< [1, held hidden width]: the residual, and what is added to it
    at::Tensor q, raw_q, attended;        ///< [1, heads, head_dim]
    at::Tensor k, v;                      ///< [1, kv_heads, head_dim]
    at::Tensor gate, up;                  ///< [1, held intermediate width]
    cpu::RowInput h, attended_row, inner; ///< what products read
    at::Tensor h_view, inner_view;        ///< the same, [1, width]
    ChosenEntries chosen;

    explicit Buffers(const LlamaModel& model)
        : Buffers(model.config(), LlamaWeights::held_width(model.config().hidden_size),
                  LlamaWeights::held_width(model.config().intermediate_size)) {}

private:
    Buffers(const ModelConfig& c, int64_t hidden, int64_t inner_width)
        : x(floats({1, hidden}))
        , branch(floats({1, hidden}))
        , q(floats({1, c.num_heads, c.head_dim}))
        , raw_q(floats({1, c.num_heads, c.head_dim}))
        , k(floats({1, c.num_kv_heads, c.head_dim}))
        , v(floats({1, c.num_kv_heads, c.head_dim}))
        , gate(floats({1, inner_width}))
        , up(floats({1, inner_width}))
        , h(hidden)
        , attended_row(c.num_heads * c.head_dim)
        , inner(inner_width)
        , h_view(h.tensor())
        , inner_view(inner.tensor()) {
        attended = attended_row.tensor().view({1, c.num_heads, c.head_dim});
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
        , final_norm(of.weights().final_norm)
        , head(of.weights().head, {}) {
        for (const LlamaLayer& layer : of.weights().layers)
            layers.emplace_back(layer);
    }
    [[nodiscard]] std::unique_ptr<Buffers> take() {
        {
            const std::lock_guard lock(mutex);
            if (!free.empty()) {
                auto buffers = std::move(free.back());
                free.pop_back();
                return buffers;
            }
        }
        return std::make_unique<Buffers>(model);
    }
    void give_back(std::unique_ptr<Buffers> buffers) {
        const std::lock_guard lock(mutex);
        free.push_back(std::move(buffers));
    }
};

/// Buffers of the plan, for as long as a step takes.
class CpuForward::Buffered {
public:
    explicit Buffered(Plan& plan)
        : m_plan(plan)
        , m_buffers(plan.take()) {}
    Buffered(const Buffered&) = delete;
    Buffered& operator=(const Buffered&) = delete;
    ~Buffered() { m_plan.give_back(std::move(m_buffers)); }
    [[nodiscard]] Buffers& operator*() const { return *m_buffers; }

private:
    Plan& m_plan;
    std::unique_ptr<Buffers> m_buffers;
};

/// One token through all layers, with the calls of PlainForward's layer loop to its hooks.
class CpuForward::Step {
public:
    Step(const Plan& plan, Buffers& buffers, KvCache& cache, const StepInputs& in)
        : m_plan(plan)
        , m_model(plan.model)
        , m_config(plan.model.config())
        , m_table(cpu::kernels())
        , m(buffers)
        , m_cache(cache)
        , m_in(in)
        , m_hooks(in.hooks)
        , m_place{cache.length(), cache.length(), cache.length() + 1}
        , m_position(cache.length()) {}

    StepOutputs run() {
        m_hooks.place(std::span(&m_place, 1));
        const auto [cos, sin] = m_model.rope_rows(m_place.rotated_as, 1);
        m_cos = cos.const_data_ptr<float>();
        m_sin = sin.const_data_ptr<float>();
        embed(m_in.tokens[0]);
        for (int64_t layer = 0; layer < m_config.num_layers; ++layer)
            run_layer(layer);
        m_hooks.finish(m.x);
        return read_head();
    }

private:
    [[nodiscard]] float* x() const { return m.x.mutable_data_ptr<float>(); }
    [[nodiscard]] int64_t hidden() const { return m.x.numel(); }

    void embed(int32_t token) {
        RL_ASSERT(token >= 0 && token < m_config.vocab_size);
        const at::Tensor& embedding = m_model.weights().embedding;
        if (kernels::is_blocks(embedding)) {
            const int64_t row = token;
            const at::Tensor values = kernels::block_values(embedding, std::span(&row, 1));
            std::copy_n(values.const_data_ptr<float>(), hidden(), x());
            return;
        }
        cpu::Conversion c;
        c.from = cpu::element(embedding, token * embedding.stride(0));
        c.from_type = cpu::element_type(embedding);
        c.to = x();
        c.rows = 1;
        c.width = hidden();
        cpu::convert_rows(c);
    }

    /// h = norm of the residual; padded channels do not count in the mean.
    void normalise(const Norm& norm) {
        m_table.rms_norm(x(), norm.data(), hidden(), static_cast<double>(m_config.hidden_size),
                         m_config.rms_norm_eps, m.h.data());
    }
    void normalise_heads(const Norm& norm, const at::Tensor& heads) const {
        if (!norm.weight.defined()) return;
        float* const data = heads.mutable_data_ptr<float>();
        std::vector<float> head(static_cast<size_t>(m_config.head_dim));
        for (int64_t i = 0; i < heads.numel(); i += m_config.head_dim) {
            m_table.rms_norm(data + i, norm.data(), m_config.head_dim, static_cast<double>(m_config.head_dim),
                             m_config.rms_norm_eps, head.data());
            std::ranges::copy(head, data + i);
        }
    }
    void rotate(const at::Tensor& heads) const {
        float* const data = heads.mutable_data_ptr<float>();
        for (int64_t i = 0; i < heads.numel(); i += m_config.head_dim)
            m_table.rope(data + i, m_cos, m_sin, m_config.head_dim / 2);
    }

    void run_layer(int64_t layer) {
        const LayerPlan& w = m_plan.layers[static_cast<size_t>(layer)];
        const LayerTaps taps = m_hooks.taps(layer);
        normalise(w.input_norm);
        LayerView view;
        if (!m_hooks.empty()) {
            view.layer = layer;
            view.cache = &m_cache;
            view.positions = std::span(&m_position, 1);
            view.residual = m.x;
            view.input = m.h_view;
        }
        project(w, taps, view);
        m_cache.write(layer, m.k, m.v);
        if (w.attends) read_cache(layer, taps, view);
        view.left_out = !w.attends;
        m_hooks.observe(view);
        if (w.attends) {
            m.attended_row.prepare({&w.o});
            add(layer, Branch::attention_output, m.attended_row, w.o);
        }
        if (w.has_mlp) run_mlp(layer, w);
    }

    /// q, k and v of the layer's input, rotated.
    void project(const LayerPlan& w, const LayerTaps& taps, LayerView& view) {
        const std::array<cpu::RowProduct, 3> products{{{&w.k, m.k.mutable_data_ptr<float>()},
                                                       {&w.v, m.v.mutable_data_ptr<float>()},
                                                       {&w.q, m.q.mutable_data_ptr<float>()}}};
        m.h.prepare({&w.k, &w.v, &w.q});
        cpu::multiply(m.h, std::span(products).first(w.attends ? 3 : 2));
        normalise_heads(w.k_norm, m.k);
        rotate(m.k);
        if (!m_hooks.empty()) {
            view.k = m.k;
            view.v = m.v;
        }
        if (!w.attends) return;
        normalise_heads(w.q_norm, m.q);
        if (taps.raw_queries) view.raw_q = m.raw_q.copy_(m.q);
        rotate(m.q);
        if (!m_hooks.empty()) view.q = m.q;
    }

    /// Attention of the row into m.attended, and what hooks want to see of it.
    void read_cache(int64_t layer, const LayerTaps& taps, LayerView& view) {
        const HeadPositions* chosen = m_hooks.select(view); // may change what is held
        kernels::AttentionInputs in;
        in.q = m.q;
        in.out = m.attended;
        const LayerEntries entries = m_cache.entries(layer);
        in.k_cache = entries.k;
        in.v_cache = entries.v;
        in.lists = chosen != nullptr ? m.chosen.lists(m_cache, layer, *chosen) : entries.lists;
        in.num_visible = std::span(&m_place.num_visible, 1);
        const int64_t window = m_config.window(layer);
        m_first_visible = std::max<int64_t>(m_position - window + 1, 0);
        if (window > 0) in.first_visible = std::span(&m_first_visible, 1);
        in.scale = 1.0 / std::sqrt(static_cast<double>(m_config.head_dim));
        m_hooks.attend(layer, in);
        view.lists = in.lists;
        const bool shown = taps.attention_from <= m_position;
        if (!shown && !taps.sums.defined()) {
            (void)kernels::attention(in);
            return;
        }
        at::Tensor probabilities;
        (void)kernels::attention(in, &probabilities);
        if (taps.sums.defined()) taps.sums.narrow(1, 0, probabilities.size(2)).add_(probabilities[0]);
        if (shown) view.attention = std::move(probabilities);
    }

    void run_mlp(int64_t layer, const LayerPlan& w) {
        normalise(w.post_norm);
        m.h.prepare({&w.gate, &w.up});
        cpu::multiply_gated(m.h, w.gate, w.up, m.gate.mutable_data_ptr<float>(),
                            m.up.mutable_data_ptr<float>(), m.inner.data());
        m_hooks.inner(layer, m.inner_view);
        m.inner.prepare({&w.down});
        add(layer, Branch::mlp_output, m.inner, w.down);
    }

    /// A branch onto the residual.
    void add(int64_t layer, Branch place, const cpu::RowInput& row, const RowMatrix& matrix) {
        float* const branch = m.branch.mutable_data_ptr<float>();
        if (m_hooks.empty()) return cpu::multiply_onto(row, matrix, branch, x());
        const std::array<cpu::RowProduct, 1> product{{{&matrix, branch}}};
        cpu::multiply(row, product);
        at::Tensor rows = m.branch;
        m_hooks.branch(layer, place, rows);
        RL_ASSERT(rows.numel() == hidden() && rows.is_contiguous());
        const float* const added = rows.const_data_ptr<float>();
        for (int64_t i = 0; i < hidden(); ++i)
            x()[i] += added[i];
    }

    StepOutputs read_head() {
        normalise(m_plan.final_norm);
        m.h.prepare({&m_plan.head});
        StepOutputs out;
        const at::Tensor row = floats({1, m_config.vocab_size});
        float* const logits = row.mutable_data_ptr<float>();
        const auto& ask = m_in.ask;
        const bool with_kl = ask && !ask->kl_rows.empty();
        if (ask && !with_kl) {
            const int32_t token = ask->tokens.empty() ? -1 : ask->tokens[0];
            out.summary.push_back(cpu::multiply_summarized(m.h, m_plan.head, logits,
                                                           std::min(ask->top_k, m_config.vocab_size), token));
        } else {
            const std::array<cpu::RowProduct, 1> product{{{&m_plan.head, logits}}};
            cpu::multiply(m.h, product);
            if (with_kl) out.summary = kernels::summarize_rows(row, *ask);
        }
        if (m_in.logits) out.logits = row;
        return out;
    }

    const Plan& m_plan;
    const LlamaModel& m_model;
    const ModelConfig& m_config;
    const cpu::CpuKernels& m_table;
    Buffers& m;
    KvCache& m_cache;
    const StepInputs& m_in;
    HookCalls m_hooks;
    RowPlace m_place;
    int64_t m_position;
    int64_t m_first_visible = 0;
    const float* m_cos = nullptr;
    const float* m_sin = nullptr;
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
    if (in.mc.passes != 0 || kernels::isa() == kernels::Isa::reference) return m_plain.step(cache, in);
    const c10::InferenceMode guard;
    PlainForward::require_step(model(), cache, in);
    const Buffered buffers(*m_plan);
    StepOutputs out = Step(*m_plan, *buffers, cache, in).run();
    cache.commit(1, in.origin);
    return out;
}

} // namespace refreshlab
