#include "app/engine/run_branch.h"

#include "app/base/trace_runs.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/record/runs/rebuild.h"
#include "engine/session/decode/decode_session.h"
#include "engine/session/decode/steering.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>

namespace refreshlab::app {

namespace {

/// "run.rlt@40" into its parts.
std::pair<std::string, int64_t> parse_place(const std::string& text) {
    const size_t at = text.rfind('@');
    int64_t step = 0;
    const char* end = text.data() + text.size();
    const auto refused = [&] {
        return Error("reading", "--branch", fmt::format("'{}' is not TRACE@STEP", visible_text(text, 80)),
                     "such as run.rlt@40");
    };
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) throw refused();
    const auto [stop, problem] = std::from_chars(text.data() + at + 1, end, step);
    if (stop != end) throw refused();
    if (problem != std::errc{}) step = std::numeric_limits<int64_t>::max(); // beyond every run
    return {text.substr(0, at), step};
}

/// The newest step that can be made another way: after the last one of a run that was stopped, the next.
int64_t last_step(const Recording& run) {
    const int64_t next = newest_reached(run) + 1;
    return why_at_its_end(run).empty() ? next : std::min(next, run.steps());
}

/// What leads from the recorded settings to those that the command line asks for. Throws Error for those that a run cannot take while
/// it goes on.
std::vector<refreshlab::Command> asked_settings(const Branch& branch, const RunOptions& options,
                                                const RunConfig& then, const RunConfig& wanted) {
    RunConfig reached = options.with_models(then);
    reached.max_tokens = wanted.max_tokens;
    reached.threads = wanted.threads;
    std::vector<refreshlab::Command> changes = commands_between(reached, wanted);
    for (const refreshlab::Command& change : changes)
        apply_to(reached, change);
    if (!(reached == wanted))
        throw Error("branching", branch.trace,
                    "prompt, mode, numbers and what is fixed during a run stay those of the trace",
                    "start a run of its own for others");
    return changes;
}

/// The tokens that the step is to choose.
std::optional<command::GiveTokens> given_tokens(const Branch& branch, const BranchOptions& asked) {
    if (asked.candidate == 0 && asked.give.empty()) return std::nullopt;
    if (asked.candidate != 0 && !asked.give.empty())
        throw Error("reading", "--candidate", "--give says already what the step chooses", "leave out one");
    const int32_t max_tokens = branch.rebuild.config.max_tokens;
    if (branch.step >= max_tokens)
        throw Error("branching", branch.trace,
                    fmt::format("step {} is the last of {} tokens and chooses none", branch.step, max_tokens),
                    "--max-tokens takes a larger number");
    const Recording& run = *branch.run;
    const auto end = run.end();
    const bool no_more = end && end->stop_reason != "max_tokens" && branch.step == run.steps();
    if (no_more && !run.step(branch.step).fed)
        throw Error(
            "branching", branch.trace,
            fmt::format("step {} is the last, ended by {}, and chooses none", branch.step, end->stop_reason),
            "branch at an earlier step");
    if (!asked.give.empty()) {
        if (const auto offset = first_invalid_utf8(asked.give))
            throw Error("reading", "--give", fmt::format("not UTF-8 at byte {}", *offset));
        return command::GiveTokens{.ids = {}, .text = asked.give};
    }
    const int64_t known = branch.step <= run.steps() ? int64_t{run.step(branch.step).top_k} : 0;
    if (asked.candidate < 1 || asked.candidate > known)
        throw Error("reading", "--candidate",
                    known == 0 ? fmt::format("the trace has no candidates of step {}", branch.step)
                               : fmt::format("the trace has candidates 1 to {} of step {}, not {}", known,
                                             branch.step, asked.candidate),
                    "--give takes any text");
    return command::GiveTokens{
        .ids = {run.step(branch.step).top_ids[static_cast<size_t>(asked.candidate - 1)]}, .text = {}};
}

} // namespace

