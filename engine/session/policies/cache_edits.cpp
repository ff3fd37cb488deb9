#include "engine/session/policies/cache_edits.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"

#include <ATen/ops/tensor.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace refreshlab {

namespace {

/// One half of what KvCache::read() gives, as floats.
std::vector<float> floats_of(const KvCache& cache, int64_t layer, int64_t kv_head,
                             std::span<const int64_t> positions, int64_t half) {
    const at::Tensor rows = cache.read(layer, kv_head, positions)[half].to(at::kFloat).contiguous();
    const float* data = rows.const_data_ptr<float>();
    return {data, data + rows.numel()};
}

} // namespace

std::span<const int64_t> CacheEdits::held(int64_t layer, int64_t kv_head) const {
    return m_cache.held(layer, kv_head);
}
std::vector<float> CacheEdits::keys(int64_t layer, int64_t kv_head,
                                    std::span<const int64_t> positions) const {
    return floats_of(m_cache, layer, kv_head, positions, 0);
}
std::vector<float> CacheEdits::values(int64_t layer, int64_t kv_head,
                                      std::span<const int64_t> positions) const {
    return floats_of(m_cache, layer, kv_head, positions, 1);
}
void CacheEdits::evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    m_cache.evict(layer, kv_head, positions, m_step);
}
void CacheEdits::merge_away(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    m_cache.evict(layer, kv_head, positions, m_step, CacheChange::merged);
}
at::Tensor CacheEdits::changed(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                               std::span<const float> keys, std::span<const float> values) const {
    at::Tensor rows = m_cache.read(layer, kv_head, positions);
    const auto put = [&](int64_t half, std::span<const float> of) {
        if (of.empty()) return;
        RL_ASSERT(std::ssize(of) == rows[half].numel());
        rows[half].copy_(at::tensor(at::ArrayRef<float>(of.data(), of.size())).view(rows[half].sizes()));
    };
    put(0, keys);
    put(1, values);
    return rows;
}
void CacheEdits::rewrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                         std::span<const float> keys, std::span<const float> values) {
    m_cache.overwrite(layer, kv_head, positions, changed(layer, kv_head, positions, keys, values), m_step);
}
void CacheEdits::merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                            std::span<const float> keys, std::span<const float> values) {
    m_cache.merge_into(layer, kv_head, positions, changed(layer, kv_head, positions, keys, values), m_step);
}
void CacheEdits::encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                        std::shared_ptr<const EntryCodec> codec) {
    m_cache.encode(layer, kv_head, half, positions, std::move(codec), m_step);
}

void CacheEdits::score(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                       std::span<const float> scores) {
    // What is chosen once, at the prompt, is told whether or not somebody looks already.
    if (m_scores != nullptr && (m_step == 0 || m_scores->asked()))
        m_scores->set(layer * m_cache.num_kv_heads() + kv_head, m_step, positions, scores);
}

PromptEdits::PromptEdits(int64_t layers, int64_t kv_heads, int64_t length)
    : m_kv_heads(kv_heads)
    , m_held(static_cast<size_t>(layers * kv_heads), std::vector<int64_t>(static_cast<size_t>(length))) {
    for (auto& positions : m_held)
        std::iota(positions.begin(), positions.end(), 0);
}

std::span<const int64_t> PromptEdits::held(int64_t layer, int64_t kv_head) const {
    return m_held[static_cast<size_t>(layer * m_kv_heads + kv_head)];
}
std::vector<float> PromptEdits::keys(int64_t layer, int64_t kv_head,
                                     std::span<const int64_t> positions) const {
    return floats_of(*m_source, layer, kv_head, positions, 0);
}
std::vector<float> PromptEdits::values(int64_t layer, int64_t kv_head,
                                       std::span<const int64_t> positions) const {
    return floats_of(*m_source, layer, kv_head, positions, 1);
}

void PromptEdits::take_away(Kind kind, int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    if (positions.empty()) return;
    auto& held = m_held[static_cast<size_t>(layer * m_kv_heads + kv_head)];
    const std::vector<int64_t> gone(positions.begin(), positions.end()); // `positions` may lie in `held`
    std::vector<int64_t> left;
    std::ranges::set_difference(held, gone, std::back_inserter(left));
    RL_ASSERT(left.size() + gone.size() == held.size());
    held = std::move(left);
    m_edits.push_back({kind, layer, kv_head, gone, {}, {}, {}});
}
void PromptEdits::evict(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    take_away(Kind::evicted, layer, kv_head, positions);
}
void PromptEdits::merge_away(int64_t layer, int64_t kv_head, std::span<const int64_t> positions) {
    take_away(Kind::merged, layer, kv_head, positions);
}
void PromptEdits::rewrite(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                          std::span<const float> keys, std::span<const float> values) {
    m_edits.push_back({Kind::rewritten,
                       layer,
                       kv_head,
                       {positions.begin(), positions.end()},
                       {keys.begin(), keys.end()},
                       {values.begin(), values.end()},
                       {}});
}
void PromptEdits::merge_into(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                             std::span<const float> keys, std::span<const float> values) {
    rewrite(layer, kv_head, positions, keys, values);
    m_edits.back().kind = Kind::merged_into;
}
void PromptEdits::encode(int64_t layer, int64_t kv_head, KvHalf half, std::span<const int64_t> positions,
                         std::shared_ptr<const EntryCodec> codec) {
    m_edits.push_back({Kind::encoded,
                       layer,
                       kv_head,
                       {positions.begin(), positions.end()},
                       {},
                       {},
                       std::move(codec),
                       half});
}

void PromptEdits::score(int64_t layer, int64_t kv_head, std::span<const int64_t> positions,
                        std::span<const float> scores) {
    Edit edit;
    edit.kind = Kind::scored;
    edit.layer = layer;
    edit.kv_head = kv_head;
    edit.positions.assign(positions.begin(), positions.end());
    edit.keys.assign(scores.begin(), scores.end());
    m_edits.push_back(std::move(edit));
}

void PromptEdits::apply(CacheEdits& cache) const {
    for (const Edit& edit : m_edits) {
        switch (edit.kind) {
        case Kind::evicted:
            cache.evict(edit.layer, edit.kv_head, edit.positions);
            break;
        case Kind::merged:
            cache.merge_away(edit.layer, edit.kv_head, edit.positions);
            break;
        case Kind::rewritten:
            cache.rewrite(edit.layer, edit.kv_head, edit.positions, edit.keys, edit.values);
            break;
        case Kind::merged_into:
            cache.merge_into(edit.layer, edit.kv_head, edit.positions, edit.keys, edit.values);
            break;
        case Kind::encoded:
            cache.encode(edit.layer, edit.kv_head, edit.half, edit.positions, edit.codec);
            break;
        case Kind::scored:
            cache.score(edit.layer, edit.kv_head, edit.positions, edit.keys);
            break;
        }
    }
}

} // namespace refreshlab
