#include "app/base/output.h"

#include "engine/base/error.h"
#include "engine/base/shell_word.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace refreshlab::app {

namespace {

std::string kept_command_line; ///< set once, before anything else

} // namespace

namespace {

namespace fs = std::filesystem;

/// Where a path leads, also when its last part does not exist yet.
fs::path resolved(const std::string& path) {
    std::error_code unknown;
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, unknown), unknown);
    return unknown ? fs::path(path).lexically_normal() : whole;
}

bool same_or_inside(const std::string& file, const std::string& place) {
    std::error_code missing;
    if (fs::equivalent(file, place, missing)) return true; // hard links too
    const fs::path inner = resolved(file), outer = resolved(place);
    return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

void to_stderr(const std::string& text) {
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
    static_cast<void>(std::fflush(stderr));
}

} // namespace

void say(const std::string& text) {
    constexpr size_t max_chars = 4000;
    to_stderr(visible_lines(text, max_chars));
}

void print(const std::string& text) {
    const std::string shown = visible_lines(text);
    static_cast<void>(std::fwrite(shown.data(), 1, shown.size(), stdout));
}

void draw_line(const std::string& text) {
    to_stderr("\r\033[K" + visible_text(text));
}

void check_outputs(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs) {
    for (size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].path.empty()) continue;
        const auto refuse = [&](const NamedFile& other) {
            if (other.path.empty() || !same_or_inside(outputs[i].path, other.path)) return;
            throw Error("writing " + outputs[i].option, outputs[i].path,
                        "this would overwrite what " + other.option + " names", "choose another file");
        };
        std::for_each(inputs.begin(), inputs.end(), refuse);
        std::for_each(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(i), refuse);
    }
}

void keep_command_line(int argc, const char* const* argv) {
    kept_command_line.clear();
    for (int i = 0; i < argc; ++i)
        kept_command_line += (i > 0 ? " " : "") + shell_word(argv[i]);
}

std::string command_line() {
    return kept_command_line;
}

} // namespace refreshlab::app
