#pragma once

#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/checkpoint/weight_store.h"
#include "engine/model/model_config.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// Rows of a stored tensor.
struct StoredRows {
    std::string tensor;
    int64_t first = 0;
    std::vector<int64_t> shape; ///< of the tensor
};

/// Where a weight stands in a checkpoint of its family, under Hugging Face names: a tensor of its own, or rows of one that holds q, k and v or
/// gate and up (ModelConfig::fused_projections).
[[nodiscard]] StoredRows stored_rows(const ModelConfig& config, const WeightPlace& place);

/// The weights of a checkpoint whose projections are fused, as weights of their own. Rows are views of what the checkpoint gives.
/// Threads  as the checkpoint's.
class FusedWeights final : public WeightStore {
public:
    FusedWeights(std::unique_ptr<WeightStore> stored, const ModelConfig& config);

    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] std::filesystem::path file_of(const std::string& name) const override;
    [[nodiscard]] std::string stored_name(const std::string& name) const override;
    void check(const std::string& name, at::IntArrayRef shape) const override;
    [[nodiscard]] at::Tensor read(const std::string& name, at::IntArrayRef shape,
                                  at::ScalarType wanted) const override;
    [[nodiscard]] int64_t stored_bytes(const std::string& name) const override;
    [[nodiscard]] int64_t total_bytes() const override;
    [[nodiscard]] std::string stored_types() const override;

private:
    struct Part {
        StoredRows rows;
        int64_t count = 0;
    };
    [[nodiscard]] const Part* part_of(const std::string& name) const;

    std::unique_ptr<WeightStore> m_stored;
    std::map<std::string, Part> m_parts; ///< by name; what has a tensor of its own is not here
};

} // namespace refreshlab
