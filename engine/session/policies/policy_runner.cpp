#include "engine/session/policies/policy_runner.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/control/cache_choice.h"
#include "engine/model/gates/gate_inputs.h"
#include "engine/model/gates/soft_reading.h"
#include "engine/model/llama_model.h"
#include "engine/model/model_config.h"
#include "engine/policies/outside_policy.h"
#include "engine/record/recording/cache_state.h"
#include "engine/session/policies/backing.h"
#include "engine/session/policies/output_norms.h"
#include "engine/session/policies/window_embeddings.h"
#include "engine/signals/registry.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace refreshlab {

namespace {

/// A tensor of three dimensions as a policy sees it; `host` keeps the numbers.
Cube cube_of(const at::Tensor& tensor, at::Tensor& host) {
    host = tensor.to(at::kCPU, at::kFloat).contiguous();
    return {host.const_data_ptr<float>(), host.size(0), host.size(1), host.size(2)};
}

/// The last n rows of [rows, ...].
at::Tensor last_rows(const at::Tensor& rows, int64_t n) {
    return rows.narrow(0, rows.size(0) - n, n);
}

PolicyContext context_of(const ModelConfig& model, int64_t prompt_length, uint64_t seed,
                         std::shared_ptr<const CacheProfile> profile) {
    PolicyContext context;
    context.layers = model.num_layers;
    context.heads = model.num_heads;
    context.kv_heads = model.num_kv_heads;
    context.head_dim = model.head_dim;
    context.prompt_length = prompt_length;
    context.seed = seed;
    context.rope_frequencies = rope_frequencies(model);
    context.layer_turns = model.layer_turns;
    context.profile = std::move(profile);
    return context;
}

std::unique_ptr<CachePolicy> policy_of(const CachePolicyConfig& config, const PolicyContext& context,
                                       const TensorPolicyFactory& own) {
    if (!is_outside_policy(config.policy)) return make_cache_policy(config, context);
    if (own == nullptr)
        throw Error("starting a run", fmt::format("cache policy {}", outside_policy_name(config.policy)),
                    "is written in Python, and nobody has brought it",
                    "pair.session() and pair.branch() of the package of Python take it as cache=");
    return own(context);
}

} // namespace

PolicyAids aids_of(const CachePolicyConfig& policy, const ModelGates& at_hand, const ModelConfig& model) {
    PolicyAids aids;
    if (const auto found = at_hand.find(policy.policy); found != at_hand.end())
        aids.prompt = aids.steps = found->second;
    if (find_cache_method(policy.policy)->profile != nullptr)
        aids.profile =
            std::make_shared<CacheProfile>(even_profile(policy.policy, context_of(model, 0, 0, nullptr)));
    return aids;
}

/// Of each layer: what the policy asked for, chunk after chunk.
struct PolicyRunner::Prompt {
    Prompt(int64_t layers, int64_t kv_heads, int64_t length)
        : edits(layers, kv_heads, length)
        , sums(static_cast<size_t>(layers))
        , rows(static_cast<size_t>(layers))
        , queries(static_cast<size_t>(layers))
        , gate(static_cast<size_t>(layers)) {}
    PromptEdits edits;
    std::vector<at::Tensor> sums;                 ///< [heads, length] on the device of the pass
    std::vector<std::vector<at::Tensor>> rows;    ///< parts [n, heads, keys so far]
    std::vector<std::vector<at::Tensor>> queries; ///< parts [n, heads, head_dim]
    std::vector<std::vector<at::Tensor>> gate;    ///< parts of TokenGate::scores()
};

