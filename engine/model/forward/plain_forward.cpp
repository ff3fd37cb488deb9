#include "engine/model/forward/plain_forward.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/hook_calls.h"
#include "engine/model/forward/mc_rows.h"
#include "engine/model/forward/routed_rows.h"
#include "engine/model/forward/soft_rows.h"
#include "engine/model/llama_model.h"
#include "kernels/blocks/blocks.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dense.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

namespace refreshlab {

namespace {

/// Query rows whose attention probabilities exist at once while columns are summed: 32 rows of 32 heads over 32k keys are
/// 134 MB.
constexpr int64_t tapped_rows = 32;

/// Rows that go through the layers together.
struct Batch {
    std::vector<int32_t> tokens;
    std::vector<RowPlace> places;
    std::vector<int64_t> positions; ///< of `places`
    KvCache* written = nullptr;     ///< rows [0, num_written) append their columns here
    int64_t num_written = 0;
    bool own_columns = false; ///< every row brings the column of its own position as its last key
    Rows outputs = Rows::all;
    int64_t shown = 0;              ///< rows [0, shown) are shown to hooks; the rest ride along
    const SoftRows* soft = nullptr; ///< in place of tokens, which only count then

    /// Rows at positions first, first + step, ...; each sees what stands before it, and its own column.
    Batch(std::vector<int32_t> ids, int64_t first, int64_t step, bool own)
        : tokens(std::move(ids))
        , own_columns(own)
        , shown(static_cast<int64_t>(tokens.size())) {
        for (size_t r = 0; r < tokens.size(); ++r) {
            const int64_t position = first + static_cast<int64_t>(r) * step;
            positions.push_back(position);
            places.push_back({position, position, own ? position : position + 1});
        }
    }
    [[nodiscard]] int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

/// What the rows of a batch may attend to, in a layer with a given sliding window.
class Sight {
public:
    Sight() = default;
    explicit Sight(const Batch& batch)
        : m_positions(batch.positions) {
        for (const RowPlace& place : batch.places)
            m_visible.push_back(place.num_visible);
    }
    [[nodiscard]] std::span<const int64_t> num_visible(int64_t first, int64_t n) const {
        return std::span(m_visible).subspan(static_cast<size_t>(first), static_cast<size_t>(n));
    }
    /// First position in (p - window, p], or nothing where the layer sees everything; valid until the next call.
    [[nodiscard]] std::span<const int64_t> first_visible(int64_t window, int64_t first, int64_t n) {
        if (window == 0) return {};
        m_first.clear();
        for (int64_t r = first; r < first + n; ++r)
            m_first.push_back(std::max<int64_t>(m_positions[static_cast<size_t>(r)] - window + 1, 0));
        return m_first;
    }

private:
    std::span<const int64_t> m_positions;
    std::vector<int64_t> m_visible, m_first;
};

/// One batch through all layers: the layer loop.
class Pass {
public:
    Pass(const LlamaModel& model, const KvCache& cache, Batch& batch, std::span<LayerHooks* const> hooks)
        : m_model(model)
        , m_weights(model.weights())
        , m_config(model.config())
        , m_cache(cache)
        , m_batch(batch)
        , m_hooks(hooks) {}

    /// \return logits of the rows that get some, [rows, vocab] fp32; undefined for Rows::none
    at::Tensor run() {
        m_hooks.place(m_batch.places);
        m_sight = Sight(m_batch);
        m_x = embed();
        for (int64_t layer = 0; layer < m_config.num_layers; ++layer) {
            if (!run_layer(layer)) return {};
        }
        if (!m_hooks.empty()) m_hooks.finish(m_x.narrow(0, 0, std::min(m_x.size(0), m_batch.shown)));
        if (m_batch.outputs == Rows::none) return {};
        if (m_batch.outputs == Rows::last) m_x = m_x.narrow(0, m_x.size(0) - 1, 1);
        at::Tensor logits = kernels::linear(normed(m_x, m_weights.final_norm), m_weights.head).to(at::kFloat);
        if (m_config.logit_cap > 0) kernels::soft_cap_(logits, m_config.logit_cap);
        return logits;
    }

private:
    [[nodiscard]] at::Tensor embed() const {
        const at::Device device = m_model.device();
        const at::ScalarType activations = device.is_cpu() ? at::kFloat : m_model.dtype();
        if (m_batch.soft != nullptr) return m_batch.soft->embedded().to(activations, false, true);
        at::Tensor rows = embedded_rows(device, activations);
        return m_config.embedding_scale == 1 ? rows : rows.mul_(m_config.embedding_scale);
    }
    [[nodiscard]] at::Tensor embedded_rows(at::Device device, at::ScalarType activations) const {
        if (kernels::is_blocks(m_weights.embedding))
            return kernels::embedded(m_weights.embedding, m_batch.tokens);
        at::Tensor ids = at::empty({m_batch.rows()}, at::TensorOptions().dtype(at::kLong));
        auto* out = ids.mutable_data_ptr<int64_t>();
        for (const int32_t token : m_batch.tokens) {
            RL_ASSERT(token >= 0 && token < m_config.vocab_size);
            *out++ = token;
        }
        return m_weights.embedding.index_select(0, ids.to(device)).to(activations);
    }

