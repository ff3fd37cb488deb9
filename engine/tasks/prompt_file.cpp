#include "engine/tasks/prompt_file.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/tasks/task_scorer.h"

#include <algorithm>

namespace refreshlab {

namespace {

bool has_almanac(const std::string& kind) {
    return kind == "roll_call" || kind == "company" || kind == "chronicle";
}

/// Every run of digits as one '#'.
std::string without_numbers(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c < '0' || c > '9') {
            out += c;
        } else if (out.empty() || out.back() != '#') {
            out += '#';
        }
    }
    return out;
}

PromptRecord parse_record(const std::string& line, const std::string& what) {
    const nlohmann::json json = parse_json(line, what);
    const auto refuse = [&](const std::string& problem) { throw Error("reading", what, problem); };
    if (!json.is_object()) refuse("must be an object");
    const auto text = [&](const char* key, std::string& out) {
        const auto it = json.find(key);
        if (it == json.end()) return;
        if (it->is_array() && !it->empty() && it->front().is_string()) { // one per turn; the first is ours
            out = it->front().get<std::string>();
            return;
        }
        if (!it->is_string()) refuse(std::string("\"") + key + "\" must be text");
        out = it->get<std::string>();
    };
    PromptRecord record;
    text("kind", record.kind);
    text("prompt", record.prompt);
    text("prefix", record.prefix);
    text("reference", record.response);
    text("response", record.response);
    if (record.prompt.empty()) text("turns", record.prompt);
    if (record.prompt.empty()) refuse("there is no \"prompt\"");
    return record;
}

} // namespace

std::vector<PromptRecord> read_prompt_file(const std::filesystem::path& file) {
    const std::string text = read_file(file, size_t{1} << 28);
    std::vector<PromptRecord> records;
    size_t number = 0;
    for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        ++number;
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        records.push_back(parse_record(line, file.string() + ", record on line " + std::to_string(number)));
    }
    if (records.empty()) throw Error("reading", file.string(), "it holds no prompt");
    return records;
}

std::optional<TaskConfig> task_of(const PromptRecord& record, const std::filesystem::path& folder) {
    if (record.kind.empty()) return std::nullopt;
    TaskConfig task;
    task.kind = record.kind;
    if (has_almanac(record.kind)) {
        task.almanac = (folder / "almanac.json").string();
    } else if (record.kind != "chain_of_key") {
        task.reference = record.response;
    }
    return task;
}

std::optional<TaskConfig> find_task(const std::string& prompt, const std::filesystem::path& folder) {
    for (const std::string& kind : task_kinds()) {
        const std::filesystem::path file = folder / (kind + ".jsonl");
        if (!std::filesystem::is_regular_file(file)) continue;
        const bool any_number = kind == "company" || kind == "chronicle";
        for (const PromptRecord& record : read_prompt_file(file)) {
            if (record.kind == kind &&
                (record.prompt == prompt ||
                 (any_number && without_numbers(record.prompt) == without_numbers(prompt)))) {
                return task_of(record, folder);
            }
        }
    }
    return std::nullopt;
}

} // namespace refreshlab
