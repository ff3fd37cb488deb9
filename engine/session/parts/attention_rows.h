#pragma once

#include "engine/record/recording/step_record.h"

#include <cstdint>
#include <memory>

namespace refreshlab {

class AttentionCapture;

/// What a forward captured, as the recording keeps it (IEEE half).
[[nodiscard]] std::shared_ptr<const AttentionRows>
make_attention_rows(const AttentionCapture& capture, int64_t position, int64_t step, bool teacher);

} // namespace refreshlab
