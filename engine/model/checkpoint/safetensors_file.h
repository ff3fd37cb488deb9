#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

/// A safetensors file that is no checkpoint: tensors of any stored type, with text beside them. Its header is checked whole, as
/// that of a checkpoint (safetensors_header.h).
/// Threads  reads may run concurrently. The file must not shrink while the object lives (it is mapped).
class SafetensorsFile {
public:
    /// Throws Error{bad_input} naming the file: missing, no safetensors file, truncated.
    explicit SafetensorsFile(std::filesystem::path path);
    SafetensorsFile(SafetensorsFile&&) noexcept;
    SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
    ~SafetensorsFile();

    [[nodiscard]] const std::filesystem::path& path() const;
    /// What the header says beside the tensors, text by text.
    [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
    /// Of a tensor; empty where there is none of that name, or it is a scalar.
    [[nodiscard]] std::vector<int64_t> shape(const std::string& name) const;
    /// A copy on the CPU. Throws Error{bad_input} naming file and tensor: missing, another shape or type.
    [[nodiscard]] at::Tensor read(const std::string& name, at::IntArrayRef shape, at::ScalarType type) const;

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

struct NamedTensor {
    std::string name;
    at::Tensor tensor; ///< f32, bf16, f16, i32, i64 or u8; any device
};
/// Through a temporary file beside it, flushed and renamed: an older file stays until the new one is whole. Throws Error{failure}.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                       std::span<const NamedTensor> tensors);

} // namespace refreshlab
