#include "ui/dialogs/prompt_files.h"

#include "engine/base/json_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace refreshlab::ui {

std::vector<BundledPrompt> read_bundled_prompts(const std::filesystem::path& folder, size_t per_file) {
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        if (entry.path().extension() == ".jsonl") files.push_back(entry.path());
    std::ranges::sort(files);

    std::vector<BundledPrompt> prompts;
    for (const auto& path : files) {
        const std::string all = read_file(path, size_t{64} << 20);
        std::set<std::string> seen;
        size_t line_number = 0;
        for (size_t begin = 0; begin < all.size() && seen.size() < per_file;) {
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
            if (!text.empty() && seen.insert(text).second)
                prompts.push_back({path.stem().string(), std::move(text)});
        }
    }
    return prompts;
}

} // namespace refreshlab::ui
