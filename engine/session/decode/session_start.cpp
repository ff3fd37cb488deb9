// From a configuration to the first chosen token: text, caches, prefill, hand-over.
#include "engine/base/error.h"
#include "engine/base/utc_now.h"
#include "engine/control/cache_choice.h"
#include "engine/control/model_files.h"
#include "engine/model/bridge/bridge.h"
#include "engine/model/repeated_heads.h"
#include "engine/session/decode/run_identity.h"
#include "engine/session/decode/session_impl.h"
#include "engine/session/pair/policy_aids.h"
#include "engine/session/parts/cache_signals.h"
#include "engine/session/parts/teacher_unread.h"
#include "engine/text/tokenizer/tokenizer.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t prefill_chunk =
    256; // small enough for a progress bar and a cancel, large enough to keep cores busy

/// What a person must know who gave a policy to a run that cannot use it.
std::string policy_note(const RunConfig& config) {
    const auto& triggers = config.policy.triggers;
    const bool asks = !config.policy.at.empty() ||
                      std::ranges::any_of(triggers, [](const Trigger& trigger) { return trigger.enabled; });
    return asks ? fmt::format("policy {} does nothing in mode {}: refreshes belong to mode overfill",
                              config.policy.name, to_string(config.mode))
                : std::string();
}

/// The same of a cache policy.
std::string idle_cache_note(const RunConfig& config) {
    const bool teacher = config.mode == Mode::student, student = config.mode == Mode::teacher;
    if (!(teacher && !config.teacher_cache.is_full()) && !(student && !config.student_cache.is_full()))
        return {};
    return fmt::format("cache policy {} does nothing in mode {}: the {} has no part in it",
                       teacher ? config.teacher_cache.policy : config.student_cache.policy,
                       to_string(config.mode), teacher ? "teacher" : "student");
}

} // namespace

DecodeSession::Impl::Impl(std::shared_ptr<const ModelPair> models, RunConfig run, Execution how,
                          SignalSources own, TensorPolicyFactory own_policy)
    : pair(std::move(models))
    , execution(std::move(how))
    , config(std::move(run))
    , given_sources(std::move(own))
    , given_policy(std::move(own_policy))
    , call_start(std::chrono::steady_clock::now()) {}

void DecodeSession::Impl::start(const std::function<bool(double)>& progress, const RunText* known) {
    const c10::InferenceMode guard;
    check_run(config);
    if (!config.task.kind.empty()) scorer = TaskScorer::create(config.task, config.prompt);
    text = known != nullptr ? *known : run_text(*pair, config);
    check_text();
    check_capture(config.capture);
    end_ids = pair->end_ids();
    capacity = text.capacity(config, pair->context());
    if (selects_per_query_head(decoder_policy())) give_query_heads_their_own();
    require_memory(memory_of_run(config, *pair, &text));
    make_cache_policy();

    call_start = std::chrono::steady_clock::now(); // submit: ids are ready
    chooser.emplace(text.given, prompt_length(), config.seed);
    const at::Tensor first_row = fill_caches(progress);
    const double prefill_ms = elapsed_ms();
    const Producer producer = config.mode == Mode::student ? Producer::student : Producer::teacher;
    pending = chooser->choose(first_row, prompt_length(), producer, config.sampler);
    const double ttft_ms = elapsed_ms();
    if (producer == Producer::teacher) {
        teacher->keep_row(first_row);
        pending.teacher_logprob = pending.logprob;
        pending.teacher_agrees = pending.top1_hit ? 1 : 0;
        pending.teacher_rank = teacher->last_rank(pending.id);
    }
    if (overfill()) make_boundary();
    sources.insert(sources.end(), given_sources.begin(), given_sources.end());

    RunInfo info = describe(ttft_ms, prefill_ms);
    info.published_signals = publish();
    recording = published = std::make_shared<Recording>(std::move(info), pair->tokenizer);
    for (CacheEvent& event : prefill_events)
        recording->add_cache_event(std::move(event));
    prefill_events.clear();
    if (cache_policy) {
        prefill_scores->copy_up_to(0, recording->entry_scores());
        cache_policy->set_scores(recording->entry_scores());
        prefill_scores.reset();
    }
    active_ms = ttft_ms;
    history.clear();
    remember();
    if (is_end(pending.id)) finish("stop_token");
}

void DecodeSession::Impl::give_query_heads_their_own() {
    if (bridges())
        throw Error(
            "starting a run", fmt::format("cache policy {}", decoder_policy().policy),
            "chooses for each query head (compat_per_query_head), and a bridge makes entries of KV heads",
            "leave it off, or take mode student");
    auto wide = std::make_shared<ModelPair>(*pair);
    if (config.mode != Mode::student) wide->teacher = with_kv_per_query_head(*pair->teacher);
    const bool twins = overfill() && pair->teacher == pair->student;
    if (config.mode != Mode::teacher)
        wide->student = twins ? wide->teacher : with_kv_per_query_head(*pair->student);
    pair = std::move(wide);
}

