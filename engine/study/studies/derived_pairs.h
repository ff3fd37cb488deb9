#pragma once

#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"
#include "engine/study/studies/study_run.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// Options under which a study loads the teacher and makes its students by itself.
[[nodiscard]] StudyOptions teacher_alone(StudyOptions options);

/// Every `every`-th layer from `first` on, as a list of a derivation; a shallow model leaves out its middle layer.
[[nodiscard]] std::string layers_from(int64_t layers, int64_t first, int64_t every);

/// The students of a study of derivations as paths ("derive:SPEC"): the one that was asked for, else the study's. Reads the teacher's
/// configuration alone, so a derivation that does not fit is known before minutes of work.
/// \param usual  derivations for a teacher with so many layers; one that does not fit this teacher is left out
/// \param notes  gets what was left out
/// Throws Error{bad_input}: a student that is no derivation, or one that does not fit.
[[nodiscard]] std::vector<std::string>
derived_students(const StudyOptions& options,
                 const std::function<std::vector<std::string>(int64_t layers)>& usual,
                 std::vector<std::string>& notes);

/// The teacher with a student of its weights. One that measures on a prompt measures on this one. Throws as load_models().
/// \param teacher    outlives the pair
/// \param execution  null: that of the configuration
[[nodiscard]] std::shared_ptr<const ModelPair> derived_pair(const ModelPair& teacher, RunConfig config,
                                                            const std::string& student,
                                                            const std::vector<int32_t>& prompt,
                                                            const std::vector<int32_t>& text,
                                                            const Execution& execution = {});

} // namespace refreshlab
