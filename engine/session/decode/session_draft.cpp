// Drafts (reference/refresh.md, section 3, "Verification"). The steps of a draft go into a fork of the recording, which nobody else
// reads. When a refresh has judged them, the session stands at the boundary where the draft was cut, and the fork holds
// what stays. Each step() then lets one record out.
#include "engine/base/check.h"
#include "engine/record/recording/cache_state.h"
#include "engine/session/decode/session_impl.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace refreshlab {

bool DecodeSession::Impl::begins_draft() const {
    const bool last = t + 1 == limit() || prompt_length() + t >= capacity; // y_N is recorded alone
    return boundary && verifies(config.policy) && !boundary->state().in_flight && !last;
}

void DecodeSession::Impl::write_to(std::shared_ptr<Recording> next) {
    recording = std::move(next);
    if (cache_policy) cache_policy->set_scores(recording->entry_scores());
}

void DecodeSession::Impl::begin_draft() {
    draft_reads.clear();
    write_to(published->fork_ahead());
    settled_ms = -1;
}

void DecodeSession::Impl::settle(StepInFlight& now, JudgedDraft& draft) {
    const int64_t drafted = now.record.step;
    if (draft.step < drafted) {
        const auto ms_of = [](const StepRecord& record) {
            return std::accumulate(record.part_ms.begin(), record.part_ms.end(), 0.0) -
                   static_cast<double>(record.part_ms[static_cast<size_t>(Part::teacher_pass)]);
        };
        for (int64_t s = draft.step + 1; s < drafted; ++s)
            draft.rejected_ms += ms_of(recording->step(s));
        draft.rejected_ms += ms_of(now.record);
        go_back(now, draft.step);
    }
    BoundaryStep step{
        now.record, pending, *recording, now.layers, true, false, [this, &now](int64_t position) {
            return position == now.record.position ? now.record.token_id : token_at(position);
        }};
    boundary->settle(step, draft);
    if (draft.instead) chooser->set_attempt(chooser->attempt() + 1);
    settled_ms = elapsed_ms();
}

/// Back to step b of the draft, with its record in flight again, as before its boundary.
void DecodeSession::Impl::go_back(StepInFlight& now, int64_t step) {
    const std::shared_ptr<Recording> draft = recording;
    const int64_t out = published->steps(), length = prompt_length() + step;
    restore(step, length); // the teacher has read all that stays
    ring->drop_from(length);

    auto settled = published->fork_ahead();
    for (int64_t s = out + 1; s < step; ++s)
        settled->follow(*draft, draft->step(s));
    settled->take_events(*draft);
    draft->entry_scores().copy_up_to(step, settled->entry_scores());
    now.record = draft->step(step);
    now.layers = draft->layers(step);
    t = step - 1;
    history.pop_back(); // of boundary b, which comes again
    write_to(std::move(settled));
    tell_reads(step);
    if (!cache_policy) return;
    cache_policy->back_to_step(step);
    cache_policy->continue_telling(cache_state(*recording, step, false));
}

/// What the teacher has read in later steps of the draft belongs to boundary `step` now, as far as it stays.
void DecodeSession::Impl::tell_reads(int64_t step) {
    const int64_t end = teacher->length();
    for (CacheEvent& event : draft_reads) {
        if (event.step <= step) continue;
        RL_ASSERT(event.change == CacheChange::appended && event.positions.size() == 1);
        PositionRange& range = event.positions.front();
        if (range.first >= end) break;
        event.step = step;
        if (range.first + range.n > end) {
            range.n = end - range.first;
            for (size_t layer = 0; layer < event.bytes.size(); ++layer)
                event.bytes[layer] = teacher->cache().layer_bytes(static_cast<int64_t>(layer));
        }
        recording->add_cache_event(std::move(event));
    }
}

void DecodeSession::Impl::release() {
    const int64_t step = published->steps() + 1;
    StepRecord record = recording->step(step);
    record.arrival_ms = settled_ms;
    score_task(record);
    published->follow(*recording, record);
    if (published->steps() < recording->steps()) return;
    recording->entry_scores().copy_up_to(step, published->entry_scores());
    write_to(published);
    if (is_end(pending.id)) finish("stop_token");
}

std::vector<OpenDraft::Token> DecodeSession::draft() const {
    std::vector<OpenDraft::Token> tokens;
    if (!drafting()) return tokens;
    static const size_t entropy = require_signal("entropy_bits", "session");
    const Impl& s = *m_impl;
    for (int64_t step = s.published->steps() + 1; step <= s.t; ++step)
        tokens.push_back({s.recording->step(step).next_token_id,
                          static_cast<float>(s.history[static_cast<size_t>(step)].pending.logprob),
                          s.recording->step(step).signals[entropy]});
    return tokens;
}

void DecodeSession::Impl::drop_waiting() {
    if (!waiting()) return;
    const c10::InferenceMode guard;
    const int64_t out = published->steps();
    restore(out, history[static_cast<size_t>(out)].teacher_length);
    ring->drop_from(prompt_length() + t);
    recording->entry_scores().copy_up_to(t, published->entry_scores());
    write_to(published);
    if (cache_policy) cache_policy->continue_telling(cache_state(*recording, t, false));
}

} // namespace refreshlab
