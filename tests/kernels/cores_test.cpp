#include "kernels/execution/cores.h"
#include "kernels/execution/execution_context.h"

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
    CHECK(kernels::ExecutionContext().num_threads() == 1);
    REQUIRE(sched_setaffinity(0, sizeof(before), &before) == 0);
    CHECK(kernels::ExecutionContext().num_threads() == all);
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

/// A folder with proc/ and sys/ of a machine that never was.
class Machine {
public:
    Machine()
        : m_root(fs::path(RL_BUILD_DIR) / ("cgroup-" + std::to_string(getpid()))) {
        fs::create_directories(m_root);
    }
    ~Machine() { fs::remove_all(m_root); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;
    void put(const fs::path& file, const char* text) const {
        fs::create_directories((m_root / file).parent_path());
        std::ofstream(m_root / file) << text;
    }
    [[nodiscard]] const fs::path& root() const { return m_root; }

private:
    fs::path m_root;
};

TEST_CASE("the smallest CPU quota of a control group and its parents counts", "[kernels][threads]") {
    const Machine machine;
    const auto in_group = [&](const char* group) {
        machine.put("proc/self/cgroup", (std::string("0::") + group + "\n").c_str());
        return kernels::cpu_quota(machine.root());
    };
    const auto put = [&](const char* group, const char* text) {
        machine.put(fs::path("sys/fs/cgroup") / group / "cpu.max", text);
    };
    CHECK_FALSE(kernels::cpu_quota(machine.root())); // no groups at all
    CHECK_FALSE(in_group("/a/b/c"));
    put("a/b/c", "max 100000\n");
    CHECK_FALSE(in_group("/a/b/c"));
    put("a", "150000 100000\n");
    CHECK(in_group("/a/b/c") == 1.5);
    CHECK(in_group("/a") == 1.5);
    CHECK_FALSE(in_group("/"));
    put("a/b", "300000 100000\n");
    CHECK(in_group("/a/b/c") == 1.5);
    put("", "50000 100000\n");
    CHECK(in_group("/a/b/c") == 0.5);
    CHECK(in_group("/gone/away") == 0.5);
    CHECK(in_group("/../../outside") == 0.5); // a group above our namespace
    put("", "nonsense");
    CHECK(in_group("/a/b") == 1.5);
}

TEST_CASE("the CPU quota of version 1 counts too", "[kernels][threads]") {
    const Machine machine;
    machine.put("proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/box/job\nnonsense\n0::/\n");
    const auto put = [&](const char* group, const char* quota) {
        const fs::path folder = fs::path("sys/fs/cgroup/cpu") / group;
        machine.put(folder / "cpu.cfs_quota_us", quota);
        machine.put(folder / "cpu.cfs_period_us", "100000\n");
    };
    CHECK_FALSE(kernels::cpu_quota(machine.root()));
    put("box/job", "-1\n"); // no limit
    CHECK_FALSE(kernels::cpu_quota(machine.root()));
    put("box", "250000\n");
    CHECK(kernels::cpu_quota(machine.root()) == 2.5);
    put("m", "100000\n"); // another controller's group
    CHECK(kernels::cpu_quota(machine.root()) == 2.5);
    put("box/job", "75000\n");
    CHECK(kernels::cpu_quota(machine.root()) == 0.75);
}

} // namespace
} // namespace refreshlab
