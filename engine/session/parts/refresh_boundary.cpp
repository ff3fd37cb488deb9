#include "engine/session/parts/refresh_boundary.h"

#include "engine/base/check.h"
#include "engine/model/verification.h"
#include "engine/session/parts/stopwatch.h"
#include "engine/session/policies/policy_runner.h"
#include "engine/signals/kl_mean.h"
#include "kernels/ops/row_overlap.h"

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

struct SignalIds {
    size_t kl = require_signal("kl_nats", "session"), kl_mean = require_signal("kl_mean_nats", "session"),
           teacher_logprob = require_signal("teacher_logprob", "session"),
           agreement = require_signal("teacher_agreement", "session"),
           drift = require_signal("drift", "session"), acceptance = require_signal("acceptance", "session"),
           same_top1 = require_signal("same_top1", "session"),
           rank = require_signal("teacher_rank", "session");
};
const SignalIds& ids() {
    static const SignalIds known;
    return known;
}

std::span<const float> attention_of(const RefreshState& state) {
    return state.attention ? std::span<const float>(*state.attention) : std::span<const float>();
}

float& part_ms(StepRecord& record, Part part) {
    return record.part_ms[static_cast<size_t>(part)];
}

} // namespace

void put_signal(Recording& recording, StepRecord* in_flight, size_t id, int64_t step, double value) {
    const auto narrow = static_cast<float>(value);
    if (in_flight != nullptr && step == in_flight->step) {
        in_flight->signals[id] = narrow;
    } else if (step >= 1 && step <= recording.steps()) {
        recording.back_fill(id, step, std::span(&narrow, 1));
    }
}

RefreshBoundary::RefreshBoundary(const Parts& parts)
    : m_parts(parts) {
    m_state.splice = m_state.last_pass = parts.prompt_length;
}

void RefreshBoundary::restore(const RefreshState& state) {
    m_state = state;
    m_automatic_steps.resize(state.automatic_refreshes);
    m_drafted.clear();
    m_draft_passes.clear();
    m_draft_instead.reset();
    m_judged.reset();
}

bool RefreshBoundary::wants_attention() const {
    const ScopePositions by =
        m_state.in_flight ? m_state.in_flight->scope.positions : m_parts.config.policy.scope.positions;
    const ScopePositions next = m_parts.config.policy.scope.positions;
    return !m_parts.rebuild && (by >= ScopePositions::attention || next >= ScopePositions::attention);
}

void RefreshBoundary::attended(std::span<const float> received) {
    auto sums = std::make_shared<std::vector<float>>(received.begin(), received.end());
    for (size_t i = 0; m_state.attention && i < std::min(sums->size(), m_state.attention->size()); ++i)
        (*sums)[i] += (*m_state.attention)[i];
    m_state.attention = std::move(sums);
}

void RefreshBoundary::run(BoundaryStep& step) {
    if (m_parts.config.shadow) teacher_pass(step, student_length(), PassFor::shadow);
    // With `keep` the token is out already: after the run's last choice a refresh could change nothing.
    const auto acts = [&step](OnFire on_fire) { return step.runs_on || on_fire != OnFire::keep; };
    if (m_state.in_flight && acts(m_state.in_flight->on_fire)) advance(step);
    // A lagged refresh that fired before the policy verified lands first; the draft begins after it.
    if (verifies(m_parts.config.policy) && !step.drafted_from) {
        m_state.asked |= step.by_hand;
    } else if (acts(m_parts.config.policy.on_fire)) {
        plan(step);
    }
    judge_pending(step);
}

PassEvent RefreshBoundary::teacher_pass(BoundaryStep& step, int64_t end, PassFor purpose) {
    TeacherPass pass = read(step, end, purpose);
    if (step.drafted_from) m_draft_passes.push_back(pass);
    record(step, pass);
    return pass.event;
}

TeacherPass RefreshBoundary::read(const BoundaryStep& step, int64_t end, PassFor purpose) {
    const Stopwatch watch;
    TeacherPass pass;
    PassEvent& event = pass.event;
    event.step = step.record.step;
    event.first_pos = m_parts.teacher.length();
    event.tokens = std::max<int64_t>(0, end - event.first_pos);
    event.probe = purpose == PassFor::probe;
    event.shadow = purpose == PassFor::shadow;
    if (event.tokens == 0) return pass;
    TeacherReader::EachRow each;
    if (step.drafted_from) {
        each = [&](int64_t position, const at::Tensor& row, const kernels::RowStatistics& statistics) {
            judge(step, position + 1, row, statistics);
        };
    }
    pass.reading = m_parts.teacher.read(end, step.token_at, m_parts.ring, student_length(), each);
    event.kl_nats = pass.reading.kl_nats.back();
    event.ms = watch.ms();
    return pass;
}

