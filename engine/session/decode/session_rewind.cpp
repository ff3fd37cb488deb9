#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/control/command.h"
#include "engine/record/recording/cache_state.h"
#include "engine/record/recording/logged_config.h"
#include "engine/record/runs/branch_info.h"
#include "engine/session/decode/run_identity.h"
#include "engine/session/decode/session_impl.h"
#include "engine/session/parts/attention_rows.h"
#include "kernels/shared/device_failure.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace refreshlab {

void DecodeSession::Impl::rewind(int64_t step, const Recording* as) {
    const c10::InferenceMode guard;
    const int64_t out = published->steps();
    const int64_t newest = finished && out > 0 && !published->step(out).fed ? out - 1 : out;
    if (step < 0 || step > newest) {
        throw Error("rewinding to step", std::to_string(step),
                    fmt::format("the run has steps 0 to {}", newest));
    }
    const bool in_draft = history[static_cast<size_t>(step)].in_draft;
    Branch branch = prepare_branch(step, history[static_cast<size_t>(step)], as);

    restore(step, history[static_cast<size_t>(step)].teacher_length);
    chooser->rewind(step);
    published = std::move(branch.recording);
    write_to(published);
    if (cache_policy)
        cache_policy->continue_telling(cache_state(*recording, step, config.mode == Mode::teacher));
    finished = false;
    refresh_requested = false;
    active_ms = history.back().active_ms;
    if (as != nullptr) {
        const double known = step > 0 ? as->step(step).arrival_ms : as->info().ttft_ms;
        if (std::isfinite(known)) active_ms = known;
    }

    if (scorer) { // its verdicts on these tokens are in the recording already
        scorer = std::move(branch.scorer);
        const size_t hit_id = require_signal("top1_hit", "session");
        for (int64_t i = 1; i <= step; ++i)
            static_cast<void>(read_task_token(recording->token(i), recording->signal(i, hit_id) == 1.0F));
    }
    if (ring) remake_ring_rows(branch);
    log_reached_settings();
    // What stood before this step is settled now, and the next draft begins here. A replay has to break the draft off too, which a
    // command does.
    if (in_draft && recording->commands().size() == recording->inherited().commands &&
        verifies(config.policy))
        log_command(command::SetParameter{"on_fire", std::string(to_string(OnFire::verify))});
}

void DecodeSession::Impl::restore(int64_t step, int64_t teacher_length) {
    const Watermarks& then = history[static_cast<size_t>(step)];
    const int64_t length = prompt_length() + step;
    if (student_cache) student_cache->rewind(step, length);
    if (teacher) teacher->rewind(step, std::min(teacher_length, teacher->length()));
    if (boundary) boundary->restore(then.refresh);
    if (cache_policy) {
        cache_policy->restore(*then.cache_policy);
        cache_policy->set_values(decoder_policy()); // settings stay as they are now
    }
    chooser->set_attempt(then.rejections);
    pending = then.pending;
    t = step;
    history.resize(static_cast<size_t>(step) + 1);
}

/// The copies that a rewind makes. Nothing of the run has changed when one of them finds no memory.
DecodeSession::Impl::Branch DecodeSession::Impl::prepare_branch(int64_t step, const Watermarks& then,
                                                                const Recording* as) const {
    const auto no_memory = [step](const std::string& why) {
        return Error("rewinding to step", std::to_string(step), why, "the run stands as it was",
                     ErrorKind::failure);
    };
    try {
        Branch branch;
        branch.recording = fork_of(step, as);
        if (scorer) branch.scorer = TaskScorer::create(config.task, config.prompt);
        if (!ring || cache_policy) return branch;
        branch.first_unread = std::max(then.teacher_length, prompt_length());
        const auto& landed = branch.recording->refreshes();
        branch.spliced_from =
            landed.size() == 0 ? branch.first_unread : prompt_length() + landed[landed.size() - 1].step;
        if (branch.spliced_from > branch.first_unread) {
            branch.before_splice = student_cache->clone();
            branch.before_splice->rewind(landed[landed.size() - 1].step - 1, branch.spliced_from);
        }
        return branch;
    } catch (const std::bad_alloc&) {
        throw no_memory("there is not enough memory for the branch");
    } catch (const c10::Error& e) {
        throw no_memory(std::string("the branch cannot be made: ") + e.what_without_backtrace());
    } catch (const kernels::DeviceFailure& e) {
        throw no_memory(std::string("the branch cannot be made: ") + e.what());
    }
}

