#include "engine/record/runs/run_tree.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <set>

namespace run_tree_test {

using namespace refreshlab;

namespace {

RunKey add(RunTree& tree, const std::string& id, const std::string& parent = {}, int64_t fork = 0,
           int64_t steps = 100) {
    RunNode run;
    run.id = id;
    run.fork_step = fork;
    run.steps = steps;
    return tree.add(run, parent);
}

std::string drawn(const RunTree& tree) {
    std::string text;
    for (const RunTree::Row& row : tree.rows())
        text += std::string(static_cast<size_t>(row.depth), '-') + tree.find(row.key)->id + " ";
    return text;
}

} // namespace

TEST_CASE("branches follow the run that they came from", "[runs]") {
    RunTree tree;
    const RunKey a = add(tree, "a");
    add(tree, "b");
    const RunKey c = add(tree, "c", "a", 40);
    const RunKey d = add(tree, "d", "c", 60);
    const RunKey e = add(tree, "e", "a", 10);
    add(tree, "f", "nobody", 7);
    CHECK(drawn(tree) == "a -c --d -e b f ");
    CHECK(tree.find(a)->name == "Run 1");
    CHECK(tree.has_branches(a));
    CHECK_FALSE(tree.has_branches(d));
    CHECK(tree.shared_steps(a, c) == 40);
    CHECK(tree.shared_steps(d, a) == 40);
    CHECK(tree.shared_steps(d, c) == 60);
    CHECK(tree.shared_steps(d, e) == 10);
    CHECK(tree.shared_steps(c, c) == 100);
    CHECK(tree.shared_steps(a, tree.find_id("b")->key) == 0);
    // A branch that was removed hands its own on, as far as they share with its parent.
    tree.remove(c);
    CHECK(drawn(tree) == "a -d -e b f ");
    CHECK(tree.find(d)->fork_step == 40);
    tree.remove(a);
    CHECK(drawn(tree) == "b d e f ");
    CHECK(tree.find(e)->fork_step == 0);
    CHECK(tree.shared_steps(d, e) == 0);
    // A key is never given twice, so a name and a colour stay with their run.
    const RunKey g = add(tree, "g");
    CHECK(g == 7);
    tree.remove(g);
    CHECK(add(tree, "h") == 8);
}

TEST_CASE("a run that goes on under another id stays one run", "[runs]") {
    RunTree tree;
    const RunKey a = add(tree, "a", {}, 0, 50);
    tree.rename(a, "the one");
    tree.continue_as(a, "a2");
    const RunKey c = add(tree, "c", "a", 20);  // branched before
    const RunKey d = add(tree, "d", "a2", 70); // and after
    CHECK(tree.runs().size() == 3);
    CHECK(tree.find_id("a")->key == a);
    CHECK(tree.find_id("a2")->key == a);
    CHECK(tree.find(c)->parent == a);
    CHECK(tree.find(d)->parent == a);
    CHECK(tree.find(a)->name == "the one");
    tree.rename(a, "of\ttwo\nlines");
    CHECK(tree.find(a)->name == "of two lines");
    tree.recolour(a, 5);
    CHECK(tree.find(a)->colour == 5);
    tree.rename(a, "");
    CHECK(tree.find(a)->name == "Run 1");
    CHECK(tree.find_id("") == nullptr);
    CHECK(tree.find(99) == nullptr);
}

TEST_CASE("however runs come and go, each stands once below its parent", "[runs]") {
    const uint32_t seed = test::seed(77);
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
    RunTree tree;
    for (int i = 0; i < 400; ++i) {
        if (!tree.runs().empty() && below(3) == 0) {
            tree.remove(tree.runs()[below(tree.runs().size())].key);
        } else {
            const bool branch = !tree.runs().empty() && below(2) == 0;
            const std::string parent = branch ? tree.runs()[below(tree.runs().size())].id : std::string();
            add(tree, std::to_string(i), parent, static_cast<int64_t>(below(100)));
        }
        const auto rows = tree.rows();
        REQUIRE(rows.size() == tree.runs().size());
        std::set<RunKey> seen;
        for (const RunTree::Row& row : rows) {
            const RunNode& run = *tree.find(row.key);
            CHECK(seen.insert(row.key).second);
            CHECK((run.parent ? seen.contains(*run.parent) : row.depth == 0));
        }
    }
}

} // namespace run_tree_test
