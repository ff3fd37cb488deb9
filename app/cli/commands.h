#pragma once

#include <CLI/CLI.hpp>

#include <functional>

namespace refreshlab::app {

/// A subcommand registers its options and returns what to run when it was chosen; the result is the exit status.
using Command = std::function<int()>;
[[nodiscard]] Command add_run_command(CLI::App& app);
[[nodiscard]] Command add_export_command(CLI::App& app);
[[nodiscard]] Command add_note_command(CLI::App& app);
[[nodiscard]] Command add_info_command(CLI::App& app);
[[nodiscard]] Command add_doctor_command(CLI::App& app);
[[nodiscard]] Command add_serve_command(CLI::App& app);
[[nodiscard]] Command add_sweep_command(CLI::App& app);
[[nodiscard]] Command add_merge_command(CLI::App& app);
[[nodiscard]] Command add_scope_command(CLI::App& app);
[[nodiscard]] Command add_score_command(CLI::App& app);
[[nodiscard]] Command add_study_command(CLI::App& app);
[[nodiscard]] Command add_landscape_command(CLI::App& app);
[[nodiscard]] Command add_fit_gate_command(CLI::App& app);
[[nodiscard]] Command add_check_command(CLI::App& app);
[[nodiscard]] Command add_bench_command(CLI::App& app);
[[nodiscard]] Command add_models_command(CLI::App& app);
[[nodiscard]] Command add_policies_command(CLI::App& app);
[[nodiscard]] Command add_derive_command(CLI::App& app);
[[nodiscard]] Command add_train_gate_command(CLI::App& app);
[[nodiscard]] Command add_train_command(CLI::App& app);
[[nodiscard]] Command add_profile_command(CLI::App& app);
[[nodiscard]] Command
add_figure_command(CLI::App& app); ///< in a build without the window it says so and fails
[[nodiscard]] Command
add_report_command(CLI::App& app);                    ///< in a build without the window it says so and fails
[[nodiscard]] Command add_gui_command(CLI::App& app); ///< in a build without the window it says so and fails

} // namespace refreshlab::app
