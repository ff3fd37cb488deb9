#include "kernels/execution/cores.h"
#include "kernels/execution/thread_pool.h"

#include <catch2/catch_test_macros.hpp>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

namespace refreshlab {
namespace {

namespace fs = std::filesystem;

/// OMP_NUM_THREADS for a scope.
class Variable {
public:
    explicit Variable(const char* value) {
        if (const char* before = std::getenv(name)) m_before = before;
        set(value);
    }
    ~Variable() { set(m_before ? m_before->c_str() : nullptr); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

private:
    static constexpr const char* name = "OMP_NUM_THREADS";
    static void set(const char* value) {
        if (value != nullptr) {
            setenv(name, value, 1);
        } else {
            unsetenv(name);
        }
    }
    std::optional<std::string> m_before;
};

TEST_CASE("threads are those that the process may use", "[kernels][threads]") {
    const Variable none(nullptr);
    cpu_set_t before;
    REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
    const int all = kernels::usable_cores();
    CHECK(all >= 1);
    CHECK(all <= CPU_COUNT(&before));
    CHECK(kernels::default_threads() == all);
    CHECK(kernels::threads_for(0) == all);
    CHECK(kernels::threads_for(1) == 1);
    CHECK(kernels::threads_for(4096) == all);

    int first = 0;
    while (!CPU_ISSET(first, &before))
        ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
    CHECK(kernels::usable_cores() == 1);
    CHECK(kernels::default_threads() == 1);
    CHECK(kernels::threads_for(8) == 1);
    const int threads = kernels::num_threads();
    kernels::set_num_threads(0);
    CHECK(kernels::num_threads() == 1);
    REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
    kernels::set_num_threads(threads);
}

TEST_CASE("OMP_NUM_THREADS is the default and no limit", "[kernels][threads]") {
    const int all = kernels::usable_cores();
    {
        const Variable one("1");
        CHECK(kernels::default_threads() == 1);
        CHECK(kernels::threads_for(all) == all); // asked for by hand
    }
    for (const char* list : {"1,4", "1,1,1"}) {
        const Variable variable(list);
        CHECK(kernels::default_threads() == 1);
    }
    for (const char* nonsense : {"", "0", "-3", "many", "1x", "4000000000", "100000"}) {
        const Variable variable(nonsense);
        CHECK(kernels::default_threads() == all);
    }
}

TEST_CASE("the smallest CPU quota of a control group and its parents counts", "[kernels][threads]") {
    const fs::path mount = fs::path(RL_BUILD_DIR) / ("cgroup-" + std::to_string(getpid()));
    fs::create_directories(mount / "a/b/c");
    const auto put = [&](const char* group, const char* text) {
        std::ofstream(mount / group / "cpu.max") << text;
    };
    CHECK_FALSE(kernels::cpu_quota(mount, "/a/b/c"));
    put("a/b/c", "max 100000\n");
    CHECK_FALSE(kernels::cpu_quota(mount, "/a/b/c"));
    put("a", "150000 100000\n");
    CHECK(kernels::cpu_quota(mount, "/a/b/c") == 1.5);
    CHECK(kernels::cpu_quota(mount, "/a") == 1.5);
    CHECK_FALSE(kernels::cpu_quota(mount, "/"));
    put("a/b", "300000 100000\n");
    CHECK(kernels::cpu_quota(mount, "/a/b/c") == 1.5);
    put("", "50000 100000\n");
    CHECK(kernels::cpu_quota(mount, "/a/b/c") == 0.5);
    CHECK(kernels::cpu_quota(mount, "/gone/away") == 0.5);
    put("", "nonsense");
    CHECK(kernels::cpu_quota(mount, "/a/b") == 1.5);
    fs::remove_all(mount);
}

} // namespace
} // namespace refreshlab