    /// cos and sin of the rows that run in a layer, [rows, rotary / 2].
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> rotations(Rope rope, int64_t rows) {
        auto& [cos, sin] = m_rotations[static_cast<size_t>(rope)];
        if (!cos.defined()) std::tie(cos, sin) = all_rotations(rope);
        const int64_t first = cos.size(0) - rows;
        return {cos.narrow(0, first, rows), sin.narrow(0, first, rows)};
    }
    [[nodiscard]] std::pair<at::Tensor, at::Tensor> all_rotations(Rope rope) const {
        const auto& places = m_batch.places;
        const auto table = [&](int64_t from, int64_t count) {
            return m_model.rope_rows(rope, m_cache.context(), from, count);
        };
        const int64_t first = places.front().rotated_as, n = m_batch.rows();
        const auto is_at = [&](int64_t stride) {
            for (int64_t r = 0; r < n; ++r)
                if (places[static_cast<size_t>(r)].rotated_as != first + r * stride) return false;
            return true;
        };
        if (is_at(1)) return table(first, n);
        if (is_at(0)) { // rows that ride along stand where row 0 stands
            const auto [cos, sin] = table(first, 1);
            return {cos.expand({n, -1}).contiguous(), sin.expand({n, -1}).contiguous()};
        }
        // Rows that a hook has put anywhere (readings of several continuations of a text).
        const auto [least, most] = std::ranges::minmax_element(places, {}, &RowPlace::rotated_as);
        const auto [cos, sin] = table(least->rotated_as, most->rotated_as - least->rotated_as + 1);
        at::Tensor index = at::empty({n}, at::TensorOptions().dtype(at::kLong));
        for (int64_t r = 0; r < n; ++r)
            index.mutable_data_ptr<int64_t>()[r] =
                places[static_cast<size_t>(r)].rotated_as - least->rotated_as;
        index = index.to(cos.device());
        return {cos.index_select(0, index), sin.index_select(0, index)};
    }

    /// What a norm multiplies by.
    [[nodiscard]] at::Tensor norm_weight(const at::Tensor& stored) const {
        return m_config.norm_offset == 0 ? stored : stored.to(at::kFloat) + m_config.norm_offset;
    }
    /// RMSNorm over rows of the residual's width, where the family has it; padded channels do not count in the mean.
    [[nodiscard]] at::Tensor normed(const at::Tensor& rows, const at::Tensor& weight) const {
        if (!weight.defined()) return rows;
        return kernels::rms_norm(rows, norm_weight(weight), m_config.rms_norm_eps, m_config.hidden_size);
    }
    [[nodiscard]] at::Tensor projected(int64_t layer, Projection place, const at::Tensor& x,
                                       const at::Tensor& weight, const at::Tensor& bias) const {
        at::Tensor rows = kernels::linear(x, weight, bias);
        if (m_batch.soft != nullptr) m_batch.soft->project(layer, place, x, rows);
        return rows;
    }
    [[nodiscard]] at::Tensor heads_of(int64_t layer, Projection place, const at::Tensor& x,
                                      const at::Tensor& weight, const at::Tensor& bias) const {
        return projected(layer, place, x, weight, bias).view({x.size(0), -1, m_config.head_dim});
    }
    /// RMSNorm of q or k, over every head or over all of them, where the family has it.
    [[nodiscard]] at::Tensor normed_heads(at::Tensor heads, const at::Tensor& weight) const {
        if (!weight.defined()) return heads;
        return kernels::rms_norm(heads.view({-1, weight.size(0)}), norm_weight(weight), m_config.rms_norm_eps)
            .view(heads.sizes());
    }
    void rotate(at::Tensor& heads, int64_t layer) {
        const Rope rope = m_config.rope(layer);
        if (rope == Rope::still) return;
        const auto [cos, sin] = rotations(rope, heads.size(0));
        kernels::rope_(heads, cos, sin);
    }

