// Seconds of every test case, for `make test-times`: Catch's own durations are mixed with those of sections, and its reports are
// written when a suite ends, which one that hangs or dies never does.
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace {

/// Writes "seconds <tab> case" into the file that REFRESHLAB_TIMES names, a line as each case ends.
class Times final : public Catch::EventListenerBase {
public:
    explicit Times(const Catch::IConfig* config)
        : EventListenerBase(config) {
        const char* path = std::getenv("REFRESHLAB_TIMES");
        if (path == nullptr || *path == 0) return;
        std::error_code ignored; // a suite whose times cannot be kept runs all the same
        std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
        m_file = std::fopen(path, "w");
    }
    ~Times() override {
        if (m_file != nullptr) std::fclose(m_file);
    }
    Times(const Times&) = delete;
    Times& operator=(const Times&) = delete;

    void testCaseStarting(const Catch::TestCaseInfo&) override { m_start = std::chrono::steady_clock::now(); }

    void testCaseEnded(const Catch::TestCaseStats& ended) override {
        if (m_file == nullptr) return;
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - m_start;
        std::fprintf(m_file, "%.3f\t%s\n", seconds.count(), ended.testInfo->name.c_str());
        std::fflush(m_file);
    }

private:
    std::FILE* m_file = nullptr; ///< null where nobody asked, or where it cannot be written
    std::chrono::steady_clock::time_point m_start;
};

} // namespace

CATCH_REGISTER_LISTENER(Times)
