#pragma once

#include "engine/results/sweep_spec.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

/// What a result depends on besides its configuration.
struct SweepModels {
    std::string teacher, student; ///< model_fingerprint(); empty where there is no model
    std::string device; ///< "cpu" or "cuda", "teacher/student" where they differ: they round differently
    friend bool operator==(const SweepModels&, const SweepModels&) = default;
};

/// One run of the grid.
struct SweepCell {
    std::string id; ///< 32 hex digits, see cell_id()
    size_t row = 0, prompt = 0;
    uint64_t seed = 0;
    friend bool operator==(const SweepCell&, const SweepCell&) = default;
};

/// A sweep as its database holds it: enough to make the tables again without the spec's files or the models.
struct SweepPlan {
    struct Row {
        std::string label;
        std::string mode;
        bool policy = false; ///< overfill with a trigger that is switched on
        std::optional<size_t> none_row;
        friend bool operator==(const Row&, const Row&) = default;
    };
    struct Prompt {
        std::string group, text;
        friend bool operator==(const Prompt&, const Prompt&) = default;
    };
    std::string name, spec_text;
    SweepModels models;
    /// kernel_bits() of its runs, each once, in the order of the alphabet; none where all is computed on GPUs, and in files
    /// of programs that did not note it.
    std::vector<std::string> kernels;
    std::string runs; ///< digest of the cells' run_id(): equal for one grid, whatever the kernel sets
    std::vector<Row> rows;
    std::vector<Prompt> prompts;
    std::vector<SweepCell> cells; ///< canonical order: row, then prompt, then seed
    SweepTiming timing;
    BootstrapOptions bootstrap;

    /// Equal for two plans that give the same table from the same results. Machine paths do not enter it.
    /// \param ids  false: equal also for plans of one grid that was computed with different kernel sets
    [[nodiscard]] std::string digest(bool ids = true) const;
    /// Timing pairs of a cell; 0 beyond timing.prompts.
    [[nodiscard]] int32_t pairs(const SweepCell& cell) const {
        return cell.prompt < timing.prompts ? timing.pairs : 0;
    }
};

/// "3/8": every 8th of the distinct cells, from the 3rd.
struct SweepShard {
    int64_t index = 1, count = 1; ///< index from 1
};
/// Throws Error{bad_input} unless "i/n" with 1 <= i <= n <= 100000.
[[nodiscard]] SweepShard sweep_shard(const std::string& text);

/// Indices in plan.cells of the cells that are computed, in canonical order: of cells with one id only the first (rows
/// that differ in a name alone share their runs), of those every `count`-th.
[[nodiscard]] std::vector<size_t> cells_of(const SweepPlan& plan, const SweepShard& shard);

} // namespace refreshlab
