#pragma once

#include "engine/control/run_config.h"
#include "engine/results/bootstrap.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// One row of the table: everything of a run but its prompt and seed.
struct SweepRow {
    std::string label; ///< "OverFill + entropy (entropy_bits > 6)"; no two rows have the same
    RunConfig config;  ///< without prompt, given text, task and seed
    std::optional<size_t>
        none_row; ///< of a row with a policy: the row that differs only in having none, if there is one
};

struct SweepPrompt {
    std::string text, given;
    std::string group; ///< table section: the file's stem, "prompts" for those in the spec itself
    TaskConfig task;
    std::string almanac_digest; ///< of the almanac's bytes; empty without one
};

/// Timing runs: each run of a row `pairs` times, in pairs with the same run without policy.
struct SweepTiming {
    int32_t pairs = 0;         ///< 0 = none
    size_t prompts = SIZE_MAX; ///< the first so many prompts only
};

/// A grid of runs, as data. Format: docs/reference/sweeps.md.
struct SweepSpec {
    std::string name;
    std::string text; ///< the file as it was
    std::vector<SweepRow> rows;
    std::vector<SweepPrompt> prompts;
    std::vector<uint64_t> seeds;
    SweepTiming timing;
    BootstrapOptions bootstrap;
    int64_t repeated_prompts = 0; ///< exact repetitions that were left out

    [[nodiscard]] int64_t num_cells() const {
        return static_cast<int64_t>(rows.size()) * static_cast<int64_t>(prompts.size()) *
               static_cast<int64_t>(seeds.size());
    }
    [[nodiscard]] RunConfig config(size_t row, size_t prompt, uint64_t seed) const;
};

/// A grid beyond these is a slip of the pen.
namespace sweep_limits {
inline constexpr int64_t rows = 10'000, prompts = 100'000, cells = 250'000;
} // namespace sweep_limits

/// How a spec reaches the files it names.
struct SweepFiles {
    std::function<std::string(const std::string& name)> find; ///< the file's path; throws Error{bad_input}
    std::function<std::string(const std::string& path)> read; ///< its bytes; throws Error{bad_input}
};
/// A relative name is looked for beside the spec, then in the current folder; "assets/..." in the asset folder as well.
[[nodiscard]] SweepFiles sweep_files(const std::filesystem::path& spec_folder,
                                     const std::filesystem::path& assets);

/// Throws Error{bad_input} naming `what` and line and column (JSON) or the key: unknown keys, wrong types, values out of
/// range, files that are missing, parameters that no policy of the grid has, two rows that are the same, a grid beyond
/// sweep_limits.
/// \param defaults  for what "base" leaves out; of it, the model folders are taken only if "base" names neither
[[nodiscard]] SweepSpec parse_sweep_spec(std::string_view text, const std::string& what,
                                         const RunConfig& defaults, const SweepFiles& files);

/// "entropy (entropy_bits > 6 every 16 cool-down 32; window 64; redraw)": all that tells two policies apart.
[[nodiscard]] std::string policy_label(const RefreshPolicy& policy);
/// A trigger that is switched on.
[[nodiscard]] bool refreshes_by_itself(const RefreshPolicy& policy);

} // namespace refreshlab
