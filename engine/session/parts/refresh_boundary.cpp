#include "engine/session/parts/refresh_boundary.h"

#include "engine/base/check.h"
#include "engine/session/parts/stopwatch.h"
#include "engine/session/policies/policy_runner.h"
#include "engine/signals/kl_mean.h"

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
}

void RefreshBoundary::run(BoundaryStep& step) {
    if (m_parts.config.shadow) teacher_pass(step, student_length(), PassFor::shadow);
    // With `keep` the token is out already: after the run's last choice a refresh could change nothing.
    const auto acts = [&step](OnFire on_fire) { return step.runs_on || on_fire != OnFire::keep; };
    if (m_state.in_flight && acts(m_state.in_flight->on_fire)) advance(step);
    if (acts(m_parts.config.policy.on_fire)) plan(step);
    judge_pending(step);
}

PassEvent RefreshBoundary::teacher_pass(BoundaryStep& step, int64_t end, PassFor purpose) {
    const Stopwatch watch;
    PassEvent event;
    event.step = step.record.step;
    event.first_pos = m_parts.teacher.length();
    event.tokens = std::max<int64_t>(0, end - event.first_pos);
    event.probe = purpose == PassFor::probe;
    event.shadow = purpose == PassFor::shadow;
    if (event.tokens == 0) return event;
    TeacherReader::Reading reading = m_parts.teacher.read(end, step.token_at, m_parts.ring, student_length());
    event.kl_nats = reading.kl_nats.back();
    if (!is_absent(reading.kl_nats.back())) m_state.last_kl_nats = reading.kl_nats.back();
    back_fill(step, std::move(reading));
    event.ms = watch.ms();
    part_ms(step.record, Part::teacher_pass) += static_cast<float>(event.ms);
    step.recording.add_pass(event);
    return event;
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
    const RefreshPolicy& policy = m_parts.config.policy;
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
    land(step, refresh);
    m_state.in_flight.reset();
}

void RefreshBoundary::land(BoundaryStep& step, const RefreshInFlight& refresh) {
    const StepRecord& record = step.record;
    RefreshEvent event;
    event.step = record.step;
    event.fired_step = refresh.fired_step;
    event.id = m_state.refreshes;
    event.hits = refresh.decision.hits;
    event.automatic = refresh.decision.automatic;
    event.delta = refresh.end - m_state.splice;
    event.spliced = refresh.window ? std::min<int64_t>(*refresh.window, event.delta) : event.delta;
    event.first_pos = refresh.end - event.spliced;
    event.pass_tokens = refresh.pass_tokens;
    event.on_fire = refresh.on_fire;
    event.token_before = step.pending.id;
    const int64_t newest = refresh.end - m_parts.prompt_length; // step of the last position of delta
    event.kl_nats =
        newest == record.step ? record.signals[ids().kl] : step.recording.signal(newest, ids().kl);
    event.teacher_ms = refresh.teacher_ms;

    splice(step, event);
    m_state.splice = refresh.end;
    m_state.last_splice_step = record.step;
    ++m_state.refreshes;

    replace_pending(step, event);
    event.token_after = step.pending.id;
    step.recording.add_refresh(std::move(event));
}

void RefreshBoundary::splice(BoundaryStep& step, RefreshEvent& event) {
    const Stopwatch watch;
    const Delta delta{event.first_pos + event.spliced - event.delta, event.first_pos + event.spliced};
    if (!m_parts.rebuild) {
        DeltaDrift drift = measure_drift(m_parts.student_cache, m_parts.teacher.cache(), delta);
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
        step.recording.add_drift(std::move(drift.map));
        splice_newest(m_parts.student_cache, m_parts.teacher.cache(), delta, event.spliced, event.id,
                      event.step);
        if (m_parts.cache_policy != nullptr) m_parts.cache_policy->refreshed(event.first_pos, event.spliced);
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