void DecodeSession::Impl::check_text() const {
    if (prompt().empty()) throw Error("starting a run", "the prompt", "gives no tokens");
    const int64_t context = pair->context();
    if (prompt_length() >= context) {
        throw Error("starting a run", "the prompt",
                    fmt::format("has {} tokens and the models' context is {}", prompt_length(), context),
                    "shorten it");
    }
    const int64_t vocab = decoder().config().vocab_size;
    for (const auto* ids : {&text.prompt.ids, &text.given}) {
        for (const int32_t id : *ids) {
            if (id >= 0 && id < vocab) continue;
            throw Error("starting a run", ids == &text.prompt.ids ? "the prompt" : "the given text",
                        fmt::format("token id {} is outside the model's vocabulary of {}", id, vocab),
                        "tokenizer.json and config.json do not belong together");
        }
    }
}

void DecodeSession::Impl::check_capture(const CaptureConfig& capture) const {
    const int64_t layers = decoder().config().num_layers;
    for (const int32_t layer : capture.layers) {
        if (layer < layers) continue;
        throw Error("setting", "capture.layers",
                    fmt::format("there is no layer {}: the model that decodes has {}", layer, layers),
                    fmt::format("0 to {}, or all", layers - 1));
    }
}

at::Tensor DecodeSession::Impl::fill_caches(const std::function<bool(double)>& progress) {
    const auto share = [&progress](double first, double part) -> std::function<bool(double)> {
        return [&progress, first, part](double fraction) {
            return !progress || progress(first + part * fraction);
        };
    };
    if (config.mode == Mode::student) {
        student_cache = pair->student->make_cache(capacity, layout());
        listen(*student_cache, false);
        const at::Tensor last = prefill(pair->student->forward(), *student_cache, Origin::student_prefill,
                                        adopt_saved(*student_cache, Origin::student_prefill), share(0, 1));
        start_cache_policy();
        return last;
    }
    teacher = std::make_unique<TeacherReader>(
        pair->teacher->forward(),
        pair->teacher->make_cache(capacity, overfill() ? CacheLayout::dense : layout()),
        bridges() ? std::make_unique<BridgedCache>(*pair->bridge, *pair->teacher, *pair->student, capacity)
                  : nullptr);
    listen(teacher->cache(), true);
    const at::Tensor row =
        prefill(pair->teacher->forward(), teacher->cache(), Origin::teacher_prefill,
                adopt_saved(teacher->cache(), Origin::teacher_prefill), share(0, rebuilds() ? 0.7 : 1));
    if (!overfill()) {
        start_cache_policy();
        return row;
    }
    teacher->follow();
    student_cache = pair->student->make_cache(capacity, layout());
    listen(*student_cache, false);
    if (rebuilds()) {
        static_cast<void>(
            prefill(pair->student->forward(), *student_cache, Origin::student_prefill, 0, share(0.7, 0.3)));
    } else {
        student_cache->adopt_prefix(teacher->entries(), prompt_length());
    }
    start_cache_policy();
    return row;
}

void DecodeSession::Impl::start_cache_policy() {
    if (!cache_policy) return;
    // The tokens of a given text that will be fed: the last one is recorded alone.
    const auto fed =
        std::clamp<int64_t>(std::min(limit() - 1, capacity - prompt_length()), 0, std::ssize(text.given));
    cache_policy->foresee(decoder(), decoder_cache(), prompt(),
                          std::span(text.given).first(static_cast<size_t>(fed)));
    backing = make_backing(cache_policy->needs(), decoder(), decoder_cache(),
                           overfill() ? &teacher->entries() : nullptr,
                           [this](int64_t position) { return token_at(position); });
    if (backing) cache_policy->set_backing(*backing);
    prefill_scores.emplace(decoder().config().num_layers * decoder().config().num_kv_heads);
    cache_policy->set_scores(*prefill_scores);
    cache_policy->finish_prompt(decoder_cache());
}

at::Tensor DecodeSession::Impl::prefill(const Forward& forward, KvCache& cache, Origin origin, int64_t first,
                                        const std::function<bool(double fraction)>& progress) const {
    at::Tensor row;
    for (int64_t done = first; done < prompt_length();) {
        const int64_t n = std::min(prefill_chunk, prompt_length() - done);
        StepInputs in;
        in.tokens = std::span(prompt()).subspan(static_cast<size_t>(done), static_cast<size_t>(n));
        in.origin = origin;
        in.rows = done + n == prompt_length() ? Rows::last : Rows::none;
        LayerHooks* const hooks[] = {cache_policy.get()};
        // Behind a bridge the policy does not look at the prompt: its reader has other layers and heads.
        if (cache_policy && !bridges()) in.hooks = hooks;
        row = forward.prefill(cache, in).logits;
        done += n;
        if (!progress(static_cast<double>(done) / static_cast<double>(prompt_length())))
            throw Error("starting a run", {}, "cancelled");
    }
    return row[0];
}

