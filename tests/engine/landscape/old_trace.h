#pragma once

#include "engine/record/recording/recording.h"
#include "engine/record/trace/sqlite.h"
#include "engine/record/trace/trace_store.h"

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

namespace refreshlab::test {

/// A copy of the small trace of an older schema, with one run of 12 tokens; removed at its end.
class OldTrace {
public:
    /// \param name  of the copy: cases that run side by side do not share one
    OldTrace(const std::string& name, int schema)
        : m_file(std::filesystem::path(RL_BUILD_DIR) / "test-files" /
                 fmt::format("{}-{}.rlt", name, schema)) {
        std::filesystem::create_directories(m_file.parent_path());
        std::filesystem::copy_file(std::filesystem::path(RL_SOURCE_DIR) /
                                       fmt::format("tests/engine/record/schema{}.rlt", schema),
                                   m_file, std::filesystem::copy_options::overwrite_existing);
    }
    ~OldTrace() {
        std::error_code ignored;
        std::filesystem::remove(m_file, ignored);
    }
    OldTrace(const OldTrace&) = delete;
    OldTrace& operator=(const OldTrace&) = delete;

    [[nodiscard]] const std::filesystem::path& file() const { return m_file; }
    [[nodiscard]] std::shared_ptr<Recording> run() const { return load_trace(m_file).at(0); }
    [[nodiscard]] std::string id() const { return run()->info().id; }
    [[nodiscard]] int64_t schema() const {
        return sqlite::Database(m_file, sqlite::Open::read_only).integer("PRAGMA user_version");
    }
    void exec(const std::string& sql) const {
        sqlite::Database(m_file, sqlite::Open::read_write).exec(sql.c_str());
    }

private:
    std::filesystem::path m_file;
};

} // namespace refreshlab::test
