#include "ui/scene/runs/saved_runs.h"

#include <algorithm>

namespace refreshlab::ui {

SavedRun saved_run(const RunSet& runs, const std::shared_ptr<const Recording>& recording) {
    const RunNode* node = runs.tree().find_id(recording->info().id);
    return {.recording = recording,
            .parent_id = {},
            .fork_step = 0,
            .label = node ? runs.label(node->key) : RunLabel{}};
}

namespace {

/// Of two recordings of one run: more steps, or a signal that a person added.
bool has_more(const Recording& run, const Recording& than) {
    if (run.steps() != than.steps()) return run.steps() > than.steps();
    return run.info().published_signals.size() > than.info().published_signals.size();
}

} // namespace

std::vector<SavedRun> saved_runs(const RunSet& runs) {
    std::vector<SavedRun> saved;
    for (const RunTree::Row& row : runs.tree().rows()) {
        const RunNode& node = *runs.tree().find(row.key);
        SavedRun run{.recording = runs.recording(row.key),
                     .parent_id = {},
                     .fork_step = 0,
                     .label = runs.label(row.key)};
        // By the tree: the run that a recording left may have gone on as another recording, or have been removed.
        if (node.parent) {
            run.parent_id = runs.recording(*node.parent)->info().id;
            run.fork_step = node.fork_step;
        }
        const auto twin = std::ranges::find_if(saved, [&](const SavedRun& other) {
            return other.recording->info().id == run.recording->info().id;
        });
        if (twin == saved.end()) {
            saved.push_back(std::move(run));
            continue;
        }
        if (has_more(*run.recording, *twin->recording)) twin->recording = run.recording;
        if (twin->label.name.empty()) twin->label = run.label;
    }
    return saved;
}

} // namespace refreshlab::ui
