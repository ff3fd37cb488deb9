#include "engine/model/checkpoint/fused_weights.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

constexpr std::string_view fused_names[] = {"self_attn.qkv_proj.weight", "mlp.gate_up_proj.weight"};

} // namespace

StoredRows stored_rows(const ModelConfig& config, const WeightPlace& place) {
    StoredRows own{place.name, 0, place.stored};
    if (!config.fused_projections || place.layer < 0) return own;
    const int64_t q = config.num_heads * config.head_dim, kv = config.num_kv_heads * config.head_dim;
    const auto rows = [&](std::string_view part, std::string_view fused, int64_t first, int64_t all) {
        if (!place.name.ends_with(part)) return false;
        const size_t stem = place.name.size() - part.size();
        own = {place.name.substr(0, stem) + std::string(fused), first, {all, config.hidden_size}};
        return true;
    };
    static_cast<void>(
        rows("self_attn.q_proj.weight", fused_names[0], 0, q + 2 * kv) ||
        rows("self_attn.k_proj.weight", fused_names[0], q, q + 2 * kv) ||
        rows("self_attn.v_proj.weight", fused_names[0], q + kv, q + 2 * kv) ||
        rows("mlp.gate_proj.weight", fused_names[1], 0, 2 * config.intermediate_size) ||
        rows("mlp.up_proj.weight", fused_names[1], config.intermediate_size, 2 * config.intermediate_size));
    return own;
}

FusedWeights::FusedWeights(std::unique_ptr<WeightStore> stored, const ModelConfig& config)
    : m_stored(std::move(stored)) {
    LlamaWeights{}.visit(config, [&](const WeightPlace& place, const at::Tensor&) {
        StoredRows rows = stored_rows(config, place);
        if (rows.tensor != place.name) m_parts.emplace(place.name, Part{std::move(rows), place.stored[0]});
    });
}

const FusedWeights::Part* FusedWeights::part_of(const std::string& name) const {
    const auto found = m_parts.find(name);
    return found == m_parts.end() ? nullptr : &found->second;
}

std::vector<std::string> FusedWeights::names() const {
    std::map<std::string, std::vector<std::string>> parts; // of a stored tensor
    for (const auto& [name, part] : m_parts)
        parts[part.rows.tensor].push_back(name);
    std::vector<std::string> result;
    for (const std::string& name : m_stored->names()) {
        const auto found = parts.find(name);
        if (found == parts.end())
            result.push_back(name);
        else
            result.insert(result.end(), found->second.begin(), found->second.end());
    }
    std::ranges::sort(result);
    return result;
}

std::filesystem::path FusedWeights::file_of(const std::string& name) const {
    return m_stored->file_of(stored_name(name));
}

std::string FusedWeights::stored_name(const std::string& name) const {
    const Part* part = part_of(name);
    return part == nullptr ? m_stored->stored_name(name) : part->rows.tensor;
}

void FusedWeights::check(const std::string& name, at::IntArrayRef shape) const {
    const Part* part = part_of(name);
    if (part == nullptr)
        m_stored->check(name, shape);
    else
        m_stored->check(part->rows.tensor, part->rows.shape);
}

at::Tensor FusedWeights::read(const std::string& name, at::IntArrayRef shape, at::ScalarType wanted) const {
    const Part* part = part_of(name);
    if (part == nullptr) return m_stored->read(name, shape, wanted);
    return m_stored->read(part->rows.tensor, part->rows.shape, wanted)
        .narrow(0, part->rows.first, part->count);
}

int64_t FusedWeights::stored_bytes(const std::string& name) const {
    const Part* part = part_of(name);
    if (part == nullptr) return m_stored->stored_bytes(name);
    return m_stored->stored_bytes(part->rows.tensor) / part->rows.shape[0] * part->count;
}

int64_t FusedWeights::total_bytes() const {
    return m_stored->total_bytes();
}

std::string FusedWeights::stored_types() const {
    return m_stored->stored_types();
}

} // namespace refreshlab
