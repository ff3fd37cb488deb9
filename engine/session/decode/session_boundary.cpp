// What happens behind a step: shadow pass, KL probe, refresh, and what a refresh does to the pending token.
// The loop this follows is in reference/refresh.md, section 3.
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/model/sampler.h"
#include "engine/session/decode/session_state.h"
#include "engine/signals/kl_mean.h"
#include "kernels/ops/column_distance.h"

#include <ATen/ops/stack.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

std::vector<float> to_floats(const at::Tensor& tensor) {
    const at::Tensor dense = tensor.contiguous();
    const float* data = dense.const_data_ptr<float>();
    return {data, data + dense.numel()};
}

struct SignalIds {
    size_t kl = require_signal("kl_nats", "session"), kl_mean = require_signal("kl_mean_nats", "session"),
           teacher_logprob = require_signal("teacher_logprob", "session"),
           agreement = require_signal("teacher_agreement", "session"),
           drift = require_signal("drift", "session");
};
const SignalIds& ids() {
    static const SignalIds known;
    return known;
}

} // namespace

void DecodeSession::Impl::put_signal(StepRecord* in_flight, size_t id, int64_t step, double value) {
    const auto narrow = static_cast<float>(value);
    if (in_flight != nullptr && step == in_flight->step) {
        in_flight->signals[id] = narrow;
    } else if (step >= 1 && step <= recording->steps()) {
        recording->back_fill(id, step, std::span(&narrow, 1));
    }
}

PassEvent DecodeSession::Impl::teacher_pass(StepRecord& record, int64_t end, PassFor purpose) {
    const Stopwatch watch;
    const int64_t first = teacher_cache->length(), student_end = student_cache->length();
    PassEvent event{record.step, first, std::max<int64_t>(0, end - first), purpose == PassFor::probe,
                    purpose == PassFor::shadow};
    if (event.tokens == 0) return event;
    const auto token_text = [&](int64_t position) { // the record in flight is not in the recording yet
        return position == record.position ? record.token_id : token_at(position);
    };
    std::vector<float> kl, teacher_logprob, agrees; // of the rows at [first, end)
    for (int64_t begin = first; begin < end;) {
        const int64_t n = std::min(pass_chunk, end - begin);
        std::vector<int32_t> tokens;
        for (int64_t p = begin; p < begin + n; ++p)
            tokens.push_back(token_text(p));
        const at::Tensor rows = pair->teacher->extend(*teacher_cache, tokens, LlamaModel::Rows::all,
                                                      static_cast<uint8_t>(Origin::teacher_decode));
        const std::vector<kernels::RowStatistics> statistics = kernels::row_statistics(rows);
        for (int64_t i = 0; i < n; ++i) {
            const int64_t position = begin + i;
            const auto& row = statistics[static_cast<size_t>(i)];
            // The row at p predicts p + 1. Behind the newest position stands the pending token, which on_fire may still
            // replace: boundary() gives it its numbers.
            if (position + 1 < student_end) {
                const int32_t next = token_text(position + 1);
                teacher_logprob.push_back(static_cast<float>(rows[i][next].item<double>() - row.log_z));
                agrees.push_back(row.top1_id == next ? 1.0F : 0.0F);
            }
            kl.push_back(absent());
        }
        std::vector<at::Tensor> student_rows;
        std::vector<int64_t> held;
        for (int64_t i = 0; i < n; ++i) {
            if (!ring->holds(begin + i)) continue;
            student_rows.push_back(ring->row(begin + i));
            held.push_back(i);
        }
        if (!held.empty()) {
            const at::Tensor student = at::stack(student_rows).to(rows.device());
            const bool all = static_cast<int64_t>(held.size()) == n;
            std::vector<at::Tensor> picked;
            if (!all) {
                for (const int64_t i : held)
                    picked.push_back(rows[i]);
            }
            const std::vector<double> values =
                kernels::kl_divergence(all ? rows : at::stack(picked), student);
            for (size_t i = 0; i < held.size(); ++i) {
                kl[static_cast<size_t>(begin - first + held[i])] = static_cast<float>(values[i]);
            }
        }
        last_teacher_row = rows[n - 1].clone();
        begin += n;
    }
    marks.teacher_len = end;
    event.kl_nats = kl.back();

    // Step of the record at position p is p - L + 1; the newest belongs to the record in flight.
    const int64_t first_step = first - prompt_length() + 1;
    if (end == student_end) {
        record.signals[ids().kl] = kl.back();
        kl.pop_back();
    }
    if (!kl.empty()) recording->back_fill(ids().kl, first_step, kl);
    if (end == student_end) {
        record.signals[ids().kl_mean] =
            mean_kl(marks.splice - prompt_length() + 1, record.step, [&](int64_t step) {
                return step == record.step ? record.signals[ids().kl] : recording->signal(step, ids().kl);
            });
    }
    for (size_t i = 0; i < teacher_logprob.size(); ++i) { // about the token at first + 1 + i
        const int64_t step = first_step + 1 + static_cast<int64_t>(i);
        put_signal(&record, ids().teacher_logprob, step, static_cast<double>(teacher_logprob[i]));
        put_signal(&record, ids().agreement, step, static_cast<double>(agrees[i]));
    }
    event.ms = watch.ms();
    record.part_ms[static_cast<size_t>(Part::teacher_pass)] += static_cast<float>(event.ms);
    recording->add_pass(event);
    return event;
}

