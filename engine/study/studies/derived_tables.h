#pragma once

#include "engine/study/measure/derived_reading.h"
#include "engine/study/studies/study_table.h"

#include <cstdint>
#include <string>
#include <vector>

namespace refreshlab {

/// All texts of one family, as one student reads them.
struct DerivedReadings {
    std::string family;                   ///< "answers", "passages"
    std::string student;                  ///< derive_name()
    std::vector<std::string> texts;       ///< names, for the figure
    std::vector<DerivedReading> readings; ///< one a text; not empty
};

/// Tables of the study of derived students; intervals are 95 % bootstrap intervals over texts, every text counts the same.
///   table     where the loss comes from, a row for each family and student, and what of the cache loss each way brings back. A share
///             is given where the interval of the cache loss lies above zero.
///   readings  NLL, KL, acceptance and same first choice of every way of reading
///   gate      the entropy gate beside as many refreshes at equal distances
/// The figure has every number of every text.
[[nodiscard]] StudyResult derived_tables(const std::vector<DerivedReadings>& all, uint64_t seed);

} // namespace refreshlab
