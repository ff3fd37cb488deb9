#include "engine/model/forward/cuda_forward.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/forward/device_answers.h"
#include "engine/model/forward/held_experts.h"
#include "engine/model/forward/hook_calls.h"
#include "engine/model/llama_model.h"
#include "kernels/blocks/blocks.h"
#include "kernels/execution/device_scope.h"
#include "kernels/execution/isa.h"
#include "kernels/ops/weight_type.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace refreshlab {

namespace {

using kernels::DeviceMatrix;
using kernels::DeviceModel;

const void* data(const at::Tensor& tensor) {
    return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

DeviceMatrix device_matrix(const at::Tensor& weight, const at::Tensor& bias = {}) {
    if (!weight.defined()) return {};
    if (!kernels::is_blocks(weight)) return {data(weight), data(bias), weight.size(0), weight.size(1)};
    const kernels::BlockShape shape = kernels::block_shape(weight);
    return {data(weight), data(bias), shape.out, shape.in, kernels::form_of(shape.type)};
}

kernels::LayerRope device_rope(Rope rope) {
    return rope == Rope::still   ? kernels::LayerRope::none
           : rope == Rope::local ? kernels::LayerRope::local
                                 : kernels::LayerRope::global;
}

DeviceModel device_model(const LlamaModel& model) {
    const ModelConfig& config = model.config();
    const LlamaWeights& weights = model.weights();
    DeviceModel result;
    result.type = kernels::weight_type(model.dtype()).value();
    result.hidden = LlamaWeights::held_width(config.hidden_size);
    result.width = config.hidden_size;
    result.ffn = LlamaWeights::held_width(config.intermediate_size);
    result.heads = config.num_heads;
    result.kv_heads = config.num_kv_heads;
    result.head_dim = config.head_dim;
    result.vocab = config.vocab_size;
    result.turned = config.rotary();
    result.norm_eps = config.rms_norm_eps;
    result.norm_offset = config.norm_offset;
    result.embedding_scale = config.embedding_scale;
    result.query_scale = config.query_scale;
    result.attention_cap = config.attention_cap;
    result.logit_cap = config.logit_cap;
    result.qk_norm_whole = config.qk_norm_whole;
    result.experts = held_experts(config);
    result.experts_normalised = config.experts.normalised;
    result.activation = config.activation;
    result.embedding = device_matrix(weights.embedding);
    result.final_norm = data(weights.final_norm);
    result.head = device_matrix(weights.head);
    for (size_t i = 0; i < weights.layers.size(); ++i) {
        const LlamaLayer& w = weights.layers[i];
        DeviceModel::Layer layer;
        layer.input_norm = data(w.input_norm);
        layer.post_norm = data(w.post_norm);
        layer.o_norm = data(w.o_norm);
        layer.down_norm = data(w.down_norm);
        layer.q_norm = data(w.q_norm);
        layer.k_norm = data(w.k_norm);
        layer.k = device_matrix(w.k, w.k_bias);
        layer.v = device_matrix(w.v, w.v_bias);
        if (w.attends) {
            layer.q = device_matrix(w.q, w.q_bias);
            layer.o = device_matrix(w.o, w.o_bias);
        }
        if (w.has_mlp && w.router.defined()) {
            layer.router = device_matrix(w.router);
            for (const ExpertWeights& expert : w.experts)
                layer.experts.push_back(
                    {device_matrix(expert.gate), device_matrix(expert.up), device_matrix(expert.down)});
        } else if (w.has_mlp) {
            layer.gate = device_matrix(w.gate, w.gate_bias);
            layer.up = device_matrix(w.up, w.up_bias);
            layer.down = device_matrix(w.down, w.down_bias);
        }
        layer.window = config.window(static_cast<int64_t>(i));
        layer.rope = device_rope(config.rope(static_cast<int64_t>(i)));
        result.layers.push_back(layer);
    }
    return result;
}

/// Matrices that one launch multiplies have one form.
bool in_one_form(const DeviceModel::Layer& layer) {
    const auto same = [](const DeviceMatrix& a, const DeviceMatrix& b) {
        return a.data == nullptr || b.data == nullptr || a.form == b.form;
    };
    return same(layer.k, layer.v) && same(layer.q, layer.k) && same(layer.gate, layer.up);
}

bool experts_in_one_form(const DeviceModel::Layer& layer) {
    if (layer.experts.empty()) return true;
    const DeviceModel::Layer::Expert& first = layer.experts[0];
    return layer.router.form == kernels::MatrixForm::numbers &&
           std::ranges::all_of(layer.experts, [&](const DeviceModel::Layer::Expert& e) {
               return e.gate.form == first.gate.form && e.up.form == first.gate.form &&
                      e.down.form == first.down.form;
           });
}

bool covered(const LlamaModel& model) {
    if (missing_in(Kernels::gpu, model.config())) return false;
    const DeviceModel device = device_model(model);
    const auto numbers = [](const DeviceMatrix& m) { return m.form == kernels::MatrixForm::numbers; };
    const bool blocks_fit =
        device.type == kernels::WeightType::bf16 ||
        (numbers(device.embedding) && numbers(device.head) &&
         std::ranges::all_of(device.layers, [&](const DeviceModel::Layer& l) {
             return numbers(l.q) && numbers(l.k) && numbers(l.v) && numbers(l.o) && numbers(l.gate) &&
                    numbers(l.up) && numbers(l.down) &&
                    (l.experts.empty() || (numbers(l.experts[0].gate) && numbers(l.experts[0].down)));
         }));
    return device.head_dim % 16 == 0 && device.head_dim <= 256 && device.head.outputs == device.vocab &&
           blocks_fit && std::ranges::all_of(device.layers, in_one_form) &&
           std::ranges::all_of(device.layers, experts_in_one_form);
}

/// A tap's row as hooks see it, [1, heads, n], 0 behind a list; memory of its own, because it may be kept.
/// \param stride  between the heads' rows
at::Tensor shown_rows(const float* rows, int64_t stride, int64_t heads, int64_t length,
                      std::span<const kernels::KeyList> lists) {
    int64_t n = lists.empty() ? length : 0;
    for (const kernels::KeyList& list : lists)
        n = std::max(n, list.n);
    const auto options = at::TensorOptions().dtype(at::kFloat);
    const at::Tensor shown =
        lists.empty() ? at::empty({1, heads, n}, options) : at::zeros({1, heads, n}, options);
    auto* const to = shown.mutable_data_ptr<float>();
    const int64_t group = lists.empty() ? heads : heads / std::ssize(lists);
    for (int64_t head = 0; head < heads; ++head) {
        const int64_t count = lists.empty() ? n : lists[static_cast<size_t>(head / group)].n;
        std::copy_n(rows + head * stride, count, to + head * n);
    }
    return shown;
}

} // namespace

/// Sessions on several threads share the model: a step takes a decoder and gives it back.
struct CudaForward::Decoders {
    const LlamaModel& model;
    kernels::MakeDecoder make;
    bool covered;
    struct Free {
        std::unique_ptr<kernels::DeviceDecoder> decoder;
        const void* cache = nullptr; ///< its last step's
    };
    std::mutex mutex;
    std::vector<Free> free;

