#include "app/engine/carry_out.h"
#include "app/engine/model_training.h"
#include "app/engine/offline_model.h"
#include "app/options/train_student_options.h"
#include "engine/base/model_path.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/model_fingerprint.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab::app {

namespace {

constexpr const char* training_a_student = "training a student";

} // namespace

int carry_out(const TrainStudentOptions& options) {
    check_training_files(
        options,
        {{"--teacher", options.teacher}, {"--student", options.student}, {"--withhold", options.withhold}});
    const ReadingShares shares = shares_of(options, 0.25, 0.25);
    const std::optional<Almanac> withheld = withheld_facts(options);
    const OfflineModel offline(pair_to_train(options, options.teacher, options.student));
    const ModelPair& pair = offline.pair();
    require_one_geometry(training_a_student, pair);
    const auto source = source_of_student(pair);
    ModelTraining how = training_of(options, "student", 5e-4, *source);
    how.next_token = options.alone ? 1 : options.next_token;
    how.shares = shares;
    if (!options.alone) how.teacher = model_fingerprint(pair.teacher_dir);
    how.student = model_fingerprint(pair.student_dir) +
                  (is_derivation(pair.student_dir) ? model_fingerprint(pair.teacher_dir) : std::string());
    return train_model(
        options, how, pair, options.alone ? nullptr : pair.teacher.get(), *pair.student, *source,
        [&](const TrainedModel& trained) -> std::optional<Finding> {
            auto result = split_before_and_after(pair, trained);
            if (!result) return std::nullopt;
            return Finding{
                *std::move(result),
                fmt::format("# A student of {}\n\nAll weights of {} were trained {}. Both have licences "
                            "of their own, which hold for this folder too.\n",
                            model_name(pair.teacher_dir), shown_model(pair.student_dir),
                            options.alone ? "on texts alone, without a teacher"
                                          : "to read its teacher's cache and to give its rows") +
                    withheld_words(options)};
        },
        withheld);
}

} // namespace refreshlab::app
