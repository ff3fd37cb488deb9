// A window's runs in one file: opened again they are the same tree.
#include "tests/engine/record/random_recording.h"
#include "tests/support/seed.h"
#include "ui/scene/runs/saved_runs.h"

#include <catch2/catch_test_macros.hpp>

#include <map>
#include <string>
#include <vector>

namespace saved_runs_test {

using namespace refreshlab;
using namespace refreshlab::ui;

namespace {

/// Of every run: the steps of its parent (0: none) and its fork, by its own steps, which differ in this test.
std::map<int64_t, std::pair<int64_t, int64_t>> shape_of(const RunSet& runs) {
    std::map<int64_t, std::pair<int64_t, int64_t>> shape;
    for (const RunNode& node : runs.tree().runs())
        shape[node.steps] = {node.parent ? runs.tree().find(*node.parent)->steps : 0,
                             node.parent ? node.fork_step : 0};
    return shape;
}

} // namespace

TEST_CASE("all runs of a window come back from one file as the same tree", "[runs]") {
    test::TemporaryFolder folder;
    test::Grower grower(test::seed(1505));
    RunSet set;
    const auto show = [&](const std::shared_ptr<Recording>& run, int64_t steps) {
        set.update(run);
        grower.grow(*run, steps);
        set.update(run);
        return *set.live();
    };
    const auto root = grower.start();
    const RunKey first = show(root, 40);
    const auto on = root->fork(40, "on"); // rewound to its newest step: the same run
    CHECK(show(on, 3) == first);
    const auto branch = root->fork(20, "branch"); // its recording left one that is not there any more
    const RunKey left = show(branch, 10);
    const auto twig = branch->fork(25, "twig");
    show(twig, 30);
    const auto early = branch->fork(10, "early"); // its parent is removed below
    show(early, 4);
    const auto late = branch->fork(28, "late"); // the same, forked behind the fork of that one
    show(late, 1);
    CHECK(set.tree().runs().size() == 5);
    CHECK(set.remove(left));
    const auto shape = shape_of(set);
    CHECK(shape == std::map<int64_t, std::pair<int64_t, int64_t>>{
                       {43, {0, 0}}, {55, {43, 20}}, {14, {43, 10}}, {29, {43, 20}}});

    set.rename(first, "before the\nblue door ");
    CHECK(set.name(first) == "before the blue door");
    const auto file = folder / "all.rlt";
    REQUIRE(save_traces(file, saved_runs(set)));
    RunSet again;
    const LabelledRuns trace = load_labelled_trace(file);
    again.add_file(trace.runs, "all.rlt", trace.labels);
    CHECK(shape_of(again) == shape);
    for (const RunNode& node : set.tree().runs()) { // names that a person gave, and all colours
        const RunNode* found = again.tree().find_id(node.id);
        REQUIRE(found);
        CHECK(found->colour == node.colour);
        CHECK(again.find(found->key)->named == (node.key == first));
        CHECK((found->name == "before the blue door") == (node.key == first));
        CHECK(again.label(found->key) == set.label(node.key));
    }
    // A colour stays its run's own beside runs that were here before; the ones without a label take free ones.
    RunSet busy;
    busy.update(grower.start());
    busy.add_file(trace.runs, "all.rlt", trace.labels);
    for (const RunNode& node : set.tree().runs())
        CHECK(busy.colour(busy.tree().find_id(node.id)->key) == node.colour);
    again.rename(again.tree().find_id(set.tree().find(first)->id)->key, " \t ");
    CHECK(again.label(again.tree().find_id(set.tree().find(first)->id)->key).name.empty());
    const SavedRun alone = saved_run(set, set.recording(first));
    CHECK(alone.label == set.label(first));
    CHECK(alone.parent_id.empty());
    for (const RunNode& node : set.tree().runs()) {
        const RunNode* found = again.tree().find_id(node.id);
        REQUIRE(found);
        CHECK_FALSE(first_difference(*again.recording(found->key), *set.recording(node.key)));
    }
    // Open and saved again beside the runs of the engine: each once.
    set.add_file(load_trace(file), "all.rlt");
    CHECK(set.tree().runs().size() == 8);
    CHECK(saved_runs(set).size() == 4);
}

} // namespace saved_runs_test