void DecodeSession::Impl::make_cache_policy() {
    check_cache_choice(config, {pair->context(), pair->rebuild_reason().value_or(""), !text.given.empty()});
    const CachePolicyConfig& policy = decoder_policy();
    if (policy.is_full()) return;
    const LlamaModel& reader = config.mode == Mode::student ? *pair->student : *pair->teacher;
    PolicyAids aids = read_policy_aids(config, *pair);
    aids.own = given_policy;
    cache_policy =
        std::make_unique<PolicyRunner>(policy, decoder().config(), reader.config(), reader.device(),
                                       prompt_length(), config.seed, std::move(aids));
    if (overfill() && cache_policy->needs().prompt_band > 0)
        throw Error("starting a run", fmt::format("cache policy {}", policy.policy),
                    "puts a band over the prompt (banded_prefill), which the teacher reads here: its entries "
                    "are the whole prompt's",
                    "modes student and teacher have it");
    sources.push_back(std::make_shared<CacheSignals>(*cache_policy));
}

CacheLayout DecodeSession::Impl::layout() const {
    return cache_policy ? cache_policy->layout() : CacheLayout::dense;
}

void DecodeSession::Impl::listen(KvCache& cache, bool of_teacher) {
    cache.set_listener([this, of_teacher](CacheEvent event) {
        event.teacher = of_teacher;
        event.step = recording ? t + 1 : 0;
        if (recording) {
            if (of_teacher && waiting()) draft_reads.push_back(event);
            recording->add_cache_event(std::move(event));
        } else {
            prefill_events.push_back(std::move(event));
        }
    });
}

void DecodeSession::Impl::make_boundary() {
    ring.emplace(std::min(ring_rows, capacity), decoder().config().vocab_size, pair->student->device());
    boundary.emplace(RefreshBoundary::Parts{config, pair->student->forward(), *student_cache, *teacher, *ring,
                                            *chooser, rebuilds(), prompt_length(), cache_policy.get()});
    sources.push_back(std::make_shared<TeacherUnread>(*teacher, *student_cache));
}

std::vector<PublishedSignal> DecodeSession::Impl::publish() {
    std::vector<PublishedSignal> all;
    for (const auto& source : sources) {
        std::vector<size_t>& ids = source_ids.emplace_back();
        for (PublishedSignal& signal : source->published()) {
            ids.push_back(published_id(all.size()));
            all.push_back(std::move(signal));
        }
    }
    if (overfill()) { // signals that the policy brings along
        for (size_t i = 0; i < config.policy.signals.size(); ++i) {
            own_ids.push_back(published_id(all.size()));
            all.push_back(published_form(config.policy.signals[i], i));
        }
    }
    // Before the first step: a policy may name what was published.
    if (overfill()) {
        check_run_policy(config.policy, signal_table(all), decoder().config().num_layers, "the policy");
        check_scope(config, scope_model(), "the run");
    }
    return all;
}

ScopeModel DecodeSession::Impl::scope_model() const {
    const ModelConfig& shape = decoder().config();
    return {shape.num_layers, shape.num_kv_heads, rebuilds()};
}

RunInfo DecodeSession::Impl::describe(double ttft_ms, double prefill_ms) const {
    RunInfo info;
    info.id = text.run_id.empty() ? new_run_id() : text.run_id;
    info.config = with_file_digests(config);
    // Also what was looked for beside the student and not found: a replay must not find one that came later.
    info.config.bridge.digest = bridges() ? pair->bridge_file->digest : rebuilds() ? no_bridge : "";
    info.rendered_prompt = text.prompt.text;
    info.prompt_ids = prompt();
    info.first_token = is_end(pending.id) ? -1 : pending.id;
    info.first_producer = pending.producer;
    info.first_logprob = pending.logprob;
    const ModelConfig& shape = decoder().config();
    info.vocab_size = shape.vocab_size;
    info.layers = shape.num_layers;
    info.heads = shape.num_heads;
    info.kv_heads = shape.num_kv_heads;
    info.head_dim = shape.head_dim;
    const std::array<const KvCache*, 3> caches{teacher ? &teacher->cache() : nullptr, student_cache.get(),
                                               bridges() ? &teacher->entries() : nullptr};
    for (const KvCache* cache : caches) {
        if (cache == nullptr) continue;
        info.cache_bytes_per_token += 2 * cache->num_layers() * cache->num_kv_heads() * cache->head_dim() *
                                      static_cast<int64_t>(c10::elementSize(cache->dtype()));
    }
    info.ttft_ms = ttft_ms;
    info.prefill_ms = prefill_ms;
    info.device = decoder().device().str();
    info.dtype = std::string(to_string(config.dtype));
    info.threads = execution->num_threads();
    info.kernel_set = kernel_set_of(*pair, *execution);
    info.started_at = utc_now();
    info.versions = writer_versions();
    info.rebuild = rebuilds();
    info.text_rule = pair->tokenizer->text_rule();
    info.note = overfill() ? pair->note() : policy_note(config);
    if (const std::string idle = idle_cache_note(config); !idle.empty())
        info.note += (info.note.empty() ? "" : "; ") + idle;
    if (!start_note.empty()) info.note += (info.note.empty() ? "" : "; ") + start_note;
    if (rebuilds() && verifies(config.policy))
        info.note += "; verification splices nothing: the student drafts on its own entries";
    if (config.mode != Mode::teacher) info.derived = pair->derived;
    return info;
}

} // namespace refreshlab
