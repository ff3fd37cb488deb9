#include "ui/dialogs/prompt_files.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace refreshlab::ui {

namespace {

std::vector<std::string> first_prompts(const std::filesystem::path& path, size_t count) {
    std::vector<std::string> prompts;
    const std::string all = read_file(path, size_t{64} << 20);
    std::set<std::string> seen;
    size_t line_number = 0;
    for (size_t begin = 0; begin < all.size() && seen.size() < count;) {
        const size_t end = std::min(all.find('\n', begin), all.size());
        const std::string_view line(all.data() + begin, end - begin);
        begin = end + 1;
        ++line_number;
        if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        const nlohmann::json json = parse_json(line, fmt::format("{}:{}", path.string(), line_number));
        if (!json.is_object()) continue;
        std::string text;
        if (json.contains("prompt") && json["prompt"].is_string()) {
            text = json["prompt"].get<std::string>();
        } else if (json.contains("turns") && json["turns"].is_array() && !json["turns"].empty() &&
                   json["turns"][0].is_string()) {
            text = json["turns"][0].get<std::string>();
        }
        if (!text.empty() && seen.insert(text).second) prompts.push_back(std::move(text));
    }
    return prompts;
}

/// "my_prompts" -> "My prompts".
std::string in_words(std::string stem) {
    std::ranges::replace(stem, '_', ' ');
    if (!stem.empty()) stem[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(stem[0])));
    return stem;
}

} // namespace

std::vector<PromptGroup> read_bundled_prompts(const std::filesystem::path& folder, size_t per_file) {
    std::set<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (entry.path().extension() == ".jsonl") files.insert(entry.path());

    std::vector<PromptGroup> groups;
    if (const auto index = folder / "tasks.json"; std::filesystem::exists(index, error)) {
        const nlohmann::ordered_json named =
            nlohmann::ordered_json::parse(read_file(index, 1 << 20), nullptr, false);
        if (!named.is_object()) throw Error("reading the list of tasks", index.string(), "no JSON object");
        for (const auto& [stem, words] : named.items()) {
            const auto file = files.find(folder / (stem + ".jsonl"));
            if (file == files.end()) continue;
            const auto text = [&words](const char* key, const std::string& otherwise) {
                const bool there = words.is_object() && words.contains(key) && words[key].is_string();
                return there ? words[key].get<std::string>() : otherwise;
            };
            groups.push_back(
                {stem, text("title", in_words(stem)), text("line", ""), first_prompts(*file, per_file)});
            files.erase(file);
        }
    }
    for (const auto& file : files)
        groups.push_back(
            {file.stem().string(), in_words(file.stem().string()), "", first_prompts(file, per_file)});
    std::erase_if(groups, [](const PromptGroup& group) { return group.prompts.empty(); });
    return groups;
}

} // namespace refreshlab::ui
