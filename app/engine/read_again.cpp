#include "app/engine/read_again.h"

#include "app/base/output.h"
#include "engine/control/derive/derive_spec.h"

namespace refreshlab::app {

RunConfig config_to_read(const Recording& run, const ReadAgain& with, const std::string& advice) {
    RunConfig config = run.info().config;
    if (!with.teacher.empty()) config.teacher_dir = with.teacher;
    if (!with.student.empty()) config.student_dir = settled_model(with.student);
    if (!with.teacher.empty() || !with.student.empty())
        config.bridge.digest.clear(); // that of the pair before
    if (!with.device.empty()) {
        config.device = with.device;
        config.teacher_device.clear();
        config.student_device.clear();
    }
    if (config.mode != Mode::teacher && !config.reads_given())
        say("note: run {} was written by the student, and its text is likeliest under the cache that it was "
            "written with: {}\n",
            run.info().id, advice);
    config.mode = Mode::overfill;
    config.kernels = KernelSet::automatic;
    return config;
}

std::shared_ptr<const RunText> text_to_read(const Recording& run) {
    const RunInfo& info = run.info();
    return std::make_shared<const RunText>(
        RunText{{info.rendered_prompt, info.prompt_ids, 0}, run.token_ids()});
}

} // namespace refreshlab::app
