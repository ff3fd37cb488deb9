#include "engine/bench/measure/machine.h"

#include "kernels/execution/control_groups.h"
#include "kernels/execution/cores.h"

#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

namespace refreshlab::bench {

namespace {

/// The text after "key : " of the first such line of /proc/cpuinfo; empty without.
std::string cpu_line(const std::filesystem::path& root, const std::string& key) {
    std::ifstream file(root / "proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with(key)) continue;
        const size_t colon = line.find(": ");
        return colon == std::string::npos ? std::string() : line.substr(colon + 2);
    }
    return {};
}

std::string system_name() {
    utsname name{};
    if (uname(&name) != 0) return "?";
    return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

} // namespace

Machine this_machine(const std::filesystem::path& root) {
    Machine machine;
    machine.cpu = cpu_line(root, "model name");
    if (machine.cpu.empty()) machine.cpu = "a CPU without a name";
    machine.system = system_name();
    machine.cores = kernels::usable_cores();
    machine.clock_mhz = std::strtod(cpu_line(root, "cpu MHz").c_str(), nullptr);
    machine.memory = kernels::number_after(root / "proc/meminfo", "MemTotal:").value_or(0) * 1024;
    machine.load_before = machine_load(root);
    return machine;
}

double machine_load(const std::filesystem::path& root) {
    double load = 0;
    std::ifstream(root / "proc/loadavg") >> load;
    return load;
}

int64_t peak_memory(const std::filesystem::path& root) {
    return kernels::number_after(root / "proc/self/status", "VmHWM:").value_or(0) * 1024;
}

int64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

} // namespace refreshlab::bench
