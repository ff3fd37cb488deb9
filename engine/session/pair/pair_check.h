#pragma once

#include "engine/control/derive/derive_spec.h"
#include "engine/control/engine_link.h"
#include "engine/model/model_config.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

class ModelSource;
class Tokenizer;

/// What must be equal before entries of one model may stand in the other's cache (reference/refresh.md, section 4,
/// "Geometry check"), side by side.
struct PairCheck {
    std::vector<PairFact> facts; ///< in the order of the reference; see control/engine_link.h
    bool same_tokenizer = true;  ///< false: the pair cannot run at all
    /// First field of the KV geometry that differs; set: rebuild mode.
    std::optional<std::string> geometry_difference;
    std::shared_ptr<const Tokenizer> tokenizer; ///< the student's
    ModelConfig teacher, student;
    /// Rows of logits that both have: the smaller vocabulary (paddings of one tokenizer's vocabulary may differ).
    [[nodiscard]] int64_t vocab_size() const { return std::min(teacher.vocab_size, student.vocab_size); }
};

/// Reads both models' configurations and tokenizers, no weights. Throws Error{bad_input} for what cannot be read.
[[nodiscard]] PairCheck check_pair(const ModelSource& teacher, const ModelSource& student);
/// The same of a student that is derived from the teacher: one tokenizer and one geometry by construction. Throws
/// Error{bad_input} as check_derive().
[[nodiscard]] PairCheck check_pair(const ModelSource& teacher, const DeriveSpec& student);
/// The same of folders or GGUF files, or of a student "derive:SPEC".
[[nodiscard]] PairCheck check_pair(const std::string& teacher, const std::string& student);

} // namespace refreshlab