void RefreshBoundary::record(BoundaryStep& step, TeacherPass& pass) {
    const Stopwatch watch;
    PassEvent& event = pass.event;
    if (event.tokens == 0) return;
    if (!is_absent(event.kl_nats)) m_state.last_kl_nats = event.kl_nats;
    back_fill(step, std::move(pass.reading));
    event.ms += watch.ms();
    part_ms(step.record, Part::teacher_pass) += static_cast<float>(event.ms);
    step.recording.add_pass(event);
}

void RefreshBoundary::judge(const BoundaryStep& step, int64_t position, const at::Tensor& row,
                            const kernels::RowStatistics& statistics) {
    const int64_t from = *step.drafted_from;
    if (position < from) return; // settled
    RL_ASSERT(position - from == static_cast<int64_t>(m_drafted.size()));
    const TokenChooser& chooser = m_parts.chooser;
    const int32_t token = position == student_length() ? step.pending.id : step.token_at(position);
    DraftToken& judged = m_drafted.emplace_back();
    judged.token_id = token;
    judged.stays = true;
    if (chooser.gives(position)) return; // what a person wants is not judged
    const at::Tensor drawn_from = m_parts.ring.row(position - 1);
    const Judgement judgement =
        judge_token({row, drawn_from, statistics}, token, m_parts.config.policy.verify,
                    m_parts.config.sampler, chooser.seed(), position, chooser.attempt());
    judged.stays = judgement.stays;
    judged.p_teacher = static_cast<float>(judgement.p_teacher);
    judged.p_student = static_cast<float>(judgement.p_student);
    judged.expected = static_cast<float>(judgement.expected);
    if (judged.stays || m_draft_instead) return;
    const Choice& choice = *judgement.instead;
    m_draft_instead = PendingToken{
        choice.token_id,
        Producer::teacher,
        choice.logprob,
        choice.top1_id == choice.token_id,
        choice.logprob,
        choice.top1_id == choice.token_id ? 1 : 0,
        kernels::token_ranks(row.unsqueeze(0), std::span(&choice.token_id, 1))[0],
    };
}

void RefreshBoundary::judge_draft(const BoundaryStep& step, Decision decision) {
    TeacherPass pass = read(step, student_length(), PassFor::refresh);
    if (pass.event.tokens > 0) m_draft_passes.push_back(std::move(pass));
    RL_ASSERT(static_cast<int64_t>(m_drafted.size()) == student_length() + 1 - *step.drafted_from);
    const auto first_gone = std::ranges::find(m_drafted, false, &DraftToken::stays);
    const bool all_stay = first_gone == m_drafted.end();
    JudgedDraft draft;
    draft.decision = std::move(decision);
    // The token at position p is chosen by the step at p - 1, of number p - L.
    draft.step = all_stay ? step.record.step
                          : *step.drafted_from + (first_gone - m_drafted.begin()) - m_parts.prompt_length;
    draft.first_pos = *step.drafted_from;
    draft.tokens = std::move(m_drafted);
    if (!all_stay) draft.instead = m_draft_instead;
    draft.passes = std::move(m_draft_passes);
    m_judged = std::move(draft);
    m_drafted.clear();
    m_draft_passes.clear();
    m_draft_instead.reset();
}

std::optional<JudgedDraft> RefreshBoundary::take_judged() {
    return std::exchange(m_judged, std::nullopt);
}