void DecodeSession::Impl::boundary(StepRecord& record, bool runs_on) {
    const int64_t end = student_cache->length();
    if (config.shadow) teacher_pass(record, end, PassFor::shadow);

    // With `keep` the token is out already: behind the run's last choice a refresh could change nothing.
    const auto acts = [runs_on](OnFire on_fire) { return runs_on || on_fire != OnFire::keep; };
    if (marks.in_flight && acts(marks.in_flight->on_fire)) advance_refresh(record);
    if (acts(config.policy.on_fire)) {
        // A probe is asked for at its own stride, also where shadow mode has measured the KL already.
        std::array<float, max_signals> known = record.signals;
        known[ids().kl] = known[ids().kl_mean] = absent();
        Boundary state;
        state.step = record.step;
        state.tokens_since_splice = end - marks.splice;
        state.tokens_since_pass = end - marks.last_pass;
        state.last_splice_step = marks.last_splice_step;
        state.automatic_steps = automatic_steps;
        state.signals = known;
        state.manual = std::exchange(refresh_requested, false) || marks.asked;
        state.in_flight = marks.in_flight.has_value();
        marks.asked = state.manual && state.in_flight;
        Decision decision = decide(config.policy, state);
        RefreshInFlight refresh;
        if (decision.kind == Decision::Kind::probe) {
            const PassEvent pass = teacher_pass(record, end, PassFor::probe);
            refresh.pass_tokens = pass.tokens;
            refresh.teacher_ms = pass.ms;
            marks.last_pass = end;
            for (const size_t id : {ids().kl, ids().kl_mean})
                known[id] = record.signals[id];
            decision = decide(config.policy, state);
            RL_ASSERT(decision.kind != Decision::Kind::probe);
        }
        if (decision.kind == Decision::Kind::refresh) {
            if (decision.automatic) {
                automatic_steps.push_back(record.step);
                marks.automatic_refreshes = automatic_steps.size();
            }
            refresh.decision = std::move(decision);
            refresh.fired_step = record.step;
            refresh.due_step = record.step + config.policy.lag;
            refresh.end = end;
            refresh.window = config.policy.window;
            refresh.on_fire = config.policy.on_fire;
            marks.in_flight = std::move(refresh);
            advance_refresh(record);
        }
    }
    if (teacher_cache->length() == end) { // its last row is that of this record's position
        const kernels::RowStatistics s = kernels::row_statistics(last_teacher_row.unsqueeze(0))[0];
        marks.pending.teacher_logprob = last_teacher_row[marks.pending.id].item<double>() - s.log_z;
        marks.pending.teacher_agrees = s.top1_id == marks.pending.id ? 1 : 0;
    }
}

void DecodeSession::Impl::advance_refresh(StepRecord& record) {
    RefreshInFlight& refresh = *marks.in_flight;
    const int64_t boundaries = refresh.due_step - record.step + 1; // this one included
    RL_ASSERT(boundaries >= 1);
    // A token of the teacher's needs its newest row, so there it also reads what the student wrote meanwhile.
    const bool to_newest = boundaries == 1 && refresh.on_fire == OnFire::teacher_token;
    const int64_t first = teacher_cache->length(), end = to_newest ? student_cache->length() : refresh.end;
    const int64_t left = std::max<int64_t>(0, end - first);
    const PassEvent pass =
        teacher_pass(record, first + (left + boundaries - 1) / boundaries, PassFor::refresh);
    refresh.pass_tokens += pass.tokens;
    refresh.teacher_ms += pass.ms;
    if (boundaries > 1) return;
    marks.last_pass = end;
    splice(record, refresh);
    marks.in_flight.reset();
}