/// What a step read, once more.
class PolicyRunner::Again final : public LayerHooks {
public:
    explicit Again(PolicyRunner& runner)
        : m_runner(runner) {}
    const HeadPositions* select(const LayerView& view) override {
        const auto& chosen = m_runner.m_chosen[static_cast<size_t>(view.layer)];
        if (!chosen) return nullptr;
        if (m_runner.m_backing != nullptr) {
            m_runner.borrow_missing(view.layer, *chosen);
            return &*chosen;
        }
        m_held.assign(chosen->size(), {});
        for (size_t head = 0; head < chosen->size(); ++head) {
            std::ranges::set_intersection((*chosen)[head],
                                          view.cache->held(view.layer, static_cast<int64_t>(head)),
                                          std::back_inserter(m_held[head]));
        }
        return &m_held;
    }
    void observe(const LayerView& view) override { m_runner.m_cache->give_back(view.layer); }

private:
    PolicyRunner& m_runner;
    HeadPositions m_held;
};

/// Shows the rows of a text, layer by layer and part by part.
class PolicyRunner::Foresight final : public LayerHooks {
public:
    Foresight(CachePolicy& policy, int64_t first_pos)
        : m_policy(policy)
        , m_first_pos(first_pos) {}
    [[nodiscard]] LayerTaps taps(int64_t) const override {
        LayerTaps taps;
        taps.attention_from = m_first_pos;
        return taps;
    }
    void observe(const LayerView& view) override {
        if (view.left_out || !view.attention.defined()) return;
        FutureView future;
        at::Tensor rows;
        future.layer = view.layer;
        future.rows = cube_of(view.attention, rows);
        future.first_pos = view.positions.back() + 1 - future.rows.n0;
        m_policy.read_future(future);
    }

private:
    CachePolicy& m_policy;
    int64_t m_first_pos;
};

PolicyRunner::PolicyRunner(const CachePolicyConfig& config, const ModelConfig& model,
                           const ModelConfig& reader, at::Device device, int64_t prompt_length, uint64_t seed,
                           PolicyAids aids)
    : m_context(context_of(model, prompt_length, seed, aids.profile))
    , m_policy(policy_of(config, m_context, aids.own))
    , m_takes_tensors(is_outside_policy(config.policy))
    , m_needs(m_policy->needs())
    , m_aids(std::move(aids))
    , m_prompt(std::make_unique<Prompt>(model.num_layers, model.num_kv_heads, prompt_length))
    , m_chosen(static_cast<size_t>(model.num_layers))
    , m_unread(static_cast<size_t>(model.num_layers * model.num_kv_heads))
    , m_entries_read(static_cast<size_t>(model.num_layers), absent())
    , m_again(std::make_unique<Again>(*this)) {
    RL_ASSERT(!selects_per_query_head(config) || model.num_kv_heads == model.num_heads);
    RL_ASSERT(!m_needs.prompt_gate || m_aids.prompt != nullptr);
    RL_ASSERT(!(m_needs.step_gate || m_needs.soft_tokens) || m_aids.steps != nullptr);
    if (m_needs.prompt_gate) m_reader_rope = RopeTable(reader, device);
    if (m_needs.step_gate) m_rope = RopeTable(model, m_aids.steps->device());
    m_needs.prompt_rows = std::min(m_needs.prompt_rows, prompt_length);
    m_needs.prompt_queries = std::min(m_needs.prompt_queries, prompt_length);
    for (at::Tensor& sums : m_prompt->sums) {
        if (m_needs.prompt_sums)
            sums = at::zeros({reader.num_heads, prompt_length},
                             at::TensorOptions().dtype(at::kFloat).device(device));
    }
    const auto keeps = config.values.find("keep_positions");
    if (const auto missing = missing_in(Kernels::sinks, model);
        missing && keeps != config.values.end() && keeps->second == 0)
        throw Error("starting a run", fmt::format("cache policy {}", config.policy),
                    fmt::format("turns keys to new positions, and the model has {}", *missing),
                    "set keep_positions=true");
    const bool looks =
        m_needs.prompt_rows > 0 || m_needs.prompt_sums || m_needs.prompt_queries > 0 || m_needs.output_norms;
    const bool goes_by_reader = looks || m_needs.prompt_gate || m_aids.profile != nullptr;
    if (const auto difference = geometry_difference(reader, model); goes_by_reader && difference)
        throw Error(
            "starting a run", fmt::format("cache policy {}", config.policy),
            fmt::format("goes by how the prompt is read, by the teacher, whose cache is another one ({})",
                        *difference),
            "take one that does not look at the prompt: sliding_window, streaming_llm or random");
    if (looks && reader.num_heads != model.num_heads) {
        throw Error(
            "starting a run", fmt::format("cache policy {}", config.policy),
            fmt::format("reads the prompt's attention, which is the teacher's, and the models have {} and {} "
                        "query heads",
                        reader.num_heads, model.num_heads),
            "take one that does not look at the prompt: sliding_window, streaming_llm or random");
    }
}