void RefreshBoundary::settle(BoundaryStep& step, JudgedDraft& draft) {
    const int64_t boundary = step.record.step, end = student_length();
    RefreshInFlight refresh;
    DraftEvent event{.step = boundary,
                     .refresh_id = m_state.refreshes,
                     .first_pos = draft.first_pos,
                     .tokens = std::move(draft.tokens),
                     .instead = draft.instead ? draft.instead->id : -1,
                     .rejected_ms = draft.rejected_ms};
    for (TeacherPass& pass : draft.passes) {
        refresh.teacher_ms += pass.event.ms;
        event.rejected_read += std::max<int64_t>(pass.event.first_pos + pass.event.tokens - end, 0) -
                               std::max<int64_t>(pass.event.first_pos - end, 0);
        // Boundary b has recorded its own probe or shadow pass, and those before it theirs.
        if (pass.event.step < boundary ||
            (pass.event.step == boundary && (pass.event.probe || pass.event.shadow)))
            continue;
        pass.event.step = boundary;
        pass.event.tokens = std::clamp<int64_t>(end - pass.event.first_pos, 0, pass.event.tokens);
        pass.reading.keep_first(pass.event.tokens);
        if (pass.event.tokens > 0) pass.event.kl_nats = pass.reading.kl_nats.back();
        record(step, pass);
        refresh.pass_tokens += pass.event.tokens;
    }
    if (draft.decision.automatic) {
        m_automatic_steps.push_back(boundary);
        m_state.automatic_refreshes = m_automatic_steps.size();
    }
    const RefreshPolicy& policy = m_parts.config.policy;
    refresh.decision = std::move(draft.decision);
    refresh.fired_step = refresh.due_step = boundary;
    refresh.end = m_state.last_pass = end;
    refresh.window = policy.verify.splice && !m_parts.rebuild ? policy.window : std::optional(0);
    refresh.scope = policy.scope;
    refresh.on_fire = OnFire::verify;
    event.teacher_ms = refresh.teacher_ms;
    if (policy.verify.target) {
        const int64_t judged = event.accepted() + (draft.instead ? 1 : 0);
        m_state.confidence = adapt_confidence(
            m_state.confidence, static_cast<double>(event.accepted()) / static_cast<double>(judged),
            *policy.verify.target);
    }
    step.recording.add_draft(std::move(event));
    land(step, refresh, draft.instead);
    if (!draft.instead) judge_pending(step);
}

void RefreshBoundary::back_fill(BoundaryStep& step, TeacherReader::Reading reading) {
    // The record at position p is that of step p - L + 1; the newest is the one in flight.
    const int64_t first_step = reading.first - m_parts.prompt_length + 1;
    StepRecord& record = step.record;
    const bool to_newest = reading.first + reading.tokens == student_length();
    for (const auto& [id, values] :
         {std::pair(ids().kl, &reading.kl_nats), std::pair(ids().acceptance, &reading.acceptance),
          std::pair(ids().same_top1, &reading.same_top1)}) {
        if (to_newest) {
            record.signals[id] = values->back();
            values->pop_back();
        }
        if (!values->empty()) step.recording.back_fill(id, first_step, *values);
    }
    if (to_newest) {
        record.signals[ids().kl_mean] =
            mean_kl(m_state.splice - m_parts.prompt_length + 1, record.step, [&](int64_t t) {
                return t == record.step ? record.signals[ids().kl] : step.recording.signal(t, ids().kl);
            });
    }
    for (size_t i = 0; i < reading.next_logprob.size(); ++i) { // about the token at first + 1 + i
        const int64_t about = first_step + 1 + static_cast<int64_t>(i);
        put_signal(step.recording, &record, ids().teacher_logprob, about,
                   static_cast<double>(reading.next_logprob[i]));
        put_signal(step.recording, &record, ids().agreement, about,
                   static_cast<double>(reading.next_agrees[i]));
        put_signal(step.recording, &record, ids().rank, about, static_cast<double>(reading.next_rank[i]));
    }
}

