#include "engine/session/parts/attention_rows.h"

#include "engine/model/forward/captures.h"

#include <algorithm>

namespace refreshlab {

std::shared_ptr<const AttentionRows> make_attention_rows(const AttentionCapture& capture, int64_t position,
                                                         int64_t step, bool teacher) {
    auto rows = std::make_shared<AttentionRows>();
    rows->position = position;
    rows->step = step;
    rows->teacher = teacher;
    rows->heads = capture.rows().size(1);
    rows->keys = capture.rows().size(2);
    rows->layers = capture.layers();
    const at::Tensor dense = capture.rows().contiguous();
    const float* source = dense.const_data_ptr<float>();
    rows->weights.resize(static_cast<size_t>(dense.numel()));
    std::transform(source, source + dense.numel(), rows->weights.begin(), float_to_half);
    return rows;
}

} // namespace refreshlab