PolicyRunner::~PolicyRunner() = default;

LayerHooks& PolicyRunner::again() {
    return *m_again;
}

CacheLayout PolicyRunner::layout() const {
    if (!m_needs.edits) return CacheLayout::dense;
    return m_needs.encodes ? CacheLayout::coded : CacheLayout::pooled;
}

void PolicyRunner::foresee(const LlamaModel& model, const KvCache& cache, std::span<const int32_t> prompt,
                           std::span<const int32_t> given) {
    RL_ASSERT(m_prompt != nullptr && cache.length() == m_context.prompt_length);
    RL_ASSERT(std::ssize(prompt) == m_context.prompt_length);
    m_guess.emplace(model, m_needs.guess_own_norm);
    std::vector<int32_t> tokens;
    if (m_needs.future) tokens.assign(given.begin(), given.end());
    const auto again = prompt.last(static_cast<size_t>(std::min(m_needs.pseudo_tokens, std::ssize(prompt))));
    for (size_t i = 0; i < static_cast<size_t>(m_needs.pseudo_tokens); ++i)
        tokens.push_back(again[i % again.size()]);
    if (m_needs.window_embeddings > 0) {
        at::Tensor host;
        const at::Tensor windows = embedded_windows(model, prompt, m_needs.window_embeddings);
        for (const int64_t position : m_policy->read_again(cube_of(windows.unsqueeze(0), host)))
            tokens.push_back(prompt[static_cast<size_t>(position)]);
    }
    const int64_t rows = m_needs.soft_tokens ? m_aids.steps->soft_tokens().size(0) : std::ssize(tokens);
    if (rows == 0) return;
    const std::unique_ptr<KvCache> copy =
        cache.clone(std::max<int64_t>(m_context.prompt_length + rows - cache.capacity(), 0));
    Foresight foresight(*m_policy, m_context.prompt_length);
    if (m_needs.soft_tokens) {
        read_soft_tokens(model, *copy, *m_aids.steps, foresight);
        return;
    }
    LayerHooks* const hooks[] = {&foresight};
    StepInputs in;
    in.tokens = tokens;
    in.rows = Rows::none;
    in.hooks = hooks;
    static_cast<void>(model.forward().prefill(*copy, in));
}

void PolicyRunner::share_prompt_sums(const PolicyRunner& other) {
    RL_ASSERT(m_prompt != nullptr && other.m_prompt != nullptr);
    RL_ASSERT(m_needs.prompt_sums && other.m_needs.prompt_sums);
    RL_ASSERT(m_prompt->sums[0].sizes() == other.m_prompt->sums[0].sizes());
    m_prompt->sums = other.m_prompt->sums;
    m_sums_of_other = true;
}

void PolicyRunner::set_scores(EntryScores& scores) {
    m_scores = &scores;
    if (m_edits) m_edits->set_scores(m_scores);
}

void PolicyRunner::finish_prompt(KvCache& cache) {
    RL_ASSERT(m_prompt != nullptr && cache.length() == m_context.prompt_length);
    RL_ASSERT(!m_needs.edits || cache.layout() == layout());
    m_cache = &cache;
    m_edits.emplace(cache);
    m_edits->set_scores(m_scores);
    m_prompt->edits.apply(*m_edits);
    show({.cache = &cache});
    m_policy->finish_prompt(*m_edits);
    cache.tell_edits();
    m_prompt.reset();
}

