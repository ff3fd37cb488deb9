#pragma once

#include "engine/base/error.h"
#include "engine/results/sweep_plan.h"
#include "engine/results/sweep_store.h"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <random>
#include <string>

namespace refreshlab::test {

/// Files that exist in the test alone.
inline SweepFiles memory_files(std::map<std::string, std::string> files) {
    auto shared = std::make_shared<std::map<std::string, std::string>>(std::move(files));
    SweepFiles access;
    access.find = [shared](const std::string& name) {
        if (!shared->contains(name)) throw Error("reading", name, "no such file or folder");
        return name;
    };
    access.read = [shared](const std::string& path) { return shared->at(path); };
    return access;
}

inline RunConfig bundled_pair() {
    RunConfig config;
    config.teacher_dir = RL_SOURCE_DIR "/assets/models/llama-tales-teacher";
    config.student_dir = RL_SOURCE_DIR "/assets/models/llama-tales-student";
    return config;
}

inline SweepSpec parse(const nlohmann::json& spec, std::map<std::string, std::string> files = {}) {
    return parse_sweep_spec(spec.dump(), "s.json", bundled_pair(), memory_files(std::move(files)));
}

/// Text of the error that reading gives; empty if it is read.
inline std::string error_of(const std::string& text, std::map<std::string, std::string> files = {}) {
    try {
        static_cast<void>(parse_sweep_spec(text, "s.json", bundled_pair(), memory_files(std::move(files))));
        return {};
    } catch (const Error& e) {
        CHECK(e.kind() == ErrorKind::bad_input);
        return e.what();
    }
}

inline const SweepModels some_models{"teacher bytes", "student bytes", "cpu"};

/// Values of one run out of a generator; some are missing.
inline MetricValues random_metrics(std::mt19937_64& random) {
    MetricValues values;
    for (size_t i = 0; i < num_metrics; ++i) {
        if (metric_infos[i].summary.empty() || random() % 8 == 0) continue;
        values[i] = static_cast<double>(random() % 100'000) / 97.0 + 0.01;
    }
    return values;
}

inline SweepResult random_result(const std::string& id, std::mt19937_64& random) {
    SweepResult result;
    result.id = id;
    result.config = "{}";
    result.metrics = random_metrics(random);
    nlohmann::json summary{{"ttft_ms", random() % 1000}};
    for (size_t i = 0; i < num_metrics; ++i) // the others have columns
        if (!metric_infos[i].has_column() && result.metrics[i])
            summary[nlohmann::json::json_pointer(std::string(metric_infos[i].summary))] = *result.metrics[i];
    result.summary = summary.dump();
    result.digest = fmt::format("digest of {}", id);
    return result;
}

/// A file name in the build folder; the file and SQLite's companions go with the object.
class ScratchFile {
public:
    explicit ScratchFile(const std::string& name)
        : m_path(std::filesystem::path(RL_BUILD_DIR) / fmt::format("sweep-{}-{}.db", name, getpid())) {
        remove();
    }
    ~ScratchFile() { remove(); }
    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

private:
    void remove() const {
        for (const char* suffix : {"", "-wal", "-shm", "-journal", ".lock"}) {
            std::error_code ignored;
            std::filesystem::remove(m_path.string() + suffix, ignored);
        }
    }
    std::filesystem::path m_path;
};

} // namespace refreshlab::test