    /// \return false when nobody needs what comes after this layer's columns
    bool run_layer(int64_t layer) {
        const LlamaLayer& w = m_weights.layers[static_cast<size_t>(layer)];
        const LayerTaps taps = m_hooks.taps(layer);
        at::Tensor h = normed(m_x, w.input_norm);
        LayerView view = view_of(layer, h);
        project_columns(layer, h, view);

        // The last layer's outputs are read for the rows that get logits or are shown, and by nobody else.
        const bool last_layer = layer + 1 == m_config.num_layers;
        if (last_layer && m_batch.outputs != Rows::all && !taps.all_rows) {
            const int64_t first = first_needed(taps);
            if (first == m_batch.rows()) return false;
            keep_rows_from(first, h);
        }
        at::Tensor attended;
        if (w.attends) attended = read_cache(layer, w, h, taps, view);
        view.left_out = !w.attends;
        m_hooks.observe(view);
        if (last_layer && m_batch.outputs == Rows::none && !taps.all_rows) return false;
        finish_layer(w, layer, attended);
        return true;
    }

    /// Queries of the batch and what they attend to. \param h  the layer's normed input
    [[nodiscard]] at::Tensor read_cache(int64_t layer, const LlamaLayer& w, const at::Tensor& h,
                                        const LayerTaps& taps, LayerView& view) {
        at::Tensor q = normed_heads(heads_of(layer, Projection::q, h, w.q, w.q_bias), w.q_norm);
        if (m_config.query_scale != 1) q.mul_(m_config.query_scale);
        if (taps.raw_queries) view.raw_q = shown_queries(q.clone());
        rotate(q, layer);
        if (!m_hooks.empty()) view.q = shown_queries(q);
        const HeadPositions* chosen = m_hooks.select(view); // may change what is held
        kernels::AttentionInputs in = attention_inputs(layer, q);
        if (chosen != nullptr) in.lists = m_chosen.lists(m_cache, layer, *chosen);
        m_hooks.attend(layer, in);
        view.lists = in.lists;
        return attend(taps, in, view);
    }

    [[nodiscard]] LayerView view_of(int64_t layer, const at::Tensor& h) const {
        LayerView view;
        if (m_hooks.empty()) return view;
        view.layer = layer;
        view.cache = &m_cache;
        view.positions = std::span(m_batch.positions).first(static_cast<size_t>(m_batch.shown));
        view.residual = m_x.narrow(0, 0, m_batch.shown);
        view.input = h.narrow(0, 0, m_batch.shown);
        view.output = m_weights.layers[static_cast<size_t>(layer)].o;
        return view;
    }

    /// K and V of the batch: written, kept for the rows that bring their own, or not needed at all.
    void project_columns(int64_t layer, const at::Tensor& h, LayerView& view) {
        if (m_batch.num_written == 0 && !m_batch.own_columns) return;
        const LlamaLayer& w = m_weights.layers[static_cast<size_t>(layer)];
        at::Tensor k = normed_heads(heads_of(layer, Projection::k, h, w.k, w.k_bias), w.k_norm);
        const at::Tensor v = heads_of(layer, Projection::v, h, w.v, w.v_bias);
        rotate(k, layer);
        if (m_batch.num_written > 0) {
            m_batch.written->write(layer, k.narrow(0, 0, m_batch.num_written),
                                   v.narrow(0, 0, m_batch.num_written));
        }
        if (m_batch.own_columns) {
            // Rounded like a stored column, so that a row without dropout has the bits of the plain step.
            m_own_k = k.to(m_model.dtype());
            m_own_v = v.to(m_model.dtype());
        }
        if (m_hooks.empty()) return;
        view.k = k.narrow(0, 0, m_batch.shown);
        view.v = v.narrow(0, 0, m_batch.shown);
    }

