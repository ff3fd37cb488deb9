#include "engine/train/text_loss.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace refreshlab {

at::Tensor next_token_loss(const at::Tensor& rows, const TrainingText& text, int64_t begin) {
    const int64_t told = std::ssize(text.ids) - begin - 1; // rows with a token after them
    at::Tensor next = at::empty({told, 1}, at::kLong);
    std::copy(text.ids.begin() + begin + 1, text.ids.end(), next.mutable_data_ptr<int64_t>());
    return -rows.narrow(0, 0, told).gather(1, next.to(rows.device())).mean();
}

TextLoss text_loss(const at::Tensor& model_rows, const at::Tensor& rows, const TrainingText& text,
                   int64_t begin) {
    return {(model_rows.exp() * (model_rows - rows)).sum(-1).mean(), next_token_loss(rows, text, begin)};
}

} // namespace refreshlab
