#include "engine/session/driver/replay.h"

#include "engine/base/error.h"
#include "engine/session/pair/run_text.h"
#include "kernels/execution/cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

Execution replay_execution(const RunInfo& recorded) {
    // A trace that does not say what ran may still say what was asked for.
    return replay_execution(recorded.config.threads, recorded.kernel_set.empty()
                                                         ? to_string(recorded.config.kernels)
                                                         : std::string_view(recorded.kernel_set));
}

Execution replay_execution(int32_t threads, std::string_view kernel_set) {
    const auto isa = kernels::parse_isa(kernel_set);
    return std::make_shared<const kernels::ExecutionContext>(
        kernels::threads_for(threads), isa && kernels::is_available(*isa) ? *isa : kernels::widest_isa());
}

std::shared_ptr<Recording> replay(const Recording& recorded, std::shared_ptr<const ModelPair> pair,
                                  Execution execution) {
    const RunInfo& info = recorded.info();
    const auto end = recorded.end();
    RunText text{{info.rendered_prompt, info.prompt_ids, 0}, {}};
    text.given = given_ids(*pair, info.config, text.prompt);
    RunDriver driver({.pair = std::move(pair),
                      .config = info.config,
                      .text = std::make_shared<const RunText>(std::move(text)),
                      .execution = execution ? std::move(execution) : replay_execution(info),
                      .commands = commands_of(recorded),
                      .score = end && end->teacher_ppl});
    driver.run([&] {
        const bool all = driver.recording()->steps() >= recorded.steps();
        return all ? RunDriver::Next::leave : RunDriver::Next::step;
    });
    driver.apply_due(); // what was logged after the last step
    if (end && end->stop_reason == "cancelled") driver.stop();
    return driver.recording();
}

namespace {

/// The steps of a recording up to one of them, without attention: what is kept of it depends on what came later.
std::shared_ptr<Recording> steps_of(const Recording& recording, int64_t steps) {
    auto part = recording.fork(steps, "part");
    for (const auto& rows : part->attention_rows())
        part->drop_attention(rows->position, rows->teacher);
    return part;
}

std::optional<std::string> difference_up_to(const Recording& recorded, const Recording& made, int64_t steps) {
    const RunInfo &then = recorded.info(), &now = made.info();
    if (then.has_cache_events != now.has_cache_events) return "its program recorded no changes of caches";
    if (recorded.signals().size() != made.signals().size()) return "its program had other signals";
    for (size_t id = 0; id < made.signals().size(); ++id)
        if (recorded.knows_signal(id) != made.knows_signal(id) ||
            recorded.signals()[id].name != made.signals()[id].name)
            return fmt::format("its program did not have the signal {}", made.signals()[id].name);
    return first_difference(*steps_of(recorded, steps), *steps_of(made, steps));
}

} // namespace

MadeAgain make_again(const command::RecordedRun& asked, std::shared_ptr<const ModelPair> pair,
                     const std::function<bool(int64_t)>& progress, const Recording* recorded,
                     SignalSources sources, TensorPolicyFactory cache_policy) {
    const auto go_on = [&](int64_t step) {
        if (!progress(step)) throw Error("making a run again", {}, "cancelled");
    };
    RunText text{{asked.rendered_prompt, asked.prompt_ids, 0}, {}};
    text.given = given_ids(*pair, asked.config, text.prompt);
    text.run_id = asked.run_id;
    MadeAgain made;
    made.driver = std::make_unique<RunDriver>(
        RunRequest{.pair = std::move(pair),
                   .config = asked.config,
                   .text = std::make_shared<const RunText>(std::move(text)),
                   .execution = replay_execution(asked.config.threads, asked.kernel_set),
                   .commands = asked.commands,
                   .sources = std::move(sources),
                   .cache_policy = std::move(cache_policy)},
        [&](double) { return progress(0); });
    RunDriver& driver = *made.driver;
    const auto made_now = driver.recording();
    const auto check_token = [&](int64_t y) {
        if (made_now->token(y) != asked.tokens[static_cast<size_t>(y - 1)])
            throw Error("making a run again", fmt::format("token {}", y),
                        "this engine chooses another one than was recorded",
                        "models, device or kernels are not those of the recording");
    };
    check_token(1);
    for (int64_t t = 1; t <= asked.steps; ++t) {
        go_on(t);
        driver.step();
        check_token(t + 1);
    }
    driver.apply_due();
    if (recorded != nullptr) made.difference = difference_up_to(*recorded, *made_now, asked.steps);
    driver.rewind(asked.steps, made.difference ? nullptr : recorded);
    driver.steer({});
    return made;
}

double replay_tolerance(const RunInfo& info) {
    return info.dtype == "f32" ? 1e-3 : 0.25;
}

namespace {

std::string version_of(const RunInfo& info, std::string_view part) {
    const auto found =
        std::ranges::find(info.versions, part, [](const auto& version) { return version.first; });
    return found == info.versions.end() ? std::string() : found->second;
}

/// "refreshlab 0.1.0, commit 379b91d", and what else of its build is otherwise than in another program.
std::string program_of(const RunInfo& info, const RunInfo& other) {
    const std::string version = version_of(info, "refreshlab"), commit = version_of(info, "commit");
    std::string text = fmt::format("refreshlab {}, {}", version.empty() ? "of an unknown version" : version,
                                   commit.empty() ? "unknown commit" : "commit " + commit);
    for (const char* part : {"libtorch", "compiler"})
        if (const std::string own = version_of(info, part); own != version_of(other, part))
            text += fmt::format(", {} {}", part, own.empty() ? "unknown" : own);
    return text;
}

/// Why the numbers of two runs may round differently; empty where nothing allows it.
std::string rounding_reason(const RunInfo& recorded, const RunInfo& again) {
    const std::string &then = recorded.kernel_set, &now = again.kernel_set;
    std::string reason;
    if (!same_kernel_bits(then, now))
        reason = fmt::format("recorded with the kernel set {}, replayed with {}, which rounds differently",
                             then, now);
    else if (then == kernels::to_string(
                         kernels::Isa::reference)) // libtorch divides its work among threads as it likes
        reason = fmt::format("the kernel set {} may round differently from run to run", now);
    if (recorded.versions == again.versions) return reason;
    return fmt::format("{}{}recorded by another version ({}) than this one ({})", reason,
                       reason.empty() ? "" : "; ", program_of(recorded, again), program_of(again, recorded));
}

} // namespace

ReplayVerdict judge_replay(const Recording& recorded, const Recording& again, const std::string& name,
                           bool exact) {
    const std::string steps = fmt::format("({} steps)", recorded.steps());
    const auto difference = first_difference(recorded, again);
    if (!difference) return {true, fmt::format("identical to {} {}", name, steps)};
    const std::string reason = rounding_reason(recorded.info(), again.info());
    if (reason.empty()) return {false, fmt::format("differs from {}: {}", name, *difference)};
    const double tolerance = replay_tolerance(recorded.info());
    Deviation largest;
    if (const auto beyond = first_difference(recorded, again, tolerance, &largest))
        return {false,
                fmt::format("differs from {} by more than {:g}: {}; {}", name, tolerance, *beyond, reason)};
    const std::string rounding =
        fmt::format("{}; largest difference {:.1e}, {}", reason, largest.size, largest.where);
    if (exact)
        return {false, fmt::format("not identical to {} {}, only equal within {:g}: {}", name, steps,
                                   tolerance, rounding)};
    return {true, fmt::format("equal to {} within {:g} {}: {}", name, tolerance, steps, rounding)};
}

} // namespace refreshlab
