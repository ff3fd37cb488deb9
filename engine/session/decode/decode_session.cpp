#include "engine/session/decode/decode_session.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_text.h"
#include "engine/control/parameters.h"
#include "engine/model/sampler.h"
#include "engine/session/decode/run_identity.h"
#include "engine/session/decode/session_prompt.h"
#include "engine/session/decode/session_state.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "engine/text/utf8.h"
#include "kernels/execution/cores.h"
#include "kernels/execution/thread_pool.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

constexpr int64_t prefill_chunk =
    256; // small enough for a progress bar and a cancel, large enough to keep cores busy

std::array<float, max_signals> absent_signals() {
    std::array<float, max_signals> values{};
    values.fill(absent());
    return values;
}

/// What a person must know who gave a policy to a run that cannot use it.
std::string policy_note(const RunConfig& config) {
    const auto& triggers = config.policy.triggers;
    const bool asks = std::ranges::any_of(triggers, [](const Trigger& t) { return t.enabled; });
    return asks ? fmt::format("policy {} does nothing in mode {}: refreshes belong to mode overfill",
                              config.policy.name, to_string(config.mode))
                : std::string();
}

/// check_run(), and the scorer that it had to make on the way; null without a task.
std::unique_ptr<TaskScorer> checked_scorer(const RunConfig& config) {
    check_run_config(config, "the run");
    if (config.prompt.empty()) throw Error("starting a run", "the prompt", "is empty", "give some text");
    for (const auto& [what, text] :
         {std::pair{"the prompt", &config.prompt}, std::pair{"the given text", &config.given_text}}) {
        if (const auto offset = first_invalid_utf8(*text)) {
            throw Error(std::string("reading ") + what, {}, fmt::format("not UTF-8 at byte {}", *offset),
                        "save the text as UTF-8");
        }
    }
    return config.task.kind.empty() ? nullptr : TaskScorer::create(config.task, config.prompt);
}

} // namespace

std::shared_ptr<const AttentionRows> make_attention_rows(const AttentionCapture& capture, int64_t position,
                                                         int64_t step, bool teacher, int64_t layers) {
    auto rows = std::make_shared<AttentionRows>();
    rows->position = position;
    rows->step = step;
    rows->teacher = teacher;
    rows->heads = capture.rows.size(1);
    rows->keys = capture.rows.size(2);
    rows->layers = capture.layers;
    if (rows->layers.empty()) {
        for (int32_t l = 0; l < layers; ++l)
            rows->layers.push_back(l);
    }
    const at::Tensor dense = capture.rows.contiguous();
    const float* source = dense.const_data_ptr<float>();
    rows->weights.resize(static_cast<size_t>(dense.numel()));
    std::transform(source, source + dense.numel(), rows->weights.begin(), float_to_half);
    return rows;
}

RowRing::RowRing(int64_t rows, int64_t vocab, at::Device device)
    : m_rows(at::empty({rows, vocab}, at::TensorOptions().dtype(at::kFloat).device(device)))
    , m_positions(static_cast<size_t>(rows), -1) {}

void RowRing::put(int64_t position, const at::Tensor& row) {
    const int64_t slot = position % m_rows.size(0);
    m_rows[slot].copy_(row);
    m_positions[static_cast<size_t>(slot)] = position;
}

bool RowRing::holds(int64_t position) const {
    return m_positions[static_cast<size_t>(position % m_rows.size(0))] == position;
}

at::Tensor RowRing::row(int64_t position) const {
    RL_ASSERT(holds(position));
    return m_rows[position % m_rows.size(0)];
}

void RowRing::drop_from(int64_t position) {
    for (int64_t& held : m_positions) {
        if (held >= position) held = -1;
    }
}

DecodeSession::Impl::Impl(std::shared_ptr<const ModelPair> models, RunConfig run)
    : pair(std::move(models))
    , config(std::move(run))
    , call_start(std::chrono::steady_clock::now()) {}

double DecodeSession::Impl::elapsed_ms() const {
    return active_ms +
           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - call_start).count();
}

bool DecodeSession::Impl::is_end(int32_t token) const {
    return !config.ignore_stop && text.given.empty() &&
           std::binary_search(end_ids.begin(), end_ids.end(), token);
}

PendingToken DecodeSession::Impl::choose(const at::Tensor& row, int64_t position, Producer producer) const {
    const auto index = static_cast<size_t>(position - prompt_length());
    const Choice choice = index < text.given.size()
                              ? given_token(row, text.given[index])
                              : choose_token(row, config.sampler, config.seed, position);
    PendingToken token;
    token.id = choice.token_id;
    token.producer = producer;
    token.logprob = choice.logprob;
    token.top1_hit = choice.top1_id == choice.token_id;
    return token;
}

