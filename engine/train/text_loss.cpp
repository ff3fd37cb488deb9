#include "engine/train/text_loss.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace refreshlab {

namespace {

template <class T>
at::Tensor tensor_of(const std::vector<T>& numbers, const at::Tensor& like) {
    return at::tensor(numbers).to(like.device());
}

/// -sum of share * log p of each target's row, in nats.
at::Tensor cross_entropies(const at::Tensor& rows, const RowTargets& targets) {
    std::vector<int64_t> places, of;
    std::vector<float> shares;
    for (size_t i = 0; i < targets.rows.size(); ++i) {
        const TokenShares& target = *targets.shares[i];
        for (const int32_t id : target.ids)
            places.push_back(targets.rows[i] * rows.size(1) + id);
        of.insert(of.end(), target.ids.size(), static_cast<int64_t>(i));
        shares.insert(shares.end(), target.shares.begin(), target.shares.end());
    }
    const at::Tensor terms =
        rows.reshape({-1}).index_select(0, tensor_of(places, rows)) * tensor_of(shares, rows);
    return at::zeros({std::ssize(targets.rows)}, terms.options().requires_grad(false))
        .index_add(0, tensor_of(of, rows), -terms);
}

at::Tensor entropies(const RowTargets& targets, const at::Tensor& like) {
    std::vector<float> entropies;
    for (const auto& target : targets.shares) {
        double sum = 0;
        for (const float share : target->shares)
            sum -= static_cast<double>(share) * std::log(static_cast<double>(share));
        entropies.push_back(static_cast<float>(sum));
    }
    return tensor_of(entropies, like);
}

/// Losses of rows, with those of the targets in their places.
at::Tensor replaced(const at::Tensor& losses, const RowTargets& targets, const at::Tensor& of_targets) {
    return losses.index_copy(0, tensor_of(targets.rows, losses), of_targets);
}

} // namespace

at::Tensor next_token_loss(const at::Tensor& rows, const TrainingText& text, int64_t begin,
                           const RowTargets& targets) {
    const int64_t told = std::ssize(text.ids) - begin - 1; // rows with a token after them
    at::Tensor next = at::empty({told, 1}, at::kLong);
    std::copy(text.ids.begin() + begin + 1, text.ids.end(), next.mutable_data_ptr<int64_t>());
    at::Tensor losses = -rows.narrow(0, 0, told).gather(1, next.to(rows.device()));
    if (!targets.rows.empty()) losses = replaced(losses.squeeze(1), targets, cross_entropies(rows, targets));
    return losses.mean();
}

TextLoss text_loss(const at::Tensor& model_rows, const at::Tensor& rows, const TrainingText& text,
                   int64_t begin, const RowTargets& targets) {
    at::Tensor kl = (model_rows.exp() * (model_rows - rows)).sum(-1);
    if (!targets.rows.empty())
        kl = replaced(kl, targets, cross_entropies(rows, targets) - entropies(targets, kl));
    return {kl.mean(), next_token_loss(rows, text, begin, targets)};
}

} // namespace refreshlab