/// The steps are those of `as`, the way on is this session's.
std::shared_ptr<Recording> DecodeSession::Impl::fork_of(int64_t step, const Recording* as) const {
    if (as == nullptr) return published->fork(step, new_run_id());
    for (int64_t y = 1; y <= step + 1; ++y)
        RL_ASSERT(as->token(y) == published->token(y));
    RunInfo info = as->info();
    info.id = new_run_id();
    set_own_info(info, published->info());
    return as->fork_as(step, std::move(info), published->token_table());
}

/// Student rows that the next teacher pass will want. Those that fell out are made again: columns of delta were not
/// touched since they were written, so running their tokens gives the same rows. Only a lagged splice came after some of
/// them; these need the columns that stood before it. Under a cache policy nothing is made again.
void DecodeSession::Impl::remake_ring_rows(const Branch& branch) {
    const int64_t length = prompt_length() + t;
    ring->drop_from(length);
    if (cache_policy) return; // what these steps read may be gone: a row that fell out stays missing
    const auto remake = [&](const KvCache& columns, int64_t first, int64_t end) {
        for (int64_t p = std::max(first, length - ring_rows); p < end; ++p) {
            if (ring->holds(p)) continue;
            const int32_t token = token_at(p);
            StepInputs in;
            in.tokens = std::span(&token, 1);
            ring->put(p, pair->student->forward().read_only(columns, p, in).logits[0]);
        }
    };
    if (branch.before_splice) remake(*branch.before_splice, branch.first_unread, branch.spliced_from);
    remake(*student_cache, std::max(branch.first_unread, branch.spliced_from), length);
}

/// Settings stay as they are now; the log of the branch must lead to them, so that it can be replayed.
void DecodeSession::Impl::log_reached_settings() {
    for (const Command& command : commands_between(last_config(*recording), config))
        log_command(command);
}

void DecodeSession::Impl::capture_attention(int64_t position, bool of_teacher) {
    const c10::InferenceMode guard;
    const LlamaModel* model = of_teacher ? pair->teacher.get() : pair->student.get();
    const KvCache* cache = !of_teacher ? student_cache.get() : teacher ? &teacher->cache() : nullptr;
    const std::string who = of_teacher ? "the teacher" : "the student";
    if (model == nullptr || cache == nullptr)
        throw Error("reading attention", who, "is not part of this run");
    if (published->attention(position, of_teacher)) return; // what was kept at its own step stays
    if (cache_policy && cache == &decoder_cache() && !cache_policy->needs().reads_layer.empty())
        throw Error("reading attention", fmt::format("cache policy {}", decoder_policy().policy),
                    "its layers read entries that they do not hold",
                    "capture.attention keeps the rows of every step");
    drop_waiting();
    if (position < 0 || position >= cache->length()) {
        throw Error("reading attention", fmt::format("position {}", position),
                    fmt::format("{}'s cache holds positions 0 to {}", who, cache->length() - 1),
                    of_teacher ? "the teacher has read up to the last probe or refresh" : "");
    }
    log_command(command::RequestAttention{position, of_teacher});
    AttentionRowsCapture capture(model->config(), config.capture.layers, position, attention_limits());
    const int32_t token = token_at(position);
    LayerHooks* const hooks[] = {&capture};
    StepInputs in;
    in.tokens = std::span(&token, 1);
    in.hooks = hooks;
    static_cast<void>(model->forward().read_only(*cache, position, in));
    recording->add_attention(capture.take(position - prompt_length() + 1, of_teacher));
}

} // namespace refreshlab