    /// The one that has a graph for the cache, if it is free.
    [[nodiscard]] std::unique_ptr<kernels::DeviceDecoder> take(const void* cache) {
        {
            const std::lock_guard lock(mutex);
            auto found = std::ranges::find(free, cache, &Free::cache);
            if (found == free.end() && !free.empty()) found = free.begin();
            if (found != free.end()) {
                auto decoder = std::move(found->decoder);
                free.erase(found);
                return decoder;
            }
        }
        return make(device_model(model));
    }
    void give_back(std::unique_ptr<kernels::DeviceDecoder> decoder, const void* cache) {
        const std::lock_guard lock(mutex);
        free.push_back({std::move(decoder), cache});
    }
};

CudaForward::CudaForward(const LlamaModel& model, kernels::MakeDecoder make)
    : m_plain(model)
    , m_decoders(new Decoders{model, make, covered(model), {}, {}}) {}

CudaForward::~CudaForward() = default;

bool CudaForward::has_kernels() const {
    return m_decoders->covered;
}

/// One layer after the step, as its hooks see it. \param tap  null: nobody asked for the layer's row
void CudaForward::show(const kernels::DeviceDecoder& decoder, const kernels::DeviceStep& step, int64_t stride,
                       int64_t layer, const kernels::AttentionTap* tap, const KvCache& cache,
                       const HookCalls& hooks) const {
    const int64_t heads = model().config().num_heads, length = step.position + 1;
    LayerView view;
    view.layer = layer;
    view.positions = std::span(&step.position, 1);
    view.cache = &cache;
    if (step.lists != nullptr) view.lists = cache.lists(layer);
    if (step.entropies) {
        if (const HeadEntropies wanted = hooks.taps(layer).entropies; wanted.position == step.position) {
            std::copy_n(decoder.entropies() + layer * heads, heads, wanted.to);
            view.entropies = true;
        }
    }
    const auto index = static_cast<size_t>(tap == nullptr ? 0 : tap - step.taps.data());
    if (tap != nullptr && tap->halves) {
        const HalfRow row = hooks.taps(layer).half_row;
        std::copy_n(decoder.halves(index), heads * row.numbers(), row.to);
        view.half_row = true;
    }
    if (tap != nullptr && tap->floats)
        view.attention = shown_rows(decoder.floats(index), stride, heads, length, view.lists);
    hooks.observe(view);
}

/// A dense cache as the kernels see it; of any other the positions alone.
kernels::DeviceCache CudaForward::device_cache(const KvCache& cache) const {
    const auto [cos, sin] = model().rope_rows(Rope::global, cache.context(), 0, cache.capacity());
    kernels::DeviceCache device;
    if (cache.layout() == CacheLayout::dense) {
        device.k = cache.keys(0).mutable_data_ptr();
        device.v = cache.values(0).mutable_data_ptr();
    }
    device.capacity = cache.capacity();
    device.cos = cos.const_data_ptr<float>();
    device.sin = sin.const_data_ptr<float>();
    if (model().config().local_rope_theta > 0) {
        const auto [local_cos, local_sin] =
            model().rope_rows(Rope::local, cache.context(), 0, cache.capacity());
        device.local_cos = local_cos.const_data_ptr<float>();
        device.local_sin = local_sin.const_data_ptr<float>();
    }
    return device;
}

bool CudaForward::attends(int64_t layer) const {
    return model().weights().layers[static_cast<size_t>(layer)].attends;
}

bool CudaForward::runs(CacheLayout layout) const {
    if (!has_kernels() || layout == CacheLayout::coded || kernels::isa() == kernels::Isa::reference)
        return false;
    // The column of a layer whose attention is left out goes into a dense cache.
    return layout == CacheLayout::dense ||
           std::ranges::all_of(model().weights().layers, &LlamaLayer::attends);
}

StepOutputs CudaForward::prefill(KvCache& cache, const StepInputs& in) const {
    if (!runs(cache.layout()) || cache.layout() != CacheLayout::dense || !in.hooks.empty() ||
        in.soft != nullptr)
        return m_plain.prefill(cache, in);
    const c10::InferenceMode guard;
    const auto n = static_cast<int64_t>(in.tokens.size());
    RL_ASSERT(n > 0 && cache.length() + n <= cache.capacity() && in.mc.passes == 0);
    RL_ASSERT(std::ranges::all_of(in.tokens,
                                  [&](int32_t id) { return id >= 0 && id < model().config().vocab_size; }));
    const kernels::OnDevice on_device(model().device());
    const kernels::DeviceCache device = device_cache(cache);
    const int64_t wanted = in.rows == Rows::all ? n : in.rows == Rows::last ? 1 : 0;
    const at::Tensor logits = at::empty({wanted, model().config().vocab_size},
                                        at::TensorOptions().dtype(at::kFloat).device(model().device()));
    auto decoder = m_decoders->take(device.k);
    for (int64_t begin = 0; begin < n; begin += kernels::most_pass_rows) {
        const int64_t count = std::min(kernels::most_pass_rows, n - begin);
        const bool last = begin + count == n;
        kernels::DevicePass pass;
        pass.tokens = in.tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count));
        pass.first = cache.length();
        pass.rows = in.rows == Rows::all            ? kernels::DevicePass::Rows::all
                    : in.rows == Rows::last && last ? kernels::DevicePass::Rows::last
                                                    : kernels::DevicePass::Rows::none;
        if (pass.rows != kernels::DevicePass::Rows::none)
            pass.logits =
                logits.mutable_data_ptr<float>() + (in.rows == Rows::all ? begin * logits.size(1) : 0);
        decoder->extend(device, pass, kernels::current_stream(model().device()));
        cache.note_written(count);
        cache.commit(count, in.origin);
    }
    m_decoders->give_back(std::move(decoder), device.k);
    StepOutputs out;
    if (wanted == 0) return out;
    // In chunks, as the plain forward answers: what is made beside the rows stays small.
    for (int64_t begin = 0; begin < wanted && in.ask; begin += LlamaWeights::chunk_rows) {
        const int64_t count = std::min(LlamaWeights::chunk_rows, wanted - begin);
        auto part = kernels::summarize_rows(logits.narrow(0, begin, count), in.ask->part(begin, count));
        std::ranges::move(part, std::back_inserter(out.summary));
    }
    if (in.logits) out.logits = logits;
    return out;
}