    /// First row that gets logits or is shown in the last layer; rows() where none is.
    [[nodiscard]] int64_t first_needed(const LayerTaps& taps) const {
        int64_t first = m_batch.outputs == Rows::last ? m_batch.rows() - 1 : m_batch.rows();
        if (taps.sums.defined()) first = 0;
        const auto shown = std::ranges::lower_bound(m_batch.positions, taps.shown_from());
        return std::min<int64_t>(first, shown - m_batch.positions.begin());
    }
    void keep_rows_from(int64_t first, at::Tensor& h) {
        const auto tail = [first](const at::Tensor& t) { return t.narrow(0, first, t.size(0) - first); };
        h = tail(h);
        m_x = tail(m_x);
    }
    /// Queries of the shown rows among those that run in this layer.
    [[nodiscard]] at::Tensor shown_queries(const at::Tensor& q) const {
        const int64_t riders = m_batch.rows() - m_batch.shown;
        return q.narrow(0, 0, q.size(0) - riders);
    }

    /// The attention call of the batch's last q.size(0) rows.
    [[nodiscard]] kernels::AttentionInputs attention_inputs(int64_t layer, const at::Tensor& q) {
        const int64_t n = q.size(0), first = m_batch.rows() - n;
        kernels::AttentionInputs in;
        in.q = q;
        const LayerEntries entries = m_cache.entries(layer);
        in.k_cache = entries.k;
        in.v_cache = entries.v;
        in.lists = entries.lists;
        in.num_visible = m_sight.num_visible(first, n);
        in.first_visible = m_sight.first_visible(m_config.window(layer), first, n);
        in.scale = 1.0 / std::sqrt(static_cast<double>(m_config.head_dim));
        in.soft_cap = m_config.attention_cap;
        if (m_batch.own_columns) {
            in.own_k = m_own_k.narrow(0, first, n);
            in.own_v = m_own_v.narrow(0, first, n);
        }
        return in;
    }

    /// Attention of the batch, and what hooks want to see of it.
    at::Tensor attend(const LayerTaps& taps, const kernels::AttentionInputs& in, LayerView& view) const {
        const int64_t n = in.q.size(0), first = m_batch.rows() - n;
        const auto shown_from = std::ranges::lower_bound(m_batch.positions, taps.shown_from());
        const int64_t from = std::max<int64_t>(shown_from - m_batch.positions.begin(), first) - first;
        const int64_t shown = std::max<int64_t>(m_batch.shown - first - from, 0);
        if (taps.sums.defined()) add_column_sums(in, m_batch.shown - first, taps.sums);
        if (shown == 0) return kernels::attention(in);
        at::Tensor probabilities;
        if (from > 0) {
            // The shown rows once more, alone: probabilities of a whole chunk would be rows * heads * length floats.
            (void)kernels::attention(rows_of(in, from, shown), &probabilities);
            view.attention = std::move(probabilities);
            return kernels::attention(in);
        }
        at::Tensor attended = kernels::attention(in, &probabilities);
        view.attention = probabilities.narrow(0, 0, shown);
        return attended;
    }

    /// Rows [first, first + n) of a call. Dropout stays out: probabilities are those before it.
    [[nodiscard]] static kernels::AttentionInputs rows_of(const kernels::AttentionInputs& in, int64_t first,
                                                          int64_t n) {
        kernels::AttentionInputs part = in;
        const auto cut = [&](std::span<const int64_t> list) {
            return list.empty() ? list : list.subspan(static_cast<size_t>(first), static_cast<size_t>(n));
        };
        part.q = in.q.narrow(0, first, n);
        part.num_visible = cut(in.num_visible);
        part.first_visible = cut(in.first_visible);
        if (in.own_k.defined()) {
            part.own_k = in.own_k.narrow(0, first, n);
            part.own_v = in.own_v.narrow(0, first, n);
        }
        part.passes = {};
        part.dropout_p = 0;
        return part;
    }

    /// Adds the attention that each key receives from rows [0, n) of a call to sums, [heads, keys]. In row blocks, and row after
    /// row within them.
    static void add_column_sums(const kernels::AttentionInputs& in, int64_t n, at::Tensor sums) {
        for (int64_t first = 0; first < n; first += tapped_rows) {
            const int64_t count = std::min(tapped_rows, n - first);
            at::Tensor part;
            (void)kernels::attention(rows_of(in, first, count), &part);
            at::Tensor target = sums.narrow(1, 0, part.size(2));
            for (int64_t r = 0; r < count; ++r)
                target.add_(part[r]);
        }
    }