void RefreshBoundary::plan(BoundaryStep& step) {
    const bool adapts = step.drafted_from && m_parts.config.policy.verify.target;
    const RefreshPolicy& policy =
        adapts ? m_adapted.emplace(shifted_policy(m_parts.config.policy, m_state.confidence))
               : m_parts.config.policy;
    const int64_t end = student_length();
    // A probe is asked for at its own `every`, also where shadow mode has measured the KL already.
    std::array<float, max_signals> known = step.record.signals;
    for (const size_t id : probed_signal_ids())
        known[id] = absent();
    Boundary boundary;
    boundary.step = step.record.step;
    boundary.tokens_since_splice = end - m_state.splice;
    boundary.tokens_since_pass = end - m_state.last_pass;
    boundary.last_splice_step = m_state.last_splice_step;
    boundary.automatic_steps = m_automatic_steps;
    boundary.signals = known;
    boundary.manual = step.by_hand || m_state.asked;
    boundary.in_flight = m_state.in_flight.has_value();
    boundary.layers = &step.layers;
    boundary.table = step.recording.signals();
    m_state.asked = boundary.manual && boundary.in_flight;

    Decision decision = decide(policy, boundary);
    RefreshInFlight refresh;
    if (decision.kind == Decision::Kind::probe) {
        const PassEvent pass = teacher_pass(step, end, PassFor::probe);
        refresh.pass_tokens = pass.tokens;
        refresh.teacher_ms = pass.ms;
        m_state.last_pass = end;
        for (const size_t id : probed_signal_ids())
            known[id] = step.record.signals[id];
        decision = decide(policy, boundary);
        RL_ASSERT(decision.kind != Decision::Kind::probe);
    }
    if (step.drafted_from) {
        if (decision.kind != Decision::Kind::refresh && !step.draft_ends) return;
        if (decision.kind != Decision::Kind::refresh)
            decision = {.kind = Decision::Kind::refresh,
                        .hits = {{.signal = std::string(draft_end_hit), .letter = '.'}}};
        return judge_draft(step, std::move(decision));
    }
    if (decision.kind != Decision::Kind::refresh) return;
    if (decision.automatic) {
        m_automatic_steps.push_back(step.record.step);
        m_state.automatic_refreshes = m_automatic_steps.size();
    }
    refresh.decision = std::move(decision);
    refresh.fired_step = step.record.step;
    refresh.due_step = step.record.step + policy.lag;
    refresh.end = end;
    refresh.window = policy.window;
    refresh.scope = policy.scope;
    refresh.on_fire = policy.on_fire;
    m_state.in_flight = std::move(refresh);
    advance(step);
}

void RefreshBoundary::advance(BoundaryStep& step) {
    RefreshInFlight& refresh = *m_state.in_flight;
    const int64_t boundaries = refresh.due_step - step.record.step + 1; // this one included
    RL_ASSERT(boundaries >= 1);
    // A token of the teacher's needs its newest row, so there it also reads what the student wrote meanwhile.
    const bool to_newest = boundaries == 1 && refresh.on_fire == OnFire::teacher_token;
    const int64_t first = m_parts.teacher.length(), end = to_newest ? student_length() : refresh.end;
    const int64_t left = std::max<int64_t>(0, end - first);
    const PassEvent pass = teacher_pass(step, first + (left + boundaries - 1) / boundaries, PassFor::refresh);
    refresh.pass_tokens += pass.tokens;
    refresh.teacher_ms += pass.ms;
    if (boundaries > 1) return;
    m_state.last_pass = end;
    land(step, refresh, {});
    m_state.in_flight.reset();
}

void RefreshBoundary::land(BoundaryStep& step, const RefreshInFlight& refresh,
                           const std::optional<PendingToken>& instead) {
    const StepRecord& record = step.record;
    RefreshEvent event;
    event.step = record.step;
    event.fired_step = refresh.fired_step;
    event.id = m_state.refreshes;
    event.hits = refresh.decision.hits;
    event.automatic = refresh.decision.automatic;
    event.delta = refresh.end - m_state.splice;
    const int64_t most = refresh.window ? std::min<int64_t>(*refresh.window, event.delta) : event.delta;
    event.pass_tokens = refresh.pass_tokens;
    event.on_fire = refresh.on_fire;
    event.token_before = step.pending.id;
    const int64_t newest = refresh.end - m_parts.prompt_length; // step of the last position of delta
    event.kl_nats =
        newest == record.step ? record.signals[ids().kl] : step.recording.signal(newest, ids().kl);
    event.teacher_ms = refresh.teacher_ms;

    splice(step, event, {m_state.splice, refresh.end}, {refresh.end - most, refresh.end}, refresh.scope);
    if (m_state.attention) { // what was written since, behind a lag, goes on
        const auto& sums = *m_state.attention;
        const int64_t gone = std::min(refresh.end - m_state.splice, std::ssize(sums));
        m_state.attention = std::make_shared<const std::vector<float>>(sums.begin() + gone, sums.end());
    }
    m_state.splice = refresh.end;
    m_state.last_splice_step = record.step;
    ++m_state.refreshes;

    if (instead) step.pending = *instead;
    if (event.on_fire != OnFire::verify) replace_pending(step, event);
    event.token_after = step.pending.id;
    step.recording.add_refresh(std::move(event));
}

