#include "engine/study/studies/derived_pairs.h"

#include "engine/base/error.h"
#include "engine/model/derive/derive_student.h"
#include "engine/model/model_source.h"
#include "engine/session/pair/run_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

namespace refreshlab {

StudyOptions teacher_alone(StudyOptions options) {
    options.base.mode = Mode::teacher;
    options.base.student_dir.clear();
    return options;
}

std::string layers_from(int64_t layers, int64_t first, int64_t every) {
    std::vector<int64_t> list;
    for (int64_t layer = first; layer < layers; layer += every)
        list.push_back(layer);
    if (list.empty()) list.push_back(layers / 2);
    return fmt::format("{}", fmt::join(list, "+"));
}

std::vector<std::string>
derived_students(const StudyOptions& options,
                 const std::function<std::vector<std::string>(int64_t layers)>& usual,
                 std::vector<std::string>& notes) {
    if (options.student_given && !is_derivation(options.base.student_dir))
        throw Error("starting a study", options.base.student_dir,
                    "the students of this study are made of the teacher",
                    "give --student derive:SPEC, or leave it out");
    const ModelShape shape = shape_of(ModelSource::open(options.base.teacher_dir)->config());
    if (options.student_given) {
        check_derive(derivation_of(options.base.student_dir), &shape);
        return {options.base.student_dir};
    }
    std::vector<std::string> students;
    for (const std::string& text : usual(shape.layers)) {
        const DeriveSpec spec = parse_derive(text);
        if (const auto fault = derive_fault(spec, &shape)) {
            notes.push_back(
                fmt::format("{} is left out: {} {}", derive_name(spec), fault->field, fault->problem));
        } else {
            students.push_back(derivation_path(spec));
        }
    }
    return students;
}

std::shared_ptr<const ModelPair> derived_pair(const ModelPair& teacher, RunConfig config,
                                              const std::string& student, const std::vector<int32_t>& prompt,
                                              const std::vector<int32_t>& text, const Execution& execution) {
    config.mode = Mode::overfill;
    config.student_dir = student;
    const auto known = std::make_shared<RunText>();
    known->prompt.ids = prompt;
    known->given = text;
    const std::shared_ptr<const ModelPair> loaded(std::shared_ptr<void>(), &teacher);
    PreparedRun run = prepare_run(config, loaded, device_memory_available, known);
    if (execution) run.execution = execution;
    require_memory(run.memory);
    load_models(run, config);
    return run.pair;
}

} // namespace refreshlab
