#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace refreshlab::kernels {

/// A Linux control group, as the folder of its files (cgroups(7)).
struct ControlGroup {
    std::filesystem::path folder; ///< may not exist: inside a container the group's path may be the host's
    int version = 2;              ///< 1 or 2: the files have other names
};

/// The groups that limit this process: its own and everything above, of both versions, as /proc/self/cgroup names them. A
/// limit holds for all that is below it, so the smallest one counts.
/// \param controller  "cpu", "memory", ...
/// \param root        the folder that holds proc/ and sys/
[[nodiscard]] std::vector<ControlGroup> control_groups(std::string_view controller,
                                                       const std::filesystem::path& root = "/");

/// The number that a file of the kernel begins with; nothing for a negative one, for "max", or without the file.
[[nodiscard]] std::optional<int64_t> number_in(const std::filesystem::path& file);
/// The number after the first line's word `key` ("MemAvailable: 123 kB", "inactive_file 4096"); nothing where there is none.
[[nodiscard]] std::optional<int64_t> number_after(const std::filesystem::path& file, std::string_view key);

} // namespace refreshlab::kernels
