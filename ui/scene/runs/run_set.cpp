#include "ui/scene/runs/run_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace refreshlab::ui {

namespace {

constexpr size_t most_attention = size_t{2} << 30; // bytes, about: what a person's machine has to spare

RunStanding standing_of(const Recording& recording, bool live, bool from_file) {
    if (live) return RunStanding::live;
    if (from_file) return RunStanding::file;
    return recording.end() ? RunStanding::finished : RunStanding::left;
}

/// What rows of attention take in all runs; branches share those of the steps that they share.
size_t attention_bytes(const std::map<RunKey, RunSet::Run>& runs) {
    std::set<const AttentionRows*> seen;
    size_t bytes = 0;
    for (const auto& [key, run] : runs)
        for (const auto& rows : run.recording->attention_rows())
            if (seen.insert(rows.get()).second) bytes += rows->bytes();
    return bytes;
}

/// The run of an opened trace. What the engine has, or had, is another one: a file of it is shown as a file.
std::optional<RunKey> of_file(const std::map<RunKey, RunSet::Run>& runs, const std::string& id) {
    for (const auto& [key, run] : runs)
        if (run.from_file && run.recording->info().id == id) return key;
    return std::nullopt;
}

} // namespace

const RunSet::Run* RunSet::find(RunKey key) const {
    const auto found = m_runs.find(key);
    return found == m_runs.end() ? nullptr : &found->second;
}

std::shared_ptr<const Recording> RunSet::recording(RunKey key) const {
    const Run* run = find(key);
    return run ? run->recording : nullptr;
}

RunKey RunSet::add(std::shared_ptr<const Recording> recording, std::string name, bool from_file) {
    RunNode node;
    node.id = recording->info().id;
    node.fork_step = recording->info().fork_step;
    node.name = std::move(name);
    node.steps = recording->steps();
    node.standing = standing_of(*recording, false, from_file);
    const RunKey key = m_tree.add(std::move(node), recording->info().parent_id);
    Run& run = m_runs[key];
    run.recording = std::move(recording);
    run.from_file = from_file;
    return key;
}

bool RunSet::may_be_forgotten(RunKey key) const {
    const Run& run = m_runs.at(key);
    return !run.ticked && !run.named && !run.from_file && key != m_live && key != m_looked &&
           key != m_before && !m_tree.has_branches(key);
}

/// The engine has another run: what it leaves behind stays, if there is something of its own in it.
void RunSet::leave(RunKey key) {
    // Of the run, whichever recording stands for it now: one that was made again has all steps of the one before.
    const bool own_steps = m_runs.at(key).recording->steps() > m_tree.find(key)->fork_step;
    const bool again = std::exchange(m_forget_live, std::nullopt) == key && !m_tree.has_branches(key);
    const bool held = key == m_looked || m_runs.at(key).ticked || m_runs.at(key).named;
    if ((!own_steps || again) && !held) {
        remove(key); // its branches, if it has some, are its parent's then
        return;
    }
    if (own_steps && !m_looked) m_before = key;
}

void RunSet::thin_out() {
    while (m_runs.size() > most_kept || attention_bytes(m_runs) > most_attention) {
        const auto oldest = std::ranges::find_if(
            m_tree.runs(), [&](const RunNode& run) { return may_be_forgotten(run.key); });
        if (oldest == m_tree.runs().end()) return;
        const RunKey key = oldest->key;
        m_tree.remove(key);
        m_runs.erase(key);
    }
}