void RefreshBoundary::splice(BoundaryStep& step, RefreshEvent& event, Delta delta, Delta stretch,
                             const RefreshScope& scope) {
    const Stopwatch watch;
    event.spliced = stretch.size();
    event.first_pos = stretch.first;
    event.bytes_sent = 0;
    if (!m_parts.rebuild) {
        DeltaDrift drift = measure_drift(m_parts.student_cache, m_parts.teacher.entries(), delta);
        drift.map->step = event.step;
        drift.map->refresh_id = event.id;
        double total = 0, as_recorded = 0;
        int64_t held = 0; // positions of delta that the student holds anywhere
        for (int64_t i = 0; i < delta.size(); ++i) {
            const double mean = drift.mean[static_cast<size_t>(i)];
            if (is_absent(static_cast<float>(mean))) continue;
            ++held;
            total += mean;
            as_recorded += static_cast<double>(static_cast<float>(mean));
            put_signal(step.recording, &step.record, ids().drift, delta.first + i - m_parts.prompt_length + 1,
                       mean);
        }
        if (held > 0) {
            event.mean_drift = static_cast<float>(total / static_cast<double>(held));
            m_state.last_drift = static_cast<float>(as_recorded / static_cast<double>(held));
        }
        KvCache& student = m_parts.student_cache;
        const KvCache& teacher = m_parts.teacher.entries();
        EntrySelection written;
        written.heads = scope.heads_of(student.num_layers(), student.num_kv_heads());
        written.halves = {scope.parts != ScopeParts::values, scope.parts != ScopeParts::keys};
        if (std::ranges::find(written.heads, 1) != written.heads.end()) {
            written.positions =
                scope_positions(scope, stretch, *drift.map, attention_of(m_state), student.num_kv_heads());
        }
        step.recording.add_drift(std::move(drift.map));
        if (scope.whole()) {
            event.bytes_sent = splice_newest(student, teacher, delta, event.spliced, event.id, event.step);
        } else {
            event.spliced = std::ssize(written.positions);
            event.first_pos = written.positions.empty() ? delta.end : written.positions.front();
            event.bytes_sent = splice_scope(student, teacher, delta, written, event.id, event.step);
        }
        if (m_parts.cache_policy != nullptr && !written.positions.empty())
            m_parts.cache_policy->refreshed(written);
    } else if (event.spliced > 0) {
        std::vector<int32_t> tokens;
        for (int64_t p = event.first_pos; p < student_length(); ++p)
            tokens.push_back(step.token_at(p));
        rebuild_columns(m_parts.student, m_parts.student_cache, event.first_pos, tokens, event.id);
    }
    event.splice_ms = watch.ms();
    part_ms(step.record, Part::splice) += static_cast<float>(event.splice_ms);
}

void RefreshBoundary::replace_pending(BoundaryStep& step, RefreshEvent& event) {
    if (event.on_fire == OnFire::keep) return;
    const Stopwatch watch;
    const StepRecord& record = step.record;
    const SamplerConfig& sampler = m_parts.config.sampler;
    if (event.on_fire == OnFire::redraw) {
        StepInputs in;
        in.tokens = std::span(&record.token_id, 1);
        LayerHooks* const again[] = {m_parts.cache_policy != nullptr ? &m_parts.cache_policy->again()
                                                                     : nullptr};
        if (m_parts.cache_policy != nullptr) in.hooks = again;
        const at::Tensor row =
            m_parts.student.read_only(m_parts.student_cache, record.position, in).logits[0];
        step.pending = m_parts.chooser.choose(row, record.position + 1, Producer::student, sampler);
    } else {
        step.pending = m_parts.chooser.choose(m_parts.teacher.last_row(), record.position + 1,
                                              Producer::teacher, sampler, &m_parts.teacher.last_statistics());
    }
    event.redraw_ms = watch.ms();
    part_ms(step.record, Part::redraw) += static_cast<float>(event.redraw_ms);
}

void RefreshBoundary::judge_pending(BoundaryStep& step) const {
    if (m_parts.teacher.length() != student_length())
        return; // its last row is not that of this record's position
    step.pending.teacher_logprob = m_parts.teacher.last_logprob(step.pending.id);
    step.pending.teacher_rank = m_parts.teacher.last_rank(step.pending.id);
    step.pending.teacher_agrees = m_parts.teacher.last_statistics().top1_id == step.pending.id ? 1 : 0;
}

} // namespace refreshlab
