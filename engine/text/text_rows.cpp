#include "engine/text/text_rows.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace refreshlab {

void read_text_rows(const std::filesystem::path& file, const std::function<void(TextRow)>& see) {
    const std::string words = read_file(file);
    if (const auto bad = first_invalid_utf8(words))
        throw Error("reading a training text", file.string(), fmt::format("byte {} is not UTF-8", *bad),
                    "save the file as UTF-8");
    if (file.extension() != ".jsonl") {
        see({words, {}, {}, {}});
        return;
    }
    for (size_t begin = 0, line = 1; begin < words.size(); ++line) {
        const size_t end = std::min(words.find('\n', begin), words.size());
        const std::string_view row = std::string_view(words).substr(begin, end - begin);
        begin = end + 1;
        if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
        const std::string where = fmt::format("{}, row {}", file.string(), line);
        const nlohmann::json object = parse_json(row, where);
        const auto text = [&](const char* key) {
            const bool there = object.is_object() && object.contains(key) && object[key].is_string();
            return there ? object[key].get<std::string>() : std::string();
        };
        TextRow one{text("text"), text("prompt"), text("prefix"),
                    text("response").empty() ? text("reference") : text("response")};
        if (one.text.empty() && (one.prompt.empty() || one.answer.empty()))
            throw Error("reading a training text", where,
                        R"(has neither "text" nor "prompt" with "response" or "reference")");
        see(std::move(one));
    }
}

} // namespace refreshlab