void RunSet::update(const std::shared_ptr<const Recording>& live) {
    const auto before = m_live ? recording(*m_live) : nullptr;
    if (live && live != before) {
        const RunInfo& info = live->info();
        const RunNode* from = m_tree.find_id(info.parent_id);
        const RunNode* same = m_tree.find_id(info.id);
        // A branch from the newest step has everything that its parent had.
        const auto parent = from ? recording(from->key) : nullptr;
        const bool goes_on =
            parent && parent->info().id == info.parent_id && info.fork_step >= parent->steps();
        const auto left = std::exchange(m_live, std::nullopt);
        if (same) {
            m_live = same->key;
        } else if (goes_on) {
            m_live = from->key;
            m_tree.continue_as(from->key, info.id);
        } else {
            m_live = add(live, {}, false);
            if (m_expected && is_about(*m_expected, info.config) && info.parent_id.empty())
                m_runs.at(*m_live).estimate = std::exchange(m_expected, std::nullopt);
        }
        Run& run = m_runs.at(*m_live);
        run.recording = live;
        run.from_file = false;
        if (left && left != m_live) leave(*left);
        if (m_looked == m_live) m_looked.reset();
        thin_out();
    }
    refresh_nodes();
}

void RunSet::refresh_nodes() {
    const Recording* root_before = nullptr; // what a root is compared with: the one that came before it
    for (auto& [key, run] : m_runs) {
        const RunNode& node = *m_tree.find(key);
        const Recording& recording = *run.recording;
        const int64_t steps = recording.steps();
        const RunStanding standing = standing_of(recording, key == m_live, run.from_file);
        // What was told at the fork is in the log before the second own step.
        const bool young = !run.told || node.steps <= node.fork_step + 1;
        if (const size_t told = recording.commands().size(); young && run.told != told) {
            run.told = told;
            m_tree.set_change(key, what_changed(recording, root_before));
        }
        if (node.steps != steps || node.standing != standing) m_tree.update(key, standing, steps);
        run.metrics.update(recording, steps);
        if (!node.parent) root_before = &recording;
    }
}

void RunSet::put_label(RunKey key, const RunLabel& label) {
    if (!label.name.empty()) rename(key, label.name);
    if (label.colour && m_tree.find(key) != nullptr) m_tree.recolour(key, *label.colour);
}

RunKey RunSet::add_of_file(std::span<const std::shared_ptr<Recording>> runs, size_t index,
                           const std::string& name, std::span<const RunLabel> labels) {
    const RunKey key =
        add(runs[index], runs.size() > 1 ? fmt::format("{}, run {}", name, index + 1) : name, true);
    if (index < labels.size()) put_label(key, labels[index]);
    return key;
}

void RunSet::add_file(std::span<const std::shared_ptr<Recording>> runs, const std::string& name,
                      std::span<const RunLabel> labels) {
    std::optional<RunKey> last;
    for (size_t i = 0; i < runs.size(); ++i) {
        const auto known = of_file(m_runs, runs[i]->info().id);
        last = known ? *known : add_of_file(runs, i, name, labels);
    }
    if (last) look_at(*last);
    m_flipped = false; // a file is seen from its beginning
    refresh_nodes();
}

void RunSet::add_file(const std::shared_ptr<const Recording>& run, const std::string& name) {
    const auto known = of_file(m_runs, run->info().id);
    look_at(known ? *known : add(run, name, true));
    m_flipped = false;
    refresh_nodes();
}

std::vector<std::shared_ptr<Recording>>
RunSet::grow_file(std::span<const std::shared_ptr<Recording>> runs, const std::string& name,
                  std::span<const RunLabel> labels, const std::function<bool(const Recording&)>& has_own,
                  bool look_on) {
    std::vector<std::shared_ptr<Recording>> taken;
    std::optional<RunKey> newest_here, added;
    for (size_t i = 0; i < runs.size(); ++i) {
        const auto& run = runs[i];
        const auto known = of_file(m_runs, run->info().id);
        if (!known) {
            if (run->steps() == 0) continue; // just begun
            added = add_of_file(runs, i, name, labels);
            taken.push_back(run);
            continue;
        }
        newest_here = known;
        const Recording& here = *m_runs.at(*known).recording;
        const bool grown = run->steps() > here.steps() || (run->end() && !here.end());
        if (!grown || has_own(here)) continue;
        m_runs.at(*known).recording = run;
        if (known == m_looked) m_flipped = true; // step and view stay
        taken.push_back(run);
    }
    if (taken.empty()) return taken;
    if (added && look_on && newest_here && m_looked == newest_here) {
        look_at(*added);
        m_flipped = false; // it is seen from its beginning
    }
    refresh_nodes();
    return taken;
}

