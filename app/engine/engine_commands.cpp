#include "app/base/build_commit.h"
#include "app/engine/carry_out.h"
#include "engine/base/error.h"
#include "engine/session/decode/run_identity.h"
#include "engine/session/pair/pair_check.h"
#include "engine/session/worker/session_worker.h"
#include "kernels/shared/device_failure.h"

#include <c10/util/Exception.h>

#include <memory>

namespace refreshlab::app {

namespace {

/// The program knows no libtorch and no device, so none of their exceptions gets there.
template <class Call>
auto without_torch_errors(const Call& call) {
    try {
        return call();
    } catch (const c10::Error& e) {
        throw Error("computing", {},
                    std::string("the device or libtorch failed: ") + e.what_without_backtrace(), {},
                    ErrorKind::failure);
    } catch (const kernels::DeviceFailure& e) {
        throw Error("computing", {}, std::string("the device failed: ") + e.what(), {}, ErrorKind::failure);
    }
}

class EngineCommands final : public EngineModule {
public:
    EngineCommands() { set_program_commit(build_commit()); } // every run of this process says it

    [[nodiscard]] int carry_out(const RunCommandOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const DoctorOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const DeriveOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const CheckOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const BenchCommandOptions& options, const DrawBench& draw) const override {
        return begin(options, draw);
    }
    [[nodiscard]] int carry_out(const LandscapeCommandOptions& options) const override {
        return begin(options);
    }
    [[nodiscard]] int carry_out(const SweepCommandOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const ScopeCommandOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const ScoreCommandOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const StudyCommandOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainGateOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainHealOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainStudentOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainTeacherOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainPruneOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainEvalOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const TrainBridgeOptions& options) const override { return begin(options); }
    [[nodiscard]] int carry_out(const ProfileOptions& options) const override { return begin(options); }

    [[nodiscard]] std::unique_ptr<EngineLink>
    make_engine(const std::optional<std::filesystem::path>& record) const override {
        return without_torch_errors(
            [&]() -> std::unique_ptr<EngineLink> { return std::make_unique<SessionWorker>(record); });
    }
    [[nodiscard]] bool same_tokenizer(const std::string& teacher, const std::string& student) const override {
        return without_torch_errors([&] { return check_pair(teacher, student).same_tokenizer; });
    }

private:
    template <class... Parts>
    static int begin(const Parts&... parts) {
        return without_torch_errors([&] { return app::carry_out(parts...); });
    }
};

} // namespace

const EngineModule& engine_module() {
    static const EngineCommands commands;
    return commands;
}

} // namespace refreshlab::app
