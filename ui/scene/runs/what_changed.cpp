// What is other in a run than in the one it came from.
#include "engine/control/command.h"
#include "ui/base/value_format.h"
#include "ui/scene/policy/cache_words.h"
#include "ui/scene/policy/command_words.h"
#include "ui/scene/runs/run_set.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <variant>
#include <vector>

namespace refreshlab::ui {

namespace {

constexpr size_t most_words = 3; // changes that are named; more are counted

std::string joined(const std::vector<std::string>& words) {
    std::string all;
    for (size_t i = 0; i < std::min(words.size(), most_words); ++i)
        all += (i == 0 ? "" : ", ") + words[i];
    if (words.size() > most_words) all += fmt::format(" and {} more", words.size() - most_words);
    return all;
}

/// Of a branch: what was told before its first own step. A later value of one parameter counts.
std::vector<std::string> told_at_fork(const Recording& run) {
    std::vector<std::string> words;
    std::map<std::string, size_t> of_key;
    const auto& log = run.commands();
    for (size_t i = run.inherited().commands, n = log.size(); i < n; ++i) {
        if (log[i].step > run.info().fork_step + 1) break;
        if (reads_attention(log[i])) continue;
        const std::string key = set_key(log[i]);
        const auto [place, fresh] = of_key.emplace(key, words.size());
        if (key.empty() || fresh)
            words.push_back(command_words(log[i]));
        else
            words[place->second] = command_words(log[i]);
    }
    return words;
}

std::vector<std::string> differences(const RunConfig& from, const RunConfig& to) {
    std::vector<std::string> words;
    if (from.prompt != to.prompt || from.raw_prompt != to.raw_prompt) words.emplace_back("another prompt");
    if (from.teacher_dir != to.teacher_dir || from.student_dir != to.student_dir)
        words.emplace_back("another pair");
    if (from.mode != to.mode)
        words.emplace_back(to.mode == Mode::teacher   ? "teacher alone"
                           : to.mode == Mode::student ? "student alone"
                                                      : "teacher and student");
    if (to.reads_given() && !from.reads_given()) words.emplace_back("on a given text");
    if (!(from.student_cache == to.student_cache) || !(from.teacher_cache == to.teacher_cache))
        words.push_back(cache_words(deciding_cache(to)));
    for (const Command& command : commands_between(from, to)) {
        const auto* set = std::get_if<command::SetParameter>(&command);
        const bool of_cache = set != nullptr && (set->key.starts_with("student_cache.") ||
                                                 set->key.starts_with("teacher_cache."));
        if (!of_cache) words.push_back(command_words({1, to_json(command).dump()}));
    }
    if (from.seed != to.seed && std::ranges::none_of(words, [](const std::string& word) {
            return word.find("eed") != std::string::npos;
        }))
        words.push_back(fmt::format("seed {}", to.seed));
    if (from.max_tokens != to.max_tokens) words.push_back(format_count(to.max_tokens, "token"));
    return words;
}

} // namespace

std::string what_changed(const Recording& run, const Recording* reference) {
    if (!run.info().parent_id.empty()) return joined(told_at_fork(run));
    if (reference == nullptr) return fmt::format("policy {}", run.info().config.policy.name);
    return joined(differences(reference->info().config, run.info().config));
}

} // namespace refreshlab::ui
