// How the decode thread begins a run: what it replaces makes room, and stays where the start fails.
#include "engine/base/error.h"
#include "engine/cache/kv_cache.h"
#include "engine/session/driver/replay.h"
#include "engine/session/pair/run_text.h"
#include "engine/session/worker/run_status.h"
#include "engine/session/worker/session_worker_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

/// Throws as require_memory() if the run cannot fit even when everything that it replaces is given up; then nothing has been.
void SessionWorker::Impl::make_room(PreparedRun& next) {
    const auto fits = [&] {
        return std::all_of(next.memory.begin(), next.memory.end(),
                           [](const MemoryEstimate& estimate) { return estimate.fits(); });
    };
    if (fits()) return;
    const auto gain = [&](const at::Device& device, int64_t bytes) {
        for (MemoryEstimate& estimate : next.memory) {
            if (estimate.device == device.str() && estimate.available) *estimate.available += bytes;
        }
    };
    if (run) {
        const DecodeSession& session = run->session();
        for (const auto& [cache, model] : {std::pair(session.teacher_cache(), pair->teacher.get()),
                                           std::pair(session.student_cache(), pair->student.get())}) {
            if (cache == nullptr) continue;
            // On the CPU pages that were never written were never taken.
            const bool cpu = model->device().is_cpu();
            gain(model->device(), cpu ? cache->bytes_used() : cache->bytes_reserved());
        }
    }
    if (pair && next.pair != pair) {
        for (const auto& model : {pair->teacher, pair->student}) {
            const bool kept =
                next.text_side && (next.text_side->teacher == model || next.text_side->student == model);
            if (model && !kept) gain(model->device(), model->weight_bytes());
        }
    }
    require_memory(next.memory);
    run.reset();
    now.cache_bytes_used = now.cache_bytes_reserved = 0;
    if (next.pair != pair) pair.reset();
}

void SessionWorker::Impl::start_run(const RunConfig& config, bool paused) {
    begin_run(config, paused, nullptr);
}

/// The run that is left, up to the step; then what is changed. The caller lets it go on.
void SessionWorker::Impl::branch(const command::Branch& asked) {
    if (asked.recorded) {
        const command::RecordedRun& left = *asked.recorded;
        const bool whole = left.steps == asked.step && left.run_id == asked.run_id &&
                           static_cast<int64_t>(left.tokens.size()) == left.steps + 1;
        if (left.run_id.empty() || left.prompt_ids.empty() || !whole)
            throw Error("making a run again", asked.run_id, "the command does not say its prompt and tokens");
        begin_run(left.config, true, &left);
    } else {
        if (!run || run->recording()->info().id != asked.run_id)
            throw Error("branching", asked.run_id, "is not the run that stands",
                        "say what was recorded of it");
        run->rewind(asked.step);
        publish_recording();
        running = false;
        now.state = EngineState::paused;
    }
    for (const command::Branch::Change& change : asked.changes)
        std::visit([this](const auto& c) { run->apply(c); }, change);
}

std::unique_ptr<RunDriver> SessionWorker::Impl::make_driver(const PreparedRun& next,
                                                            const RunConfig& config) {
    return std::make_unique<RunDriver>(RunRequest{.pair = next.pair,
                                                  .config = config,
                                                  .text = next.text,
                                                  .execution = next.execution,
                                                  .trace = trace.get()},
                                       [this](double fraction) {
                                           set_state(EngineState::prefilling, "prefilling the prompt",
                                                     fraction);
                                           return goes_on();
                                       });
}

/// A recorded run up to a step, as a branch of it. Nothing of it is recorded to disk before the branch.
std::unique_ptr<RunDriver> SessionWorker::Impl::make_again(const PreparedRun& next,
                                                           const command::RecordedRun& asked) {
    constexpr int64_t told_every = 8; // steps
    const auto progress = [&](int64_t step) {
        if (step % told_every == 0)
            set_state(EngineState::prefilling, fmt::format("making step {} of {} again", step, asked.steps),
                      static_cast<double>(step) / static_cast<double>(std::max<int64_t>(asked.steps, 1)));
        return goes_on();
    };
    auto driver = refreshlab::make_again(asked, next.pair, progress).driver;
    if (trace) driver->record_into(*trace);
    return driver;
}

/// \param made_again  a recorded run; null: one of its own
void SessionWorker::Impl::begin_run(const RunConfig& config, bool paused,
                                    const command::RecordedRun* made_again) {
    // What runs now is given up only when the new run stands (or make_room() had to): a cancelled or failed start restores it.
    const EngineState before = now.state;
    const RunConfig applied_before = now.applied;
    const bool had_run = run != nullptr;
    try {
        check_run(config);
        now.applied = config;
        if (!pair || !pair_serves(*pair, config)) set_state(EngineState::loading, "loading models");
        PreparedRun next = prepare_run(config, pair, available);
        make_room(next);
        load_models(next, config, [this](double fraction, const std::string& what) {
            set_state(EngineState::loading, what, fraction);
            return goes_on();
        });
        set_state(EngineState::prefilling, "prefilling the prompt");
        auto started = made_again ? make_again(next, *made_again) : make_driver(next, config);
        if (prefilled) prefilled();
        pair = std::move(next.pair);
        run = std::move(started);
    } catch (...) {
        spent_stop =
            newest_stop.load(); // a Stop that came meanwhile meant this start, not the run that stands
        now.applied = applied_before;
        now.message.clear();
        if (run) {
            now.state = before == EngineState::running ? EngineState::paused : before;
        } else if (had_run) {
            now.state = EngineState::failed;
            now.message = "the run had to make room for one that did not start";
        } else {
            now.state = EngineState::idle;
        }
        running = false;
        throw;
    }
    show_start(now, *pair, run->recording()->info());
    publish_recording();
    running = !run->finished() && !paused;
    steps_left = 0;
    set_state(run->finished() ? EngineState::finished : paused ? EngineState::paused : EngineState::running);
}

} // namespace refreshlab
