#include "engine/session/parts/attention_rows.h"

#include "engine/model/forward/captures.h"
#include "kernels/ops/probabilities.h"

#include <span>

namespace refreshlab {

std::shared_ptr<const AttentionRows> make_attention_rows(const AttentionCapture& capture, int64_t position,
                                                         int64_t step, bool teacher) {
    auto rows = std::make_shared<AttentionRows>();
    rows->position = position;
    rows->step = step;
    rows->teacher = teacher;
    rows->heads = capture.heads();
    rows->keys = position + 1;
    rows->layers = capture.layers();
    const auto each = static_cast<size_t>(rows->heads * rows->keys);
    rows->weights.resize(rows->layers.size() * each);
    for (size_t i = 0; i < rows->layers.size(); ++i)
        kernels::to_half(capture.row(i), std::span(rows->weights).subspan(i * each, each));
    return rows;
}

} // namespace refreshlab
