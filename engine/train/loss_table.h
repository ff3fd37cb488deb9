#pragma once

#include "engine/study/studies/study_table.h"
#include "engine/train/trainer.h"

#include <string>
#include <vector>

namespace refreshlab {

/// The losses of a training as a table with its figure: means over so many steps that there are at most 500 rows.
/// \param parts  names of TrainingStep::parts
[[nodiscard]] StudyTable loss_table(const std::string& title, const std::vector<std::string>& parts,
                                    const std::vector<TrainingStep>& losses);

} // namespace refreshlab