void PolicyRunner::begin_step(int64_t step) {
    RL_ASSERT(m_prompt == nullptr);
    m_step = step;
    m_edits->set_step(step);
    if (m_backing != nullptr) m_backing->begin_step();
    m_below.reset();
    std::ranges::fill(m_chosen, std::nullopt);
    std::ranges::fill(m_entries_read, absent());
}

void PolicyRunner::tell_read() {
    if (m_needs.borrows()) return;
    for (int64_t layer = 0; layer < m_context.layers; ++layer) {
        const auto& chosen = m_chosen[static_cast<size_t>(layer)];
        const auto of_head = [&](int64_t head) -> std::vector<int64_t>& {
            return m_unread[static_cast<size_t>(layer * m_context.kv_heads + head)];
        };
        std::vector<std::vector<int64_t>> unread(static_cast<size_t>(m_context.kv_heads));
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            auto& now = unread[static_cast<size_t>(head)];
            if (chosen)
                std::ranges::set_difference(m_cache->held(layer, head), (*chosen)[static_cast<size_t>(head)],
                                            std::back_inserter(now));
            std::vector<int64_t> left;
            std::ranges::set_difference(now, of_head(head), std::back_inserter(left));
            m_cache->note_read(layer, head, left, false);
        }
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            std::vector<int64_t> again, held;
            std::ranges::set_difference(of_head(head), unread[static_cast<size_t>(head)],
                                        std::back_inserter(again));
            std::ranges::set_intersection(again, m_cache->held(layer, head), std::back_inserter(held));
            m_cache->note_read(layer, head, held, true);
            of_head(head) = std::move(unread[static_cast<size_t>(head)]);
        }
    }
    m_cache->tell_edits();
}

void PolicyRunner::continue_telling(const CacheState& told) {
    for (int64_t layer = 0; layer < m_context.layers; ++layer) {
        for (int64_t head = 0; head < m_context.kv_heads; ++head) {
            auto& unread = m_unread[static_cast<size_t>(layer * m_context.kv_heads + head)];
            unread.clear();
            const auto& state = told.plane(layer, head).state;
            for (size_t p = 0; p < state.size(); ++p)
                if (state[p] == EntryState::kept) unread.push_back(static_cast<int64_t>(p));
        }
    }
}

void PolicyRunner::set_values(const CachePolicyConfig& config) {
    m_policy->set_values(CacheValues(config.values));
}

void PolicyRunner::refreshed(const EntrySelection& written) {
    if (m_backing != nullptr) m_backing->begin_step(); // it may have brought what was overwritten
    show({.cache = m_cache});
    m_policy->refreshed(written, *m_edits);
}

void PolicyRunner::show(const PolicyTensors& tensors) {
    if (m_takes_tensors) static_cast<TensorPolicy&>(*m_policy).show(tensors);
}

std::shared_ptr<const CachePolicy> PolicyRunner::mark() const {
    return m_policy->clone();
}
void PolicyRunner::restore(const CachePolicy& mark) {
    m_policy = mark.clone();
}
void PolicyRunner::back_to_step(int64_t step) {
    m_step = step;
    m_edits->set_step(step);
}

std::vector<float> PolicyRunner::entries_held() const {
    std::vector<float> held;
    for (int64_t layer = 0; layer < m_context.layers; ++layer) {
        int64_t entries = 0;
        for (int64_t head = 0; head < m_context.kv_heads; ++head)
            entries += std::ssize(m_cache->held(layer, head));
        held.push_back(static_cast<float>(entries) / static_cast<float>(m_context.kv_heads));
    }
    return held;
}

