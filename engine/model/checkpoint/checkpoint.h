#pragma once

#include "engine/model/checkpoint/weight_store.h"

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// The safetensors files of a checkpoint folder (one file, or an index with shards), mapped read-only. Every header
/// field is checked before it is used (engine/model/checkpoint/safetensors_header.h). Errors name file and tensor.
/// model.safetensors wins over an index beside it, as in transformers. Shard names must be plain file names.
/// Threads  reads may run concurrently. The files must not shrink while the object lives (they are mapped).
class Checkpoint final : public WeightStore {
public:
    [[nodiscard]] static Checkpoint open(const std::filesystem::path& folder);
    Checkpoint(Checkpoint&&) noexcept;
    Checkpoint& operator=(Checkpoint&&) noexcept;
    ~Checkpoint() override;

    [[nodiscard]] bool contains(const std::string& name) const;
    [[nodiscard]] std::vector<std::string> names() const override;
    [[nodiscard]] std::filesystem::path file_of(const std::string& name) const override;
    void check(const std::string& name, at::IntArrayRef shape) const override;
    /// A copy on the CPU that is the caller's own, in the stored dtype (f64, f32, bf16, f16). Throws Error, naming file and tensor, when the
    /// tensor is missing or has another shape.
    [[nodiscard]] at::Tensor read(const std::string& name, at::IntArrayRef shape) const;
    [[nodiscard]] at::Tensor read(const std::string& name, at::IntArrayRef shape,
                                  at::ScalarType wanted) const override;
    [[nodiscard]] int64_t stored_bytes(const std::string& name) const override;
    [[nodiscard]] int64_t total_bytes() const override;
    [[nodiscard]] std::string stored_types() const override;

private:
    struct Impl;
    explicit Checkpoint(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
