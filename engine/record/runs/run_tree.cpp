#include "engine/record/runs/run_tree.h"

#include "engine/base/check.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

namespace refreshlab {

const char* to_string(RunStanding standing) {
    switch (standing) {
    case RunStanding::live:
        return "live";
    case RunStanding::left:
        return "left";
    case RunStanding::finished:
        return "finished";
    case RunStanding::file:
        break;
    }
    return "file";
}

namespace {

std::string first_name(RunKey key) {
    return "Run " + std::to_string(key);
}

} // namespace

RunNode* RunTree::get(RunKey key) {
    const auto found = std::ranges::find(m_runs, key, &RunNode::key);
    return found == m_runs.end() ? nullptr : &*found;
}

const RunNode* RunTree::find(RunKey key) const {
    const auto found = std::ranges::find(m_runs, key, &RunNode::key);
    return found == m_runs.end() ? nullptr : &*found;
}

const RunNode* RunTree::find_id(std::string_view id) const {
    if (id.empty()) return nullptr;
    const auto found = std::ranges::find_if(m_runs, [&](const RunNode& run) {
        return run.id == id || std::ranges::find(run.earlier_ids, id) != run.earlier_ids.end();
    });
    return found == m_runs.end() ? nullptr : &*found;
}

RunKey RunTree::add(RunNode run, std::string_view parent_id) {
    const RunNode* parent = find_id(parent_id);
    run.parent = parent ? std::optional(parent->key) : std::nullopt;
    run.key = m_next++;
    std::array<int, run_colours> used{};
    for (const RunNode& other : m_runs)
        ++used[other.colour];
    run.colour = static_cast<uint32_t>(std::ranges::min_element(used) - used.begin());
    if (run.name.empty()) run.name = first_name(run.key);
    m_runs.push_back(std::move(run));
    return m_runs.back().key;
}

void RunTree::continue_as(RunKey key, std::string id) {
    if (RunNode* run = get(key)) run->earlier_ids.push_back(std::exchange(run->id, std::move(id)));
}

void RunTree::remove(RunKey key) {
    const RunNode* run = find(key);
    if (run == nullptr) return;
    for (RunNode& branch : m_runs) {
        if (branch.parent != key) continue;
        branch.parent = run->parent;
        branch.fork_step = run->parent ? std::min(branch.fork_step, run->fork_step) : 0;
    }
    std::erase_if(m_runs, [key](const RunNode& node) { return node.key == key; });
}

void RunTree::rename(RunKey key, std::string_view name) {
    RunNode* run = get(key);
    if (run == nullptr) return;
    std::string clean = clean_run_name(name);
    run->name = clean.empty() ? first_name(key) : std::move(clean);
}

void RunTree::recolour(RunKey key, uint32_t colour) {
    RL_ASSERT(colour < run_colours);
    if (RunNode* run = get(key)) run->colour = colour;
}

void RunTree::update(RunKey key, RunStanding standing, int64_t steps) {
    if (RunNode* run = get(key)) {
        run->standing = standing;
        run->steps = steps;
    }
}

void RunTree::set_change(RunKey key, std::string change) {
    if (RunNode* run = get(key)) run->change = std::move(change);
}

bool RunTree::has_branches(RunKey key) const {
    return std::ranges::any_of(m_runs, [key](const RunNode& run) { return run.parent == key; });
}

void RunTree::add_rows(RunKey key, int depth, std::vector<Row>& rows) const {
    rows.push_back({key, depth});
    for (const RunNode& run : m_runs)
        if (run.parent == key) add_rows(run.key, depth + 1, rows);
}

std::vector<RunTree::Row> RunTree::rows() const {
    std::vector<Row> rows;
    rows.reserve(m_runs.size());
    for (const RunNode& run : m_runs)
        if (!run.parent) add_rows(run.key, 0, rows);
    return rows;
}

int64_t RunTree::shared_steps(RunKey a, RunKey b) const {
    // How many steps of each ancestor a run has.
    const auto line_of = [this](RunKey key) {
        std::map<RunKey, int64_t> line;
        int64_t steps = std::numeric_limits<int64_t>::max();
        for (const RunNode* run = find(key); run != nullptr;) {
            line[run->key] = std::min(steps, run->steps);
            steps = std::min(steps, run->fork_step);
            run = run->parent ? find(*run->parent) : nullptr;
        }
        return line;
    };
    const auto line_a = line_of(a), line_b = line_of(b);
    int64_t shared = 0;
    for (const auto& [key, steps] : line_a)
        if (const auto other = line_b.find(key); other != line_b.end())
            shared = std::max(shared, std::min(steps, other->second));
    return shared;
}

} // namespace refreshlab
