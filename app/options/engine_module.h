#pragma once

#include "engine/control/engine_link.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace refreshlab::bench {
struct BenchReport;
}

namespace refreshlab::app {

struct BenchCommandOptions;
struct CheckOptions;
struct DeriveOptions;
struct DoctorOptions;
struct LandscapeCommandOptions;
struct RunCommandOptions;
struct ScopeCommandOptions;
struct ScoreCommandOptions;
struct StudyCommandOptions;
struct SweepCommandOptions;
struct TrainBridgeOptions;
struct TrainGateOptions;
struct TrainHealOptions;
struct TrainStudentOptions;
struct TrainTeacherOptions;
struct TrainEvalOptions;
struct TrainPruneOptions;
struct ProfileOptions;

/// All that the program asks of the engine. The engine with libtorch is a library of its own, which is loaded when a command needs it:
/// traces, figures and tables do without.
class EngineModule {
public:
    using DrawBench = std::function<void(const bench::BenchReport&, const std::string& folder)>;

    EngineModule() = default;
    EngineModule(const EngineModule&) = delete;
    EngineModule& operator=(const EngineModule&) = delete;
    virtual ~EngineModule() = default;

    /// Each carries a command out. Throws Error, InvariantError. \return the exit status
    [[nodiscard]] virtual int carry_out(const RunCommandOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const DoctorOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const DeriveOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const CheckOptions& options) const = 0;
    /// \param draw  makes the figures of --figures
    [[nodiscard]] virtual int carry_out(const BenchCommandOptions& options, const DrawBench& draw) const = 0;
    [[nodiscard]] virtual int carry_out(const LandscapeCommandOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const ScopeCommandOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const SweepCommandOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const ScoreCommandOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const StudyCommandOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainGateOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainHealOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainStudentOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainTeacherOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainPruneOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainEvalOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const TrainBridgeOptions& options) const = 0;
    [[nodiscard]] virtual int carry_out(const ProfileOptions& options) const = 0;

    /// The engine of a window. Throws Error{bad_input}: the trace cannot be written.
    /// \param record  trace that every run is recorded into
    [[nodiscard]] virtual std::unique_ptr<EngineLink>
    make_engine(const std::optional<std::filesystem::path>& record) const = 0;
    /// Whether two models have one vocabulary. Reads their configurations and tokenizers. Throws Error{bad_input}.
    [[nodiscard]] virtual bool same_tokenizer(const std::string& teacher,
                                              const std::string& student) const = 0;
};

/// The engine. The program loads it with the first call, some 0.15 s; within the engine's own library it is at hand. Safe to call from
/// several threads. Throws Error{failure}, each time, where the library or one that it needs is missing, of another version or cannot be
/// loaded.
[[nodiscard]] const EngineModule& engine_module();

} // namespace refreshlab::app