    /// What follows a layer's attention: output projection and MLP, each added to the residual where the layer has it.
    void finish_layer(const LlamaLayer& w, int64_t layer, const at::Tensor& attended) {
        if (w.attends) {
            const at::Tensor out =
                projected(layer, Projection::o, attended.reshape({m_x.size(0), -1}), w.o, w.o_bias);
            add_branch(layer, Branch::attention_output, normed(out, w.o_norm));
        }
        if (!w.has_mlp) return;
        const at::Tensor h = normed(m_x, w.post_norm);
        const at::Tensor out = w.router.defined() ? routed_mlp(w, h) : mlp(w, layer, h);
        add_branch(layer, Branch::mlp_output, normed(out, w.down_norm));
    }
    [[nodiscard]] at::Tensor mlp(const LlamaLayer& w, int64_t layer, const at::Tensor& h) const {
        const at::Tensor gate = projected(layer, Projection::gate, h, w.gate, w.gate_bias);
        const at::Tensor up = projected(layer, Projection::up, h, w.up, w.up_bias);
        const at::Tensor inner = kernels::gated(m_config.activation, gate, up);
        m_hooks.inner(layer, inner);
        return projected(layer, Projection::down, inner, w.down, w.down_bias);
    }
    /// Each expert once, for the rows that are sent to it; no other expert is read, and hooks are shown no inner rows. A row's sum runs over its experts ascending.
    [[nodiscard]] at::Tensor routed_mlp(const LlamaLayer& w, const at::Tensor& h) const {
        const RoutedRows routed(m_config.experts, kernels::linear(h, w.router));
        at::Tensor sum = at::zeros_like(h);
        for (const RoutedRows::Group& group : routed.groups()) {
            const ExpertWeights& expert = w.experts[static_cast<size_t>(group.expert)];
            const at::Tensor rows = group.rows.to(h.device()), x = h.index_select(0, rows);
            const at::Tensor inner = kernels::gated(m_config.activation, kernels::linear(x, expert.gate),
                                                    kernels::linear(x, expert.up));
            const at::Tensor share = group.shares.to(h.device(), h.scalar_type()).unsqueeze(1);
            sum.index_add_(0, rows, kernels::linear(inner, expert.down).mul_(share));
        }
        return sum;
    }
    void add_branch(int64_t layer, Branch place, at::Tensor branch) {
        m_hooks.branch(layer, place, branch);
        m_x.add_(branch);
    }

