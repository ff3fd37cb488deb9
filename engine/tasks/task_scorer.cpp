#include "engine/tasks/task_scorer.h"

#include "engine/base/error.h"
#include "engine/tasks/scorers.h"

#include <algorithm>

namespace refreshlab {

const std::vector<std::string>& task_kinds() {
    static const std::vector<std::string> kinds{"roll_call", "company", "chronicle", "chain_of_key",
                                                "ledger",    "table",   "retell"};
    return kinds;
}

std::unique_ptr<TaskScorer> TaskScorer::create(const TaskConfig& task, const std::string& prompt) {
    const auto& kinds = task_kinds();
    const auto kind = std::ranges::find(kinds, task.kind);
    if (kind == kinds.end()) {
        std::string all;
        for (const std::string& name : kinds)
            all += (all.empty() ? "" : ", ") + name;
        throw Error("scoring the task", task.kind, "no such kind of task", "the kinds are " + all);
    }
    if (kind - kinds.begin() < 3) return make_almanac_scorer(task, prompt);
    if (task.kind == "chain_of_key") return make_chain_scorer(prompt);
    return make_reference_scorer(task, prompt);
}

} // namespace refreshlab
