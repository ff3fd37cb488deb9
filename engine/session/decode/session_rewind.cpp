#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/control/parameters.h"
#include "engine/record/recording/last_config.h"
#include "engine/session/decode/run_identity.h"
#include "engine/session/decode/session_state.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>

namespace refreshlab {

void DecodeSession::Impl::rewind(int64_t step) {
    const c10::InferenceMode guard;
    const int64_t newest = finished && t > 0 && !recording->step(t).fed ? t - 1 : t;
    if (step < 0 || step > newest) {
        throw Error("rewinding to step", std::to_string(step),
                    fmt::format("the run has steps 0 to {}", newest));
    }
    const Watermarks& then = history[static_cast<size_t>(step)];
    const int64_t length = prompt_length() + step;
    if (student_cache) student_cache->rewind(step, length);
    if (teacher_cache) teacher_cache->truncate(std::min(then.teacher_len, teacher_cache->length()));

    recording = recording->fork(step, new_run_id());
    marks = then;
    t = step;
    finished = false;
    refresh_requested = false;
    automatic_steps.resize(marks.automatic_refreshes);
    history.resize(static_cast<size_t>(step) + 1);
    active_ms = marks.active_ms;

    if (scorer) { // its verdicts on these tokens are in the recording already
        scorer = TaskScorer::create(config.task, config.prompt);
        const size_t hit_id = require_signal("top1_hit", "session");
        for (int64_t i = 1; i <= step; ++i)
            static_cast<void>(read_task_token(recording->token(i), recording->signal(i, hit_id) == 1.0F));
    }
    if (ring) {
        // Student rows that the next teacher pass will want. Those that fell out are made again: columns of delta were not
        // touched since they were written, so running their tokens gives the same rows. Only a lagged splice came behind
        // some of them; these need the columns that stood before it.
        ring->drop_from(length);
        const auto remake = [&](const KvCache& columns, int64_t first, int64_t end) {
            for (int64_t p = std::max(first, length - ring_rows); p < end; ++p) {
                if (!ring->holds(p)) ring->put(p, pair->student->read_only_step(columns, token_at(p), p));
            }
        };
        const int64_t first = std::max(marks.teacher_len, prompt_length());
        const size_t landed = recording->refreshes().size();
        const int64_t before_splice =
            landed == 0 ? first : prompt_length() + recording->refreshes()[landed - 1].step;
        if (before_splice > first) {
            const auto then_columns = student_cache->clone();
            then_columns->rewind(recording->refreshes()[landed - 1].step - 1, before_splice);
            remake(*then_columns, first, before_splice);
        }
        remake(*student_cache, std::max(first, before_splice), length);
    }

    // Settings stay as they are now; the log of the branch must lead to them, so that it can be replayed.
    RunConfig reached = last_config(*recording);
    for (const Parameter& parameter : parameters()) {
        if (!parameter.live || parameter.of_policy) continue;
        const auto wanted = parameter_value(config, parameter.key);
        if (!wanted || parameter_value(reached, parameter.key) == wanted) continue;
        set_parameter(reached, parameter.key, *wanted);
        log_command(command::SetParameter{std::string(parameter.key), *wanted});
    }
    // Last: a changed mc.stride has moved the MC trigger's stride as well.
    if (!(reached.policy == config.policy)) log_command(command::SetPolicy{config.policy});
}

void DecodeSession::Impl::capture_attention(int64_t position, bool teacher) {
    const c10::InferenceMode guard;
    const LlamaModel* model = teacher ? pair->teacher.get() : pair->student.get();
    const KvCache* cache = teacher ? teacher_cache.get() : student_cache.get();
    const std::string who = teacher ? "the teacher" : "the student";
    if (model == nullptr || cache == nullptr)
        throw Error("reading attention", who, "is not part of this run");
    if (position < 0 || position >= cache->length()) {
        throw Error("reading attention", fmt::format("position {}", position),
                    fmt::format("{}'s cache holds positions 0 to {}", who, cache->length() - 1),
                    teacher ? "the teacher has read up to the last probe or refresh" : "");
    }
    if (recording->attention(position, teacher)) return; // what was kept at its own step stays
    log_command(command::RequestAttention{position, teacher});
    AttentionCapture capture{config.capture.layers, {}};
    static_cast<void>(model->read_only_step(*cache, token_at(position), position, &capture));
    recording->add_attention(make_attention_rows(capture, position, position - prompt_length() + 1, teacher,
                                                 model->config().num_layers));
}

} // namespace refreshlab
