#include "engine/record/runs/own_values.h"

#include "engine/base/error.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

namespace {

bool is_measured(const Recording& run, std::string_view name) {
    const auto id = run.signal_id(name);
    for (int64_t t = 1; id && t <= run.steps(); ++t)
        if (!is_absent(run.signal(t, *id))) return true;
    return false;
}

/// What the table of signals says of one that was not recorded. It triggers nothing here, so its markers have no letter.
PublishedSignal worked_out(const OwnSignal& signal) {
    PublishedSignal published = published_form(signal, 0);
    published.letter = 0;
    published.description = "Worked out from what the run recorded" +
                            (signal.expression ? ": " + signal.expression->text() : ", a weighted sum.");
    return published;
}

/// Whether the recording has it already. Throws where it has another one of this name.
bool is_recorded(const Recording& run, const OwnSignal& signal) {
    const auto& published = run.info().published_signals;
    const auto found = std::ranges::find(published, signal.name, &PublishedSignal::name);
    if (found == published.end()) return false;
    if (found->description == published_form(signal, 0).description ||
        found->description == worked_out(signal).description)
        return true;
    throw Error("working out a signal", signal.name,
                fmt::format("run {} has another one of this name: {}", run.info().id, found->description),
                "choose another name");
}

/// At every step; throws where it has no value at any, because the run did not measure what it reads.
std::vector<float> values_on(const Recording& run, const OwnSignal& signal) {
    std::map<std::string_view, size_t> ids; // looked for once, not at every step
    std::vector<std::string_view> missing;
    for (const std::string_view name : signal.reads()) {
        if (const auto id = run.signal_id(name)) ids.emplace(name, *id);
        if (!is_measured(run, name)) missing.push_back(name);
    }
    const auto read = [&](std::string_view name, int64_t step) {
        const auto id = ids.find(name);
        return id == ids.end() ? absent() : run.signal(step, id->second);
    };
    std::vector<float> values(static_cast<size_t>(run.steps()), absent());
    for (int64_t t = 1; t <= run.steps(); ++t)
        if (run.step(t).fed) values[static_cast<size_t>(t - 1)] = own_value(signal, t, read);
    if (!missing.empty() && std::ranges::all_of(values, is_absent))
        throw Error("working out a signal", signal.name,
                    fmt::format("run {} did not measure {}", run.info().id, fmt::join(missing, ", ")));
    return values;
}

} // namespace

std::shared_ptr<const Recording> with_own_signals(const std::shared_ptr<const Recording>& run,
                                                  std::span<const OwnSignal> signals) {
    std::vector<const OwnSignal*> wanted;
    std::vector<PublishedSignal> added;
    for (const OwnSignal& signal : signals) {
        if (is_recorded(*run, signal)) continue;
        wanted.push_back(&signal);
        added.push_back(worked_out(signal));
    }
    if (wanted.empty()) return run;
    auto with = run->with_signals(added);
    for (const OwnSignal* signal : wanted)
        with->back_fill(*with->signal_id(signal->name), 1, values_on(*run, *signal));
    return with;
}

} // namespace refreshlab