void DecodeSession::Impl::splice(StepRecord& record, const RefreshInFlight& refresh) {
    const int64_t end = refresh.end, delta = end - marks.splice;
    const int64_t k = refresh.window ? std::min<int64_t>(*refresh.window, delta) : delta;
    RefreshEvent event;
    event.step = record.step;
    event.fired_step = refresh.fired_step;
    event.id = marks.refreshes;
    event.hits = refresh.decision.hits;
    event.automatic = refresh.decision.automatic;
    event.delta = delta;
    event.first_pos = end - k;
    event.spliced = k;
    event.pass_tokens = refresh.pass_tokens;
    event.on_fire = refresh.on_fire;
    event.token_before = marks.pending.id;
    const int64_t newest = end - prompt_length(); // step of the last position of delta
    event.kl_nats = newest == record.step ? record.signals[ids().kl] : recording->signal(newest, ids().kl);
    event.teacher_ms = refresh.teacher_ms;

    // The drift map is free here: both versions of every column of delta exist at this moment only.
    const Stopwatch splice_watch;
    if (!pair->geometry_difference) {
        const at::Device device = student_cache->device();
        const auto k_distance = kernels::column_distance(student_cache->keys(marks.splice, delta),
                                                         teacher_cache->keys(marks.splice, delta).to(device));
        const auto v_distance =
            kernels::column_distance(student_cache->values(marks.splice, delta),
                                     teacher_cache->values(marks.splice, delta).to(device));
        auto map = std::make_shared<DriftMap>();
        map->step = record.step;
        map->refresh_id = event.id;
        map->first_pos = marks.splice;
        map->positions = delta;
        map->layers = k_distance.relative.size(0);
        map->k = to_floats(k_distance.relative);
        map->v = to_floats(v_distance.relative);
        map->k_max = to_floats(k_distance.max_abs);
        map->v_max = to_floats(v_distance.max_abs);
        double total = 0;
        for (int64_t i = 0; i < delta; ++i) {
            double sum = 0;
            for (int64_t layer = 0; layer < map->layers; ++layer) {
                const auto at_cell = static_cast<size_t>(layer * delta + i);
                sum += static_cast<double>(map->k[at_cell]) + static_cast<double>(map->v[at_cell]);
            }
            const double mean = sum / (2.0 * static_cast<double>(map->layers));
            total += mean;
            put_signal(&record, ids().drift, marks.splice + i - prompt_length() + 1, mean);
        }
        event.mean_drift = static_cast<float>(total / static_cast<double>(delta));
        recording->add_drift(std::move(map));
        if (k > 0) student_cache->splice(*teacher_cache, end - k, k, event.id, record.step);
        if (k < delta) student_cache->mark_skipped(marks.splice, delta - k, event.id, record.step);
    } else if (k > 0) {
        rebuild_columns(record, end - k);
    }
    event.splice_ms = splice_watch.ms();
    record.part_ms[static_cast<size_t>(Part::splice)] += static_cast<float>(event.splice_ms);
    marks.splice = end;
    marks.last_splice_step = record.step;
    ++marks.refreshes;

    if (refresh.on_fire != OnFire::keep) {
        const Stopwatch redraw_watch;
        const bool redraw = refresh.on_fire == OnFire::redraw;
        const at::Tensor row =
            redraw ? pair->student->read_only_step(*student_cache, record.token_id, record.position)
                   : last_teacher_row;
        marks.pending = choose(row, record.position + 1, redraw ? Producer::student : Producer::teacher);
        event.redraw_ms = redraw_watch.ms();
        record.part_ms[static_cast<size_t>(Part::redraw)] += static_cast<float>(event.redraw_ms);
    }
    event.token_after = marks.pending.id;
    recording->add_refresh(std::move(event));
}

/// Rebuild mode: the geometries differ, so nothing can be copied. The student's columns [first_pos, end) are computed
/// again from the text, which for an exact cache reproduces them (reference/refresh.md, section 4).
void DecodeSession::Impl::rebuild_columns(const StepRecord& record, int64_t first_pos) {
    std::vector<int32_t> tokens;
    for (int64_t p = first_pos; p < record.position; ++p)
        tokens.push_back(token_at(p));
    tokens.push_back(record.token_id);
    student_cache->truncate(first_pos);
    pair->student->extend(*student_cache, tokens, LlamaModel::Rows::none,
                          static_cast<uint8_t>(Origin::student));
}

} // namespace refreshlab