void RunSet::put_recording(RunKey key, std::shared_ptr<const Recording> recording) {
    const auto run = m_runs.find(key);
    if (run == m_runs.end() || key == m_live) return;
    run->second.recording = std::move(recording);
    if (key == m_looked) m_flipped = true;
    refresh_nodes();
}

bool RunSet::remove(RunKey key) {
    if (key == m_live || !m_runs.contains(key)) return false;
    if (key == m_looked) look_live();
    if (key == m_before) m_before.reset();
    m_tree.remove(key);
    m_runs.erase(key);
    return true;
}

void RunSet::rename(RunKey key, std::string_view name) {
    const auto run = m_runs.find(key);
    if (run == m_runs.end()) return;
    run->second.named = !clean_run_name(name).empty();
    m_tree.rename(key, name);
}

RunLabel RunSet::label(RunKey key) const {
    const Run* run = find(key);
    if (run == nullptr) return {};
    return {run->named ? name(key) : std::string(), colour(key)};
}

std::string RunSet::name(RunKey key) const {
    const RunNode* node = m_tree.find(key);
    return node ? node->name : std::string();
}

uint32_t RunSet::colour(RunKey key) const {
    const RunNode* node = m_tree.find(key);
    return node ? node->colour : 0;
}

void RunSet::look_at(RunKey key) {
    if (!m_runs.contains(key) || key == looked_at()) return;
    m_before = looked_at();
    m_looked = key == m_live ? std::nullopt : std::optional(key);
    m_flipped = true;
}

void RunSet::look_live() {
    if (!m_looked) return;
    m_flipped = false;
    if (m_live) m_before = m_looked;
    m_looked.reset();
}

std::shared_ptr<const Recording> RunSet::away() const {
    return m_looked ? recording(*m_looked) : nullptr;
}

std::optional<RunKey> RunSet::other() const {
    const auto ticked = compared();
    const auto shown = looked_at();
    // In the order of the tree, from the one that is looked at on: with two ticked runs it goes to and fro.
    if (!ticked.empty()) {
        bool passed = false;
        for (const RunTree::Row& row : m_tree.rows()) {
            if (passed && std::ranges::find(ticked, row.key) != ticked.end()) return row.key;
            passed |= row.key == shown;
        }
        return ticked.front();
    }
    if (m_before && m_before != shown && m_runs.contains(*m_before)) return m_before;
    if (shown && shown != m_live && m_live) return m_live;
    return std::nullopt;
}

void RunSet::tick(RunKey key, bool on) {
    if (const auto run = m_runs.find(key); run != m_runs.end()) run->second.ticked = on;
}

bool RunSet::ticked(RunKey key) const {
    const Run* run = find(key);
    return run && run->ticked;
}

void RunSet::untick_all() {
    for (auto& [key, run] : m_runs)
        run.ticked = false;
}

std::vector<RunKey> RunSet::compared() const {
    std::vector<RunKey> keys;
    const bool any = std::ranges::any_of(m_runs, [](const auto& entry) { return entry.second.ticked; });
    if (!any) return keys;
    const auto shown = looked_at();
    for (const RunTree::Row& row : m_tree.rows())
        if (row.key != shown && ticked(row.key)) keys.push_back(row.key);
    return keys;
}

int64_t RunSet::shift_of(RunKey key) const {
    const auto shown = looked_at();
    const Run *run = find(key), *base = shown ? find(*shown) : nullptr;
    if (!by_position || !run || !base) return 0;
    return run->recording->prompt_length() - base->recording->prompt_length();
}

} // namespace refreshlab::ui
