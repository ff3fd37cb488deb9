#include "app/base/trace_runs.h"

#include "engine/base/error.h"
#include "engine/text/utf8.h"

#include <algorithm>

namespace refreshlab::app {

std::shared_ptr<Recording> chosen_run(std::span<const std::shared_ptr<Recording>> runs, const std::string& id,
                                      const std::string& doing, const std::string& trace) {
    if (runs.empty()) throw Error(doing, trace, "the trace holds no run");
    if (id.empty()) return runs.back();
    const auto found = std::ranges::find_if(runs, [&](const auto& run) { return run->info().id == id; });
    if (found != runs.end()) return *found;
    std::string known;
    for (const auto& run : runs)
        known += (known.empty() ? "" : ", ") + run->info().id;
    throw Error(doing, trace, "no run " + visible_text(id, 60), "--run takes one of " + known);
}

} // namespace refreshlab::app
