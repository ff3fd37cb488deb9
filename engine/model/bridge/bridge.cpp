#include "engine/model/bridge/bridge.h"

#include "engine/base/check.h"
#include "engine/cache/kv_cache.h"
#include "kernels/ops/dense.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

namespace refreshlab {

namespace {

constexpr int64_t rows_at_once = 256; ///< as a chunk of a prefill

/// [n, kv_heads, head_dim] turned by the angles of positions from `first` on, or back.
void turn(at::Tensor& keys, const LlamaModel& model, int64_t context, int64_t layer, int64_t first,
          bool back) {
    const Rope rope = model.config().rope(layer);
    if (rope == Rope::still) return;
    const auto [cos, sin] = model.rope_rows(rope, context, first, keys.size(0));
    kernels::rope_(keys, cos, back ? sin.neg() : sin);
    const double size = rope == Rope::global ? model.config().rope_scaling.attention_factor : 1;
    if (back && size != 1) keys.narrow(2, 0, 2 * cos.size(1)).div_(size * size);
}

} // namespace

std::string_view to_string(BridgeInputs inputs) {
    return inputs == BridgeInputs::both ? "both" : "own";
}

int64_t Bridge::bytes() const {
    int64_t sum = 0;
    for (const Layer& layer : layers)
        for (const auto* of : {&layer.key_weight, &layer.value_weight, &layer.key_bias, &layer.value_bias})
            sum += static_cast<int64_t>(of->nbytes());
    return sum;
}

Bridge Bridge::on(at::Device device) const {
    Bridge moved = *this;
    for (Layer& layer : moved.layers)
        for (auto* of : {&layer.key_weight, &layer.value_weight, &layer.key_bias, &layer.value_bias})
            *of = of->to(device);
    return moved;
}

EntryRows entry_rows(const LlamaModel& model, const KvCache& cache, int64_t layer, int64_t first, int64_t n) {
    RL_ASSERT(cache.layout() == CacheLayout::dense && cache.head_dim() == model.config().head_dim);
    const auto rows =
        [&](const at::Tensor& storage) { // [kv_heads, capacity, head_dim]; a copy, which may be turned
            at::Tensor copy =
                at::empty({n, cache.num_kv_heads(), cache.head_dim()}, storage.options().dtype(at::kFloat));
            return copy.copy_(storage.narrow(1, first, n).transpose(0, 1));
        };
    at::Tensor keys = rows(cache.keys(layer));
    turn(keys, model, cache.context(), layer, first, true);
    return {keys.reshape({n, -1}), rows(cache.values(layer)).reshape({n, -1})};
}

EntryRows bridge_inputs(const Bridge& bridge, const Bridge::Layer& layer, const LlamaModel& teacher,
                        const KvCache& cache, int64_t first, int64_t n) {
    std::vector<at::Tensor> keys, values;
    for (const int64_t from : layer.from) {
        EntryRows rows = entry_rows(teacher, cache, from, first, n);
        keys.push_back(std::move(rows.keys));
        values.push_back(std::move(rows.values));
    }
    if (bridge.inputs == BridgeInputs::own) return {at::cat(keys, 1), at::cat(values, 1)};
    keys.insert(keys.end(), values.begin(), values.end());
    const at::Tensor all = at::cat(keys, 1);
    return {all, all};
}

BridgedCache::BridgedCache(const Bridge& bridge, const LlamaModel& teacher, const LlamaModel& student,
                           int64_t capacity)
    : m_bridge(bridge)
    , m_teacher(teacher)
    , m_student(student)
    , m_cache(student.make_cache(capacity)) {
    RL_ASSERT(std::ssize(bridge.layers) == student.config().num_layers);
}

void BridgedCache::follow(const KvCache& teacher) {
    const c10::InferenceMode guard;
    const at::Device device = m_cache->device();
    const int64_t heads = m_cache->num_kv_heads(), width = m_cache->head_dim();
    RL_ASSERT(m_cache->length() <= teacher.length());
    while (m_cache->length() < teacher.length()) {
        const int64_t first = m_cache->length();
        const auto origins = teacher.origins().subspan(
            static_cast<size_t>(first)); // runs of one origin, so that each keeps its own
        const auto end = std::ranges::find_if(origins, [&](Origin o) { return o != origins.front(); });
        const int64_t n = std::min<int64_t>(rows_at_once, end - origins.begin());
        for (int64_t l = 0; l < std::ssize(m_bridge.layers); ++l) {
            const Bridge::Layer& layer = m_bridge.layers[static_cast<size_t>(l)];
            const EntryRows in = bridge_inputs(m_bridge, layer, m_teacher, teacher, first, n);
            const auto mapped = [&](const at::Tensor& rows, const at::Tensor& weight,
                                    const at::Tensor& bias) {
                return kernels::linear(rows.to(device), weight, bias).view({n, heads, width});
            };
            at::Tensor keys = mapped(in.keys, layer.key_weight, layer.key_bias);
            turn(keys, m_student, m_cache->context(), l, first, false);
            m_cache->write(l, keys, mapped(in.values, layer.value_weight, layer.value_bias));
        }
        m_cache->commit(n, origins.front());
    }
}

void BridgedCache::truncate(int64_t length) {
    if (m_cache->length() > length) m_cache->truncate(length);
}

} // namespace refreshlab