    const LlamaModel& m_model;
    const LlamaWeights& m_weights;
    const ModelConfig& m_config;
    const KvCache& m_cache;
    Batch& m_batch;
    HookCalls m_hooks;
    Sight m_sight;
    std::array<std::pair<at::Tensor, at::Tensor>, 3> m_rotations; ///< of all rows, by Rope
    at::Tensor m_x;
    at::Tensor m_own_k, m_own_v; ///< of this layer
    ChosenEntries m_chosen;
};

void check_geometry(const LlamaModel& model, const KvCache& cache) {
    const ModelConfig& config = model.config();
    RL_ASSERT(cache.num_layers() == config.num_layers && cache.num_kv_heads() == config.num_kv_heads);
    RL_ASSERT(cache.head_dim() == config.head_dim && cache.dtype() == model.dtype() &&
              cache.device() == model.device());
}

/// Adds what was asked of `rows`, the output rows from `first` on.
void answer(const StepInputs& in, int64_t first, const at::Tensor& rows, StepOutputs& out) {
    if (!in.ask || !rows.defined()) return;
    auto part = kernels::summarize_rows(rows, in.ask->part(first, rows.size(0)));
    std::ranges::move(part, std::back_inserter(out.summary));
}

} // namespace

StepOutputs PlainForward::prefill(KvCache& cache, const StepInputs& in) const {
    const c10::InferenceMode guard;
    check_geometry(m_model, cache);
    RL_ASSERT(in.soft == nullptr || in.tokens.empty());
    // Soft rows have no ids; any stand for them.
    const std::vector<int32_t> no_ids(in.soft != nullptr ? static_cast<size_t>(in.soft->embedded().size(0))
                                                         : 0);
    const std::span<const int32_t> tokens = in.soft != nullptr ? no_ids : in.tokens;
    const auto n = static_cast<int64_t>(tokens.size());
    RL_ASSERT(n > 0 && cache.length() + n <= cache.capacity());
    RL_ASSERT(in.soft == nullptr || n <= LlamaWeights::chunk_rows);
    RL_ASSERT(in.mc.passes == 0);
    StepOutputs out;
    // One buffer for the rows of several chunks, so that they are not held twice.
    if (in.rows == Rows::all && in.logits && n > LlamaWeights::chunk_rows) {
        out.logits = at::empty({n, m_model.config().vocab_size},
                               at::TensorOptions().dtype(at::kFloat).device(m_model.device()));
    }
    for (int64_t begin = 0; begin < n;) {
        const int64_t count = std::min(LlamaWeights::chunk_rows, n - begin);
        const bool last = begin + count == n;
        const auto chunk = tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
        Batch batch({chunk.begin(), chunk.end()}, cache.length(), 1, false);
        batch.soft = in.soft;
        batch.written = &cache;
        batch.num_written = count;
        batch.outputs = in.rows == Rows::last && !last ? Rows::none : in.rows;
        const at::Tensor rows = Pass(m_model, cache, batch, in.hooks).run();
        cache.commit(count, in.origin);
        answer(in, in.rows == Rows::all ? begin : 0, rows, out);
        if (in.logits && out.logits.defined()) {
            out.logits.narrow(0, begin, count).copy_(rows);
        } else if (in.logits && last) {
            out.logits = rows;
        }
        begin += count;
    }
    return out;
}

void PlainForward::require_step(const LlamaModel& model, const KvCache& cache, const StepInputs& in) {
    check_geometry(model, cache);
    RL_ASSERT(in.tokens.size() == 1 && cache.length() < cache.capacity());
    RL_ASSERT(in.mc.passes >= 0 && in.mc.p >= 0.0F && in.mc.p < 1.0F);
}

StepOutputs PlainForward::step(KvCache& cache, const StepInputs& in) const {
    const c10::InferenceMode guard;
    require_step(m_model, cache, in);
    const int64_t position = cache.length();
    // On the CPU all rows share one reading of the weights. On CUDA cuBLAS may round row 0 differently beside other
    // rows, so it runs apart: a probe must not change the text.
    const bool together = m_model.device().is_cpu() && in.mc.passes > 0;
    const auto ids = [&](int32_t rows) {
        return std::vector<int32_t>(static_cast<size_t>(rows), in.tokens[0]);
    };
    StepOutputs out;
    at::Tensor row;
    if (together) {
        McRows dropout(in.mc, position, 0);
        std::vector<LayerHooks*> hooks(in.hooks.begin(), in.hooks.end());
        hooks.push_back(&dropout);
        Batch batch(ids(in.mc.passes + 1), position, 0, true);
        batch.written = &cache;
        batch.num_written = batch.shown = 1;
        const at::Tensor rows = Pass(m_model, cache, batch, hooks).run();
        row = rows.narrow(0, 0, 1);
        out.mc_logits = rows.narrow(0, 1, in.mc.passes);
    } else {
        Batch batch(ids(1), position, 0, false);
        batch.written = &cache;
        batch.num_written = 1;
        row = Pass(m_model, cache, batch, in.hooks).run();
        if (in.mc.passes > 0) {
            McRows dropout(in.mc, position, 1);
            LayerHooks* const hooks[] = {&dropout};
            Batch riders(ids(in.mc.passes), position, 0, true);
            riders.shown = 0;
            out.mc_logits = Pass(m_model, cache, riders, hooks).run();
        }
    }
    cache.commit(1, in.origin);
    answer(in, 0, row, out);
    if (gives_row(in, out)) out.logits = row;
    return out;
}

StepOutputs PlainForward::read_only(const KvCache& cache, int64_t position, const StepInputs& in) const {
    const c10::InferenceMode guard;
    check_geometry(m_model, cache);
    RL_ASSERT(in.tokens.size() == 1 && position >= 0 && position < cache.length());
    RL_ASSERT(in.mc.passes == 0);
    Batch batch({in.tokens.begin(), in.tokens.end()}, position, 0, false);
    StepOutputs out;
    const at::Tensor row = Pass(m_model, cache, batch, in.hooks).run();
    answer(in, 0, row, out);
    if (in.logits) out.logits = row;
    return out;
}

} // namespace refreshlab