int32_t DecodeSession::Impl::token_at(int64_t position) const {
    const int64_t generated = position - prompt_length();
    if (generated < 0) return prompt()[static_cast<size_t>(position)];
    if (generated == t) return marks.pending.id;
    return recording->step(generated + 1).token_id;
}

McRequest DecodeSession::Impl::mc_request(int64_t step) const {
    const bool due =
        (config.mc.measure && step % config.mc.stride == 0) || (overfill() && wants_mc(config.policy, step));
    if (!due) return {};
    const ModelConfig& model = decoder().config();
    McRequest request;
    request.passes = config.mc.samples;
    request.seed = config.seed;
    const double trained = model.attention_dropout.value_or(0);
    request.p = static_cast<float>(config.mc.p >= 0 ? config.mc.p : trained > 0 ? trained : 0.1);
    request.attention_output = request.mlp_output = model.resid_dropout.value_or(0) > 0;
    return request;
}

void DecodeSession::Impl::start(const std::function<bool(double)>& progress, const RunText* known) {
    const c10::InferenceMode guard;
    kernels::set_num_threads(kernels::threads_for(config.threads));
    scorer = checked_scorer(config);
    text = known != nullptr ? *known : run_text(*pair, config);
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
    end_ids = pair->end_ids();
    capacity = text.capacity(config, context);
    require_memory(memory_of_run(config, *pair, &text));

    call_start = std::chrono::steady_clock::now(); // submit: ids are ready
    const auto prefill = [&](const LlamaModel& model, KvCache& cache, Origin origin, double first,
                             double share) {
        at::Tensor row;
        for (int64_t done = 0; done < prompt_length();) {
            const int64_t n = std::min(prefill_chunk, prompt_length() - done);
            const bool last = done + n == prompt_length();
            row = model.extend(
                cache, std::span(prompt()).subspan(static_cast<size_t>(done), static_cast<size_t>(n)),
                last ? LlamaModel::Rows::last : LlamaModel::Rows::none, static_cast<uint8_t>(origin));
            done += n;
            const double fraction = static_cast<double>(done) / static_cast<double>(prompt_length());
            if (progress && !progress(first + share * fraction))
                throw Error("starting a run", {}, "cancelled");
        }
        return row[0];
    };
    at::Tensor first_row;
    Producer producer = Producer::teacher;
    const bool rebuild = overfill() && pair->geometry_difference.has_value();
    if (config.mode == Mode::student) {
        student_cache = pair->student->make_cache(capacity);
        first_row = prefill(*pair->student, *student_cache, Origin::student_prefill, 0, 1);
        producer = Producer::student;
    } else {
        teacher_cache = pair->teacher->make_cache(capacity);
        first_row = prefill(*pair->teacher, *teacher_cache, Origin::teacher_prefill, 0, rebuild ? 0.7 : 1);
        if (overfill()) {
            student_cache = pair->student->make_cache(capacity);
            if (rebuild) {
                static_cast<void>(prefill(*pair->student, *student_cache, Origin::student_prefill, 0.7, 0.3));
            } else {
                student_cache->adopt_prefix(*teacher_cache, prompt_length());
            }
            ring.emplace(std::min(ring_rows, capacity), vocab, pair->student->device());
        }
    }
    const double prefill_ms = elapsed_ms();
    marks.pending = choose(first_row, prompt_length(), producer);
    const double ttft_ms = elapsed_ms();

    marks.splice = marks.last_pass = prompt_length();
    marks.teacher_len = config.mode == Mode::student ? 0 : prompt_length();
    if (producer == Producer::teacher) {
        last_teacher_row = first_row;
        marks.pending.teacher_logprob = marks.pending.logprob;
        marks.pending.teacher_agrees = marks.pending.top1_hit ? 1 : 0;
    }
    const bool ends_at_once = is_end(marks.pending.id);

    RunInfo info;
    info.id = new_run_id();
    info.config = config;
    info.rendered_prompt = text.prompt.text;
    info.prompt_ids = prompt();
    info.first_token = ends_at_once ? -1 : marks.pending.id;
    info.first_producer = producer;
    info.first_logprob = marks.pending.logprob;
    const ModelConfig& shape = decoder().config();
    info.vocab_size = vocab;
    info.layers = shape.num_layers;
    info.heads = shape.num_heads;
    info.kv_heads = shape.num_kv_heads;
    info.head_dim = shape.head_dim;
    for (const auto* cache : {teacher_cache.get(), student_cache.get()}) {
        if (cache != nullptr) info.cache_bytes_per_token += cache->bytes_reserved() / cache->capacity();
    }
    info.ttft_ms = ttft_ms;
    info.prefill_ms = prefill_ms;
    info.device = decoder().device().str();
    info.dtype = std::string(to_string(config.dtype));
    info.threads = kernels::num_threads();
    info.started_at = utc_now();
    info.versions = version_list();
    info.text_rule = pair->tokenizer->text_rule();
    info.note = overfill() ? pair->note() : policy_note(config);
    recording = std::make_shared<Recording>(std::move(info), pair->tokenizer);

    history = {marks};
    active_ms = marks.active_ms = history[0].active_ms = ttft_ms;
    if (ends_at_once) finish("stop_token");
}