LayerTaps PolicyRunner::taps(int64_t layer) const {
    LayerTaps taps;
    taps.raw_queries = m_needs.raw_queries;
    if (m_prompt == nullptr) {
        if (m_needs.row) taps.attention_from = 0;
        return taps;
    }
    if (m_needs.prompt_rows > 0) taps.attention_from = m_context.prompt_length - m_needs.prompt_rows;
    if (m_needs.prompt_sums && !m_sums_of_other) taps.sums = m_prompt->sums[static_cast<size_t>(layer)];
    // The last layer runs its queries only where somebody asks for them.
    if (m_needs.prompt_queries > 0) {
        taps.attention_from = std::min(taps.attention_from, m_context.prompt_length - m_needs.prompt_queries);
    }
    // A gate scores every row of the prompt, also those of the last layer that nobody else needs.
    taps.all_rows = m_needs.prompt_gate;
    return taps;
}

StepUse PolicyRunner::step_use() const {
    const bool looks = m_needs.query || m_needs.rotated_query || m_needs.raw_queries ||
                       m_needs.guessed_query || m_needs.step_gate;
    // What is decoded for attention, or borrowed while a layer reads, is brought layer by layer.
    if (m_prompt != nullptr || looks || m_needs.encodes || m_needs.borrows() || m_takes_tensors) return {};
    return {StepUse::Choice::ahead, true};
}

const HeadPositions* PolicyRunner::select(const LayerView& view) {
    if (m_prompt != nullptr) return nullptr;
    StepView step;
    step.layer = view.layer;
    step.position = view.positions.back();
    step.step = m_step;
    at::Tensor query, rotated, guessed;
    if (m_needs.query) {
        const at::Tensor& asked = m_needs.raw_queries ? view.raw_q : view.q;
        step.query = cube_of(last_rows(asked, 1), query);
    }
    if (m_needs.rotated_query) step.rotated_query = cube_of(last_rows(view.q, 1), rotated);
    if (m_needs.guessed_query) {
        RL_ASSERT(m_guess.has_value());
        if (m_below.defined())
            step.guessed_query =
                cube_of(m_guess->queries(view.layer, m_below, step.position, view.cache->context()), guessed);
        m_below = last_rows(view.input, 1).clone();
    }
    show({.cache = m_cache, .query = query});
    const HeadPositions* chosen = m_policy->before_attention(step, *m_edits);
    if (chosen == nullptr) return nullptr;
    for (const auto& positions : *chosen)
        RL_ASSERT(!positions.empty() && positions.back() == step.position);
    m_chosen[static_cast<size_t>(view.layer)] = *chosen;
    if (m_backing != nullptr) borrow_missing(view.layer, *chosen);
    return chosen;
}

void PolicyRunner::borrow_missing(int64_t layer, const HeadPositions& chosen) {
    for (int64_t head = 0; head < m_context.kv_heads; ++head) {
        std::vector<int64_t> missing;
        std::ranges::set_difference(chosen[static_cast<size_t>(head)], m_cache->held(layer, head),
                                    std::back_inserter(missing));
        if (!missing.empty()) m_cache->borrow(layer, head, missing, m_backing->fetch(layer, head, missing));
    }
}

void PolicyRunner::attend(int64_t, kernels::AttentionInputs& inputs) {
    if (m_prompt == nullptr || m_needs.prompt_band == 0) return;
    m_first.clear();
    for (size_t row = 0; row < inputs.num_visible.size(); ++row) {
        const int64_t models = inputs.first_visible.empty() ? 0 : inputs.first_visible[row];
        m_first.push_back(std::max(models, inputs.num_visible[row] - m_needs.prompt_band));
    }
    inputs.first_visible = m_first;
}

void PolicyRunner::observe(const LayerView& view) {
    if (m_prompt != nullptr) {
        gather(view);
    } else if (!view.left_out) {
        watch(view);
    }
}