Branch read_branch(const BranchOptions& asked, const RunOptions& options) {
    Branch branch;
    std::tie(branch.trace, branch.step) = parse_place(asked.at);
    branch.file = load_labelled_trace(branch.trace);
    branch.run = chosen_run(branch.file.runs, asked.run_id, "branching", branch.trace);
    const Recording& run = *branch.run;
    if (const int64_t last = last_step(run); branch.step < 1 || branch.step > last)
        throw Error("branching", branch.trace,
                    fmt::format("the run has steps 1 to {}, not {}", last, branch.step));

    const auto log = commands_of(run);
    branch.rebuild = rebuild_of(run, branch.step - 1);
    branch.rebuild.commands.clear();
    branch.reached = run.info().config;
    for (const TimedCommand& command : log) {
        if (command.step > branch.step) continue;
        apply_to(branch.reached, command.command);
        (command.step < branch.step ? branch.rebuild.commands : branch.changes).push_back(command);
    }
    const RunConfig wanted = options.config(branch.reached);
    const auto settings = asked_settings(branch, options, branch.reached, wanted);
    if (wanted.max_tokens < branch.step)
        throw Error("branching", branch.trace,
                    fmt::format("{} tokens end the run before step {}", wanted.max_tokens, branch.step),
                    "--max-tokens takes a larger number");
    branch.rebuild.config = options.with_models(run.info().config);
    branch.rebuild.config.max_tokens = wanted.max_tokens;
    branch.rebuild.config.threads = wanted.threads;
    check_run(branch.rebuild.config);

    const auto change = [&](refreshlab::Command command) {
        branch.changes.push_back({branch.step, std::move(command)});
    };
    for (const refreshlab::Command& setting : settings)
        change(setting);
    if (auto given = given_tokens(branch, asked)) {
        std::erase_if(branch.changes, [](const TimedCommand& told) { // the run's own are the way that is left
            return std::holds_alternative<command::GiveTokens>(told.command);
        });
        change(std::move(*given));
    }
    if (asked.refresh) change(command::RefreshNow{});
    check_commands(branch.changes, branch.reached, "--branch");
    return branch;
}

BranchFile::BranchFile(const Branch& branch, const std::string& target)
    : m_branch(branch)
    , m_target(target)
    , m_path(target) {
    m_landscapes = load_landscapes(branch.trace);
    m_scope_maps = load_scope_maps(branch.trace);
    std::error_code other;
    if (std::filesystem::equivalent(target, branch.trace, other)) {
        m_target = std::filesystem::canonical(target);
        static_cast<void>(TraceStore::create(m_target)); // nobody else has it open, and it may be replaced
        m_path = temporary_beside(m_target);
    }
    m_store = TraceStore::create(m_path);
}

BranchFile::~BranchFile() {
    m_store.reset();
    if (!replaces()) return;
    std::error_code ignored;
    for (const char* suffix : {"", "-wal", "-shm", "-journal"})
        std::filesystem::remove(m_path.string() + suffix, ignored);
}

std::vector<SavedRun> BranchFile::runs() const {
    std::vector<SavedRun> all;
    for (size_t i = 0; i < m_branch.file.runs.size(); ++i)
        all.push_back({m_branch.file.runs[i], {}, 0, m_branch.file.labels[i]});
    return all;
}

TraceStore& BranchFile::begin() {
    for (const SavedRun& run : runs())
        m_store->attach(run.recording, run.label);
    m_store->flush();
    if (const std::string problem = m_store->error(); !problem.empty())
        throw Error("recording to", m_target.string(), problem, {}, ErrorKind::failure);
    store_beside(m_path);
    return *m_store;
}

void BranchFile::store_beside(const std::filesystem::path& file) const {
    for (const StoredLandscape& stored : m_landscapes)
        store_landscape(file, stored.run_id, *stored.landscape);
    for (const StoredScopeMap& stored : m_scope_maps)
        store_scope_map(file, stored.run_id, *stored.map);
}

void BranchFile::finish() {
    m_store.reset();
    if (!replaces()) return;
    const std::filesystem::path made = std::exchange(m_path, m_target); // whatever comes, it is not removed
    try {
        replace_trace(m_target, made);
    } catch (const Error& e) {
        throw Error("recording to", m_target.string(), e.what(),
                    fmt::format("the trace stays as it was, and the branch is in {}", made.string()),
                    ErrorKind::failure);
    }
}

void BranchFile::save_again(const std::shared_ptr<const Recording>& made) const {
    auto all = runs();
    all.push_back({made, {}, 0, {}});
    save_traces(m_target, all);
    store_beside(m_target);
}

} // namespace refreshlab::app