std::vector<Verdict> DecodeSession::Impl::read_task_token(int32_t token, bool top1_hit) {
    const TokenTable& table = *pair->tokenizer;
    const std::string_view bytes = table.is_special(token) ? std::string_view() : table.token_bytes(token);
    return scorer->advance(bytes, text.given.empty() ? std::nullopt : std::optional(top1_hit));
}

void DecodeSession::Impl::put_verdicts(StepRecord* in_flight, const std::vector<Verdict>& verdicts) {
    static const size_t id = require_signal("task_score", "session");
    for (const Verdict& verdict : verdicts)
        put_signal(in_flight, id, verdict.token, verdict.right ? 1 : 0);
}

void DecodeSession::Impl::score_task(StepRecord& record) {
    if (!scorer) return;
    static const size_t hit_id = require_signal("top1_hit", "session");
    put_verdicts(&record, read_task_token(record.token_id, record.signals[hit_id] == 1.0F));
}

void DecodeSession::Impl::finish(std::string reason) {
    finished = true;
    if (scorer) put_verdicts(nullptr, scorer->finish());
    RunEnd end;
    end.stop_reason = std::move(reason);
    end.total_ms = t > 0 ? recording->step(t).arrival_ms : recording->info().ttft_ms;
    recording->set_end(std::move(end));
}

bool DecodeSession::Impl::step() {
    if (finished) return false;
    const c10::InferenceMode guard;
    call_start = std::chrono::steady_clock::now();
    const Stopwatch total;

    StepRecord record;
    record.step = t + 1;
    record.position = prompt_length() + t;
    record.token_id = marks.pending.id;
    record.producer = marks.pending.producer;
    record.next_producer = decoder_producer();
    record.signals = absent_signals();
    SignalInputs inputs;
    inputs.logprob = marks.pending.logprob;
    inputs.top1_hit = marks.pending.top1_hit ? 1 : 0;
    inputs.teacher_logprob = marks.pending.teacher_logprob;
    inputs.teacher_agrees = marks.pending.teacher_agrees;

    const bool last_token = record.step == limit();
    if (last_token || record.position >= capacity) { // y_N is never fed
        record.fed = false;
        record.arrival_ms = t > 0 ? recording->step(t).arrival_ms : recording->info().ttft_ms;
        inputs.steps_since_refresh = -1; // no boundary
        evaluate_signals(inputs, record.signals);
        score_task(record);
        recording->append(record);
        ++t;
        history.push_back(marks);
        const bool all_read = record.step == static_cast<int64_t>(text.given.size());
        finish(!last_token ? "context_limit" : all_read ? "given_end" : "max_tokens");
        return true;
    }
    const auto part = [&record](Part p) -> float& { return record.part_ms[static_cast<size_t>(p)]; };

    // --- forward ---
    const McRequest mc = mc_request(record.step);
    AttentionCapture capture{config.capture.layers, {}};
    const Stopwatch forward;
    const auto origin = config.mode == Mode::teacher ? Origin::teacher_decode : Origin::student;
    LlamaModel::StepRows rows = decoder().step(decoder_cache(), record.token_id, static_cast<uint8_t>(origin),
                                               mc, config.capture.attention ? &capture : nullptr);
    const kernels::RowStatistics statistics = kernels::row_statistics(rows.row.unsqueeze(0))[0];
    part(Part::model) = static_cast<float>(forward.ms()); // row_statistics has waited for the device

    // --- signals ---
    if (mc.passes > 0) {
        const Stopwatch watch;
        const kernels::McStatistics m = kernels::mc_statistics(rows.row, rows.mc);
        inputs.mc = {m.variance, m.variance_sd, m.mutual_information_bits, m.mean_entropy_bits,
                     m.mean_entropy_sd_bits};
        part(Part::mc) = static_cast<float>(watch.ms());
    }
    const Stopwatch signals_watch;
    inputs.row = {statistics.log_z, statistics.entropy_bits, statistics.top1_prob, statistics.finite};
    inputs.steps_since_refresh = record.position + 1 - marks.splice; // S.len - P behind this forward
    evaluate_signals(inputs, record.signals);
    const kernels::TopK best = kernels::top_k(rows.row, std::min<int64_t>(config.capture.top_k, max_top_k));
    record.top_k = static_cast<uint8_t>(best.ids.size());
    for (size_t i = 0; i < best.ids.size(); ++i) {
        record.top_ids[i] = best.ids[i];
        record.top_probs[i] =
            static_cast<float>(std::exp(static_cast<double>(best.logits[i]) - statistics.log_z));
    }
    if (ring) ring->put(record.position, rows.row);
    part(Part::signals) = static_cast<float>(signals_watch.ms());
    if (config.capture.attention) {
        const Stopwatch watch;
        recording->add_attention(make_attention_rows(capture, record.position, record.step,
                                                     config.mode == Mode::teacher, recording->info().layers));
        part(Part::attention) = static_cast<float>(watch.ms());
    }

    // --- choose the next token ---
    const Stopwatch sample_watch;
    marks.pending = choose(rows.row, record.position + 1, decoder_producer());
    if (config.mode == Mode::teacher) {
        marks.pending.teacher_logprob = marks.pending.logprob;
        marks.pending.teacher_agrees = marks.pending.top1_hit ? 1 : 0;
        marks.teacher_len = record.position + 1;
    }
    part(Part::sample) = static_cast<float>(sample_watch.ms());
    record.arrival_ms = elapsed_ms();

    // --- boundary ---
    if (overfill()) {
        const bool runs_on = record.step + 1 < limit() && !is_end(marks.pending.id);
        boundary(record, runs_on);
        if (config.policy.on_fire != OnFire::keep) record.arrival_ms = elapsed_ms();
    }
    score_task(record);
    record.next_token_id = marks.pending.id;
    record.next_producer = marks.pending.producer;

    part(Part::other) = 0;
    float named = 0;
    for (const float ms : record.part_ms)
        named += ms;
    part(Part::other) = std::max(0.0F, static_cast<float>(total.ms()) - named);
    recording->append(record);
    ++t;
    active_ms = elapsed_ms();
    marks.active_ms = active_ms;
    history.push_back(marks);
    RL_ASSERT(!overfill() || (marks.splice >= prompt_length() && marks.splice <= student_cache->length() &&
                              student_cache->length() == prompt_length() + t &&
                              teacher_cache->length() <= student_cache->length()));
    if (is_end(marks.pending.id)) finish("stop_token");
    return true;
}