void PolicyRunner::gather(const LayerView& view) {
    const auto layer = static_cast<size_t>(view.layer);
    const int64_t length = m_context.prompt_length, end = view.positions.back() + 1;
    if (view.left_out) return;
    const auto part = [&](const at::Tensor& rows, int64_t wanted, std::vector<at::Tensor>& parts) {
        // The rows are those of the newest positions; of them, those of the prompt's last `wanted`.
        const int64_t n = std::min(rows.size(0), end - (length - wanted));
        if (n > 0) parts.push_back(last_rows(rows, n).clone());
    };
    if (m_needs.prompt_rows > 0 && view.attention.defined())
        part(view.attention, m_needs.prompt_rows, m_prompt->rows[layer]);
    if (m_needs.prompt_queries > 0 && view.q.defined())
        part(m_needs.raw_queries ? view.raw_q : view.q, m_needs.prompt_queries, m_prompt->queries[layer]);
    if (m_needs.prompt_gate)
        m_prompt->gate[layer].push_back(
            m_aids.prompt->scores(view.layer, gate_inputs(view, m_reader_rope), running_math()));
    if (end < length) return;

    PromptView prompt;
    prompt.layer = view.layer;
    prompt.length = length;
    at::Tensor rows, sums, queries, norms, gate;
    if (m_needs.prompt_gate) {
        const at::Tensor scores =
            m_aids.prompt->together(view.layer, at::cat(m_prompt->gate[layer]), running_math());
        prompt.gate = cube_of(scores.t().unsqueeze(0), gate);
        RL_ASSERT(prompt.gate.n2 == length);
    }
    if (m_needs.output_norms) {
        norms = output_norms(*view.cache, view.layer, length, view.output, m_context.heads);
        prompt.output_norms = {norms.const_data_ptr<float>(), 1, m_context.heads, length};
    }
    if (m_needs.prompt_rows > 0) {
        at::Tensor all = at::zeros({m_needs.prompt_rows, m_context.heads, length});
        int64_t first = 0;
        for (const at::Tensor& some : m_prompt->rows[layer]) {
            all.narrow(0, first, some.size(0)).narrow(2, 0, some.size(2)).copy_(some);
            first += some.size(0);
        }
        RL_ASSERT(first == m_needs.prompt_rows);
        prompt.rows = cube_of(all, rows);
    }
    if (m_needs.prompt_sums) prompt.sums = cube_of(m_prompt->sums[layer].unsqueeze(0), sums);
    if (m_needs.prompt_queries > 0) {
        prompt.queries = cube_of(at::cat(m_prompt->queries[layer]), queries);
        RL_ASSERT(prompt.queries.n0 == m_needs.prompt_queries);
    }
    m_prompt->edits.set_source(*view.cache);
    show({view.cache, rows, sums, queries, norms});
    m_policy->read_prompt(prompt, m_prompt->edits);
    m_prompt->rows[layer].clear();
    m_prompt->queries[layer].clear();
    m_prompt->gate[layer].clear();
    m_prompt->sums[layer] = at::Tensor();
}

void PolicyRunner::watch(const LayerView& view) {
    StepView step;
    step.layer = view.layer;
    step.position = view.positions.back();
    step.step = m_step;
    std::vector<std::span<const int64_t>> read;
    int64_t entries = 0;
    for (int64_t head = 0; head < m_context.kv_heads; ++head) {
        const auto at = static_cast<size_t>(head);
        read.push_back(view.lists.empty()
                           ? m_cache->held(view.layer, head)
                           : std::span(view.lists[at].positions, static_cast<size_t>(view.lists[at].n)));
        entries += std::ssize(read.back());
    }
    m_entries_read[static_cast<size_t>(view.layer)] =
        static_cast<float>(entries) / static_cast<float>(m_context.kv_heads);
    step.read = read;
    at::Tensor query, row, gate;
    if (m_needs.query) {
        const at::Tensor& asked = m_needs.raw_queries ? view.raw_q : view.q;
        step.query = cube_of(last_rows(asked, 1), query);
    }
    if (m_needs.row) step.row = cube_of(last_rows(view.attention, 1), row);
    if (m_needs.step_gate)
        step.gate = cube_of(
            m_aids.steps->scores(view.layer, gate_inputs(view, m_rope), running_math()).t().unsqueeze(0),
            gate);
    m_cache->give_back(view.layer);
    show({.cache = m_cache, .rows = row, .query = query});
    m_policy->after_attention(step, *m_edits);
}

} // namespace refreshlab
