// One step, in the order of docs/design.md, section 3: forward, signals, choose, boundary (plan, teacher pass, splice),
// append. Commands were applied before it.
#include "engine/base/check.h"
#include "engine/model/forward/captures.h"
#include "engine/session/decode/session_impl.h"
#include "engine/session/parts/attention_rows.h"
#include "engine/session/parts/mc_request.h"
#include "engine/text/tokenizer/tokenizer.h"
#include "kernels/ops/row_overlap.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

namespace refreshlab {

bool DecodeSession::Impl::step() {
    while (!advance())
        if (finished) return false;
    return true;
}

bool DecodeSession::Impl::advance() {
    const c10::InferenceMode guard;
    if (waiting() && !drafting()) {
        release();
        return true;
    }
    if (finished) return false;
    if (!waiting() && !begins_draft()) {
        make_step();
        return true;
    }
    if (!waiting()) begin_draft();
    make_step();
    if (drafting()) return false;
    release();
    return true;
}

void DecodeSession::Impl::make_step() {
    call_start = std::chrono::steady_clock::now();
    StepInFlight now = begin_step();
    if (is_last_record(now.record)) {
        append_last_record(now);
        return;
    }
    forward(now);
    measure(now);
    choose(now);
    pass_boundary(now);
    std::optional<JudgedDraft> draft = boundary ? boundary->take_judged() : std::nullopt;
    if (draft) settle(now, *draft);
    append(now);
    if (!waiting() && is_end(pending.id)) finish("stop_token");
}

StepInFlight DecodeSession::Impl::begin_step() const {
    StepInFlight now;
    now.record.step = t + 1;
    now.record.position = prompt_length() + t;
    now.record.token_id = pending.id;
    now.record.producer = pending.producer;
    now.record.next_producer = decoder_producer();
    now.record.signals.fill(absent());
    now.inputs.logprob = pending.logprob;
    now.inputs.top1_hit = pending.top1_hit ? 1 : 0;
    now.inputs.teacher_logprob = pending.teacher_logprob;
    now.inputs.teacher_agrees = pending.teacher_agrees;
    now.inputs.teacher_rank = pending.teacher_rank;
    return now;
}

bool DecodeSession::Impl::is_last_record(const StepRecord& record) const {
    return record.step == limit() || record.position >= capacity;
}

void DecodeSession::Impl::append_last_record(StepInFlight& now) {
    StepRecord& record = now.record;
    record.fed = false;
    record.arrival_ms = t > 0 ? recording->step(t).arrival_ms : recording->info().ttft_ms;
    now.inputs.steps_since_refresh = -1; // no boundary
    evaluate_signals(now.inputs, record.signals);
    score_task(record);
    recording->append(record);
    ++t;
    remember();
    const bool all_read = record.step == static_cast<int64_t>(text.given.size());
    finish(record.step != limit() ? "context_limit" : all_read ? "given_end" : "max_tokens");
}

void DecodeSession::Impl::forward(StepInFlight& now) {
    const Stopwatch watch;
    const ModelConfig& model = decoder().config();
    now.mc = mc_request(now.record.step);
    std::vector<LayerHooks*> hooks;
    if (config.capture.attention) {
        now.attention = std::make_unique<AttentionRowsCapture>(model, config.capture.layers,
                                                               now.record.position, attention_limits());
        hooks.push_back(now.attention.get());
    }
    if (config.capture.attention_entropy || (overfill() && wants_attention(config.policy, now.record.step))) {
        now.entropy = std::make_unique<AttentionEntropy>(model, now.record.position);
        hooks.push_back(now.entropy.get());
    }
    if (boundary && boundary->wants_attention()) {
        now.received =
            std::make_unique<AttentionReceived>(model, boundary->state().splice, now.record.position);
        hooks.push_back(now.received.get());
    }
    if (cache_policy) { // the last one: what it evicts is gone for those after it
        cache_policy->begin_step(now.record.step);
        hooks.push_back(cache_policy.get());
    }
    StepInputs in;
    in.tokens = std::span(&now.record.token_id, 1);
    in.origin = config.mode == Mode::teacher ? Origin::teacher_decode : Origin::student;
    in.ask.emplace().top_k = std::max<int64_t>(config.capture.top_k, 2); // two: the margin is a signal
    in.mc = now.mc;
    in.hooks = hooks;
    const int64_t next = now.record.position + 1;
    const std::optional<int32_t> given = chooser->given_at(next);
    const std::array<int32_t, 1> token{given.value_or(-1)};
    if (given) in.ask->tokens = token;
    in.draw = chooser->draw_at(next, config.sampler);
    if (in.draw) in.draw->ranked = config.mode == Mode::teacher;
    in.logits = ring || std::ranges::any_of(sources, &SignalSource::wants_row) || now.mc.passes > 0 ||
                (given && config.mode == Mode::teacher); // the place of a token that need not be the first
    now.rows = decoder().forward().step(decoder_cache(), in);
    if (cache_policy) cache_policy->tell_read();
    if (now.attention) now.ms(Part::attention) = static_cast<float>(now.attention->ms());
    now.ms(Part::model) =
        static_cast<float>(watch.ms()) - now.ms(Part::attention); // the summary has waited for the device
}

void DecodeSession::Impl::measure(StepInFlight& now) {
    if (now.mc.passes > 0) {
        const Stopwatch watch;
        const kernels::McStatistics m = kernels::mc_statistics(now.rows.logits[0], now.rows.mc_logits);
        now.inputs.mc = {m.variance, m.variance_sd, m.mutual_information_bits, m.mean_entropy_bits,
                         m.mean_entropy_sd_bits};
        now.ms(Part::mc) = static_cast<float>(watch.ms());
    }
    const Stopwatch watch;
    const kernels::RowStatistics& s = now.rows.summary[0].statistics;
    const kernels::TopK& top = now.rows.summary[0].top;
    now.inputs.row = {s.log_z, s.entropy_bits, s.top1_prob, s.finite, s.varentropy_bits2};
    if (s.finite && top.logits.size() > 1)
        now.inputs.row->top2_prob = std::exp(static_cast<double>(top.logits[1]) - s.log_z);
    if (now.entropy) now.inputs.attention_entropy_bits = now.entropy->bits();
    if (now.received) boundary->attended(now.received->received());
    const int64_t splice = boundary ? boundary->state().splice : prompt_length();
    now.inputs.steps_since_refresh = now.record.position + 1 - splice; // S.len - P after this forward
    if (boundary) {
        now.inputs.last_kl_nats = boundary->state().last_kl_nats;
        now.inputs.last_drift = boundary->state().last_drift;
    }
    evaluate_signals(now.inputs, now.record.signals, &now.layers);
    const StepValues values(now.record.signals, now.layers);
    const at::Tensor row = now.rows.logits.defined() ? now.rows.logits[0] : at::Tensor();
    for (size_t i = 0; i < sources.size(); ++i)
        sources[i]->measure(source_ids[i], values,
                            {now.record, *recording, row, now.layers, decoder_cache()});
    work_out(now);
    keep_candidates(now);
    if (ring) ring->put(now.record.position, now.rows.logits[0]);
    now.ms(Part::signals) = static_cast<float>(watch.ms());
    keep_attention(now);
}

/// The policy's own signals, of what this step has measured by now and earlier ones have. A policy that came later may define them otherwise.
void DecodeSession::Impl::work_out(StepInFlight& now) const {
    const auto own = std::span(recording->signals()).subspan(signals().size());
    for (const size_t id : own_ids) {
        const std::string_view name = own[id - signals().size()].name;
        const auto signal = std::ranges::find(config.policy.signals, name, &OwnSignal::name);
        if (signal == config.policy.signals.end()) continue;
        now.record.signals[id] =
            own_value(*signal, now.record.step, [&](std::string_view term, int64_t step) {
                const size_t read = require_signal(term, "a signal of the policy");
                return step == now.record.step ? now.record.signals[read] : recording->signal(step, read);
            });
    }
}

void DecodeSession::Impl::keep_candidates(StepInFlight& now) const {
    const kernels::RowSummary& summary = now.rows.summary[0];
    const auto wanted = static_cast<size_t>(std::min<int64_t>(config.capture.top_k, max_top_k));
    now.record.top_k = static_cast<uint8_t>(std::min(wanted, summary.top.ids.size()));
    for (size_t i = 0; i < now.record.top_k; ++i) {
        now.record.top_ids[i] = summary.top.ids[i];
        now.record.top_probs[i] = static_cast<float>(
            std::exp(static_cast<double>(summary.top.logits[i]) - summary.statistics.log_z));
    }
}

void DecodeSession::Impl::keep_attention(StepInFlight& now) {
    if (!now.attention) return;
    const Stopwatch watch;
    recording->add_attention(now.attention->take(now.record.step, config.mode == Mode::teacher));
    now.ms(Part::attention) += static_cast<float>(watch.ms());
}

void DecodeSession::Impl::choose(StepInFlight& now) {
    const Stopwatch watch;
    const kernels::RowStatistics& statistics = now.rows.summary[0].statistics;
    const at::Tensor row = now.rows.logits.defined() ? now.rows.logits[0] : at::Tensor();
    pending = chooser->choose(row, now.record.position + 1, decoder_producer(), config.sampler, &statistics,
                              now.rows.summary[0].logprob, now.rows.drawn);
    if (config.mode == Mode::teacher) {
        pending.teacher_logprob = pending.logprob;
        pending.teacher_agrees = pending.top1_hit ? 1 : 0;
        // The arg max of a finite row has the first place, whatever else stands there.
        pending.teacher_rank = statistics.finite && pending.top1_hit ? 1
                               : now.rows.drawn && now.rows.drawn->rank
                                   ? *now.rows.drawn->rank
                                   : kernels::token_ranks(now.rows.logits, std::span(&pending.id, 1))[0];
    }
    now.ms(Part::sample) = static_cast<float>(watch.ms());
    now.record.arrival_ms = elapsed_ms();
}

void DecodeSession::Impl::pass_boundary(StepInFlight& now) {
    if (!boundary) return;
    StepRecord& record = now.record;
    const auto at_position = [this, &record](int64_t position) { // this step is not in the recording yet
        return position == record.position ? record.token_id : token_at(position);
    };
    BoundaryStep step{record,
                      pending,
                      *recording,
                      now.layers,
                      record.step + 1 < limit() && !is_end(pending.id),
                      std::exchange(refresh_requested, false),
                      at_position};
    if (waiting()) {
        const int64_t out = published->steps(); // y_1 .. y_{out + 1} are settled
        step.drafted_from = prompt_length() + out + 1;
        step.draft_ends = !step.runs_on || record.position + 1 >= capacity ||
                          record.step - out >= std::min(longest_draft, ring->size());
    }
    boundary->run(step);
    if (config.policy.on_fire != OnFire::keep) record.arrival_ms = elapsed_ms();
}

void DecodeSession::Impl::append(StepInFlight& now) {
    StepRecord& record = now.record;
    if (!waiting()) score_task(record); // of a step that waits: when it is let out
    record.next_token_id = pending.id;
    record.next_producer = pending.producer;
    now.ms(Part::other) = 0;
    float named = 0;
    for (const float ms : record.part_ms)
        named += ms;
    now.ms(Part::other) = std::max(0.0F, static_cast<float>(now.total.ms()) - named);
    recording->append(record, now.layers);
    ++t;
    active_ms = elapsed_ms();
    remember();
    RL_ASSERT(!boundary || (boundary->state().splice >= prompt_length() &&
                            boundary->state().splice <= student_cache->length() &&
                            student_cache->length() == prompt_length() + t &&
                            teacher->length() <= student_cache->length()));
}

void DecodeSession::Impl::remember() {
    history.push_back({boundary ? boundary->state() : RefreshState{}, teacher ? teacher->length() : 0,
                       pending, active_ms, cache_policy ? cache_policy->mark() : nullptr, chooser->attempt(),
                       waiting() && settled_ms < 0});
}

void DecodeSession::Impl::finish(std::string reason) {
    finished = true;
    if (scorer) put_verdicts(nullptr, scorer->finish());
    RunEnd end;
    end.stop_reason = std::move(reason);
    end.total_ms = t > 0 ? recording->step(t).arrival_ms : recording->info().ttft_ms;
    recording->set_end(std::move(end));
}

std::vector<Verdict> DecodeSession::Impl::read_task_token(int32_t token, bool top1_hit) {
    const TokenTable& table = *pair->tokenizer;
    const std::string_view bytes = table.is_special(token) ? std::string_view() : table.token_bytes(token);
    return scorer->advance(bytes, text.given.empty() ? std::nullopt : std::optional(top1_hit));
}

void DecodeSession::Impl::put_verdicts(StepRecord* in_flight, const std::vector<Verdict>& verdicts) {
    static const size_t id = require_signal("task_score", "session");
    for (const Verdict& verdict : verdicts)
        put_signal(*published, in_flight, id, verdict.token, verdict.right ? 1 : 0);
}

void DecodeSession::Impl::score_task(StepRecord& record) {
    if (!scorer) return;
    static const size_t hit_id = require_signal("top1_hit", "session");
    put_verdicts(&record, read_task_token(record.token_id, record.signals[hit_id] == 1.0F));
}

McRequest DecodeSession::Impl::mc_request(int64_t step) const {
    const bool due =
        (config.mc.measure && step % config.mc.every == 0) || (overfill() && wants_mc(config.policy, step));
    return due ? refreshlab::mc_request(config.mc, config.seed, decoder().config()) : McRequest{};
}

bool DecodeSession::Impl::is_end(int32_t token) const {
    return !config.ignore_stop && text.given.empty() &&
           std::binary_search(end_ids.begin(), end_ids.end(), token);
}

double DecodeSession::Impl::elapsed_ms() const {
    return active_ms +
           std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - call_start).count();
}

int32_t DecodeSession::Impl::token_at(int64_t position) const {
    const int64_t generated = position - prompt_length();
    if (generated < 0) return prompt()[static_cast<size_t>(position)];
    if (generated == t) return pending.id;
    return recording->step(generated + 1).token_id;
}

} // namespace refreshlab