void DecodeSession::Impl::log_command(const Command& command) {
    recording->add_command({t + 1, json_text(to_json(command))});
}

void require_refreshable(Mode mode) {
    if (mode != Mode::overfill)
        throw Error("refreshing", {}, "only mode overfill has a teacher's cache to refresh from");
}

void check_run(const RunConfig& config) {
    static_cast<void>(checked_scorer(config));
}

// --- public face -----------------------------------------------------------------------------------------------------

DecodeSession::DecodeSession(std::shared_ptr<const ModelPair> pair, RunConfig config,
                             const std::function<bool(double)>& progress, const RunText* known)
    : m_impl(std::make_unique<Impl>(std::move(pair), std::move(config))) {
    m_impl->start(progress, known);
}

DecodeSession::~DecodeSession() = default;

bool DecodeSession::step() {
    return m_impl->step();
}
bool DecodeSession::finished() const {
    return m_impl->finished;
}

void DecodeSession::apply(const command::SetParameter& c) {
    set_live_parameter(m_impl->config, c.key, c.value);
    m_impl->log_command(c);
}

void DecodeSession::apply(const command::SetPolicy& c) {
    check_policy(c.policy, "the policy");
    m_impl->config.policy = c.policy;
    m_impl->log_command(c);
}

void DecodeSession::apply(const command::RefreshNow& c) {
    if (m_impl->finished) throw Error("refreshing", {}, "the run has ended", "rewind it or start a new one");
    require_refreshable(m_impl->config.mode);
    m_impl->refresh_requested = true;
    m_impl->log_command(c);
}

void DecodeSession::stop() {
    if (!m_impl->finished) m_impl->finish("cancelled");
}

void DecodeSession::rewind(int64_t step) {
    m_impl->rewind(step);
}

void DecodeSession::capture_attention(int64_t position, bool teacher) {
    m_impl->capture_attention(position, teacher);
}

void DecodeSession::score() {
    m_impl->score();
}
const RunConfig& DecodeSession::config() const {
    return m_impl->config;
}
std::shared_ptr<Recording> DecodeSession::recording() const {
    return m_impl->recording;
}
const KvCache* DecodeSession::student_cache() const {
    return m_impl->student_cache.get();
}
const KvCache* DecodeSession::teacher_cache() const {
    return m_impl->teacher_cache.get();
}
int64_t DecodeSession::splice_watermark() const {
    return m_impl->marks.splice;
}

} // namespace refreshlab
