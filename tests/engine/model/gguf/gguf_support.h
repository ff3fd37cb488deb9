#pragma once

#include "engine/base/json_file.h"
#include "engine/model/gguf/gguf_file.h"
#include "tests/engine/model/support.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/seed.h"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

namespace refreshlab::test {

/// What gguf_reference.py wrote, asked once per run of the suite and kept in the build tree.
inline const std::filesystem::path& gguf_references() {
    static const std::filesystem::path folder = [] {
        const auto made = std::filesystem::path(RL_BUILD_DIR) / "test-files" / "gguf-references";
        std::filesystem::create_directories(made);
        const std::string command =
            "'" RL_PYTHON "' -B '" RL_SOURCE_DIR "/tests/engine/model/gguf/gguf_reference.py' '" +
            made.string() + "' '" RL_SOURCE_DIR "' " + std::to_string(seed(0) % 1'000'000);
        INFO(command);
        REQUIRE(std::system(command.c_str()) == 0);
        return made;
    }();
    return folder;
}

inline const nlohmann::json& gguf_manifest() {
    static const nlohmann::json manifest = read_json_file(gguf_references() / "manifest.json");
    return manifest;
}

/// \param bytes  outlive the result
inline GgufFile parse_gguf(const std::string& bytes) {
    return GgufFile::parse(std::as_bytes(std::span(bytes.data(), bytes.size())), "tiny.gguf");
}

/// The message with which reading the header is refused.
inline std::string gguf_error(const std::string& bytes) {
    return error_of([&] { (void)parse_gguf(bytes); });
}

} // namespace refreshlab::test