StepOutputs CudaForward::read_only(const KvCache& cache, int64_t position, const StepInputs& in) const {
    return m_plain.read_only(cache, position, in);
}

/// What the hooks of a step at `position` want to see. Nothing: they want more than the kernels give.
std::optional<CudaForward::Wanted> CudaForward::find_taps(const HookCalls& hooks, bool listed,
                                                          int64_t position) const {
    Wanted all;
    std::vector<kernels::AttentionTap>& taps = all.rows;
    for (int64_t layer = 0; layer < model().config().num_layers && !hooks.empty(); ++layer) {
        const LayerTaps wanted = hooks.taps(layer);
        if (wanted.sums.defined() || wanted.raw_queries || wanted.all_rows) return std::nullopt;
        if (!attends(layer)) continue;
        const bool halves = wanted.half_row.position == position, floats = wanted.attention_from <= position;
        // Through lists numbers belong to entries, and who wants halves of every position makes them; bins are made by position.
        const int64_t bins = halves ? wanted.half_row.bins : 0;
        const bool by_device = halves && (!listed || bins > 0);
        if (halves || floats) taps.push_back({layer, by_device, floats || (halves && !by_device), bins});
        all.entropies |= wanted.entropies.position == position;
    }
    return all;
}

StepOutputs CudaForward::step(KvCache& cache, const StepInputs& in) const {
    const HookCalls hooks(in.hooks);
    const StepUse use = hooks.step_use();
    if (!runs(cache.layout()) || !use.rows_alone || use.choice == StepUse::Choice::by_queries)
        return m_plain.step(cache, in);
    const c10::InferenceMode guard;
    PlainForward::require_step(model(), cache, in);
    const int64_t position = cache.length();
    const bool listed = cache.layout() != CacheLayout::dense, chooses = use.choice == StepUse::Choice::ahead;
    const auto wanted = find_taps(hooks, listed, position);
    if (!wanted) return m_plain.step(cache, in);
    const std::vector<kernels::AttentionTap>& taps = wanted->rows;
    const kernels::OnDevice on_device(model().device());
    if (listed) cache.begin_listed_step();
    for (int64_t layer = 0; chooses && layer < model().config().num_layers; ++layer)
        hooks.select_ahead(layer, cache, std::span(&position, 1));

    kernels::DeviceCache device = device_cache(cache);
    const void* const key = listed ? &cache : device.k;
    auto decoder = m_decoders->take(key);
    PoolLists pools;
    kernels::DeviceLists lists;
    if (listed) {
        pools = cache.tell_kernels([&](uint64_t id, uint64_t version, int64_t capacity) {
            return decoder->holds_lists(id, version, capacity);
        });
        device.pools = std::move(pools.pools);
        device.list_capacity = pools.list_capacity;
        lists = {pools.cache, pools.version + 1, pools.whole, pools.offsets, pools.entries, pools.leaving};
    }
    const int64_t rows = in.mc.passes + 1;
    const DeviceAsk ask(in, model().config().vocab_size);
    at::Tensor logits;
    const auto make_logits = [&] {
        logits = at::empty({rows, model().config().vocab_size},
                           at::TensorOptions().dtype(at::kFloat).device(model().device()));
        return logits.mutable_data_ptr<float>();
    };
    kernels::DeviceStep step;
    RL_ASSERT(in.tokens[0] >= 0 && in.tokens[0] < model().config().vocab_size);
    step.token = in.tokens[0];
    step.position = position;
    step.rows = rows;
    step.seed = in.mc.seed;
    step.dropout = in.mc.p;
    step.drop_attention = in.mc.attention;
    step.drop_attention_output = in.mc.attention_output;
    step.drop_mlp_output = in.mc.mlp_output;
    if (in.logits || in.mc.passes > 0 || (in.ask && !ask.answers())) step.logits = make_logits();
    step.answers = ask.answers() || listed || !taps.empty() || wanted->entropies;
    step.taps = taps;
    step.entropies = wanted->entropies;
    ask.put_into(step);
    if (listed) step.lists = &lists;
    StepOutputs out;
    decoder->step(device, step, kernels::current_stream(model().device()));
    if (step.answers) {
        const kernels::DeviceAnswers& answers = decoder->wait_for_answers();
        if (ask.answers()) ask.read(answers, out);
    }
    if (step.logits == nullptr && gives_row(in, out))
        decoder->copy_logits(make_logits(), 1, kernels::current_stream(model().device()));
    if (listed) cache.kernels_are_done(decoder->left_rows());
    // Before the commit, as in a pass layer by layer: hooks may look at the cache.
    const int64_t stride = listed ? device.list_capacity : position + 1;
    const kernels::AttentionTap* tap = taps.data();
    for (int64_t layer = 0; layer < model().config().num_layers; ++layer) {
        if (!attends(layer)) {
            LayerView view;
            view.layer = layer;
            view.positions = std::span(&position, 1);
            view.left_out = true;
            hooks.observe(view);
            continue;
        }
        const bool asked = tap != taps.data() + taps.size() && tap->layer == layer;
        if (asked || chooses || listed || step.entropies)
            show(*decoder, step, stride, layer, asked ? tap : nullptr, cache, hooks);
        if (asked) ++tap;
    }
    m_decoders->give_back(std::move(decoder), key);
    if (!listed) cache.note_written(1);
    cache.commit(1, in.origin);

    if (in.ask && !ask.answers()) out.summary = kernels::summarize_rows(logits.narrow(0, 0, 1), *in.ask);
    if (gives_row(in, out)) out.logits = logits.narrow(0, 0, 1);
    if (in.mc.passes > 0) out.mc_logits = logits.narrow(0, 1, in.mc.passes);
    return out;
}

} // namespace refreshlab
