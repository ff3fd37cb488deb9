#pragma once

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "tests/support/seed.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace refreshlab::text_test {

/// Splitmix64: the same numbers with every standard library.
class Random {
public:
    explicit Random(uint64_t start)
        : m_state(start) {}
    uint64_t next() {
        uint64_t z = (m_state += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return z ^ (z >> 31);
    }
    size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }

private:
    uint64_t m_state;
};

/// One to three small damages: a byte changed, a piece removed, doubled, or replaced by something of the format.
inline std::string mutated(std::string text, Random& random) {
    static const char* const pieces[] = {
        "{",    "}",    "[",  "]",  "\"", ":",  ",",    "null",   "true", "-1", "1e9",  "99999999",
        "\\u0", "{{",   "}}", "{%", "%}", "|",  "(",    ")",      ".x",   "~",  " if ", " in ",
        "\xFF", "\xC3", "\\", "'",  "**", "//", "loop", "[::-1]", "not ", "{}", "\"\"", "0"};
    const size_t damages = 1 + random.below(3);
    for (size_t i = 0; i < damages && !text.empty(); ++i) {
        const size_t at = random.below(text.size());
        const size_t length = std::min(text.size() - at, 1 + random.below(12));
        switch (random.below(5)) {
        case 0:
            text[at] = static_cast<char>(random.below(256));
            break;
        case 1:
            text.erase(at, length);
            break;
        case 2:
            text.insert(at, text.substr(at, length));
            break;
        case 3:
            text.replace(at, std::min<size_t>(length, 3), pieces[random.below(std::size(pieces))]);
            break;
        default:
            text.insert(at, pieces[random.below(std::size(pieces))]);
        }
    }
    return text;
}

/// A folder of this suite in the build tree, empty.
inline std::filesystem::path fresh_folder(const std::string& name) {
    const std::filesystem::path folder = std::filesystem::path(RL_BUILD_DIR) / "test-files" / "text" / name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
}

/// What the reference libraries say (reference.py), asked once per run of the suite and kept in the build tree.
inline const std::filesystem::path& references() {
    static const std::filesystem::path folder = [] {
        const std::filesystem::path made =
            std::filesystem::path(RL_BUILD_DIR) / "test-files" / "text-references";
        std::filesystem::create_directories(made);
        const std::string command =
            "'" RL_PYTHON "' -B '" RL_SOURCE_DIR "/tests/engine/text/reference.py' '" + made.string() +
            "' '" RL_SOURCE_DIR "' " + std::to_string(test::seed(0) % 1'000'000);
        INFO(command);
        REQUIRE(std::system(command.c_str()) == 0);
        return made;
    }();
    return folder;
}

/// The text of the Error that the call throws; fails the test when it throws none.
template <typename Call>
std::string message_of(const Call& call) {
    try {
        call();
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_input);
        const std::string text = error.what();
        CHECK(text.find('\n') == std::string::npos);
        return text;
    }
    FAIL("no error");
    return {};
}

} // namespace refreshlab::text_test
