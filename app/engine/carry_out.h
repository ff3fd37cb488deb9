#pragma once

#include "app/options/engine_module.h"

namespace refreshlab::app {

// What the commands do that need models; the members of EngineModule with the same parameters. Options are defined in app/cli.
[[nodiscard]] int carry_out(const RunCommandOptions& options);
[[nodiscard]] int carry_out(const DoctorOptions& options);
[[nodiscard]] int carry_out(const DeriveOptions& options);
[[nodiscard]] int carry_out(const CheckOptions& options);
[[nodiscard]] int carry_out(const BenchCommandOptions& options, const EngineModule::DrawBench& draw);
[[nodiscard]] int carry_out(const LandscapeCommandOptions& options);
[[nodiscard]] int carry_out(const SweepCommandOptions& options);
[[nodiscard]] int carry_out(const ScopeCommandOptions& options);
[[nodiscard]] int carry_out(const ScoreCommandOptions& options);
[[nodiscard]] int carry_out(const StudyCommandOptions& options);
[[nodiscard]] int carry_out(const TrainGateOptions& options);
[[nodiscard]] int carry_out(const TrainHealOptions& options);
[[nodiscard]] int carry_out(const TrainStudentOptions& options);
[[nodiscard]] int carry_out(const TrainTeacherOptions& options);
[[nodiscard]] int carry_out(const TrainPruneOptions& options);
[[nodiscard]] int carry_out(const TrainEvalOptions& options);
[[nodiscard]] int carry_out(const TrainBridgeOptions& options);
[[nodiscard]] int carry_out(const ProfileOptions& options);

} // namespace refreshlab::app
