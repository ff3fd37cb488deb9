#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace refreshlab {

/// The stored weights of one model under their Hugging Face names, from a folder or a GGUF file.
/// Threads  reads may run concurrently.
class WeightStore {
public:
    WeightStore() = default;
    WeightStore(const WeightStore&) = delete;
    WeightStore& operator=(const WeightStore&) = delete;
    virtual ~WeightStore() = default;

    [[nodiscard]] virtual std::vector<std::string> names() const = 0;
    /// The file that holds a tensor; the main file for one that is not there. For messages.
    [[nodiscard]] virtual std::filesystem::path file_of(const std::string& name) const = 0;
    /// What that file calls it. For messages.
    [[nodiscard]] virtual std::string stored_name(const std::string& name) const { return name; }
    /// Refuses what read() would refuse, and reads no weight. Throws Error naming file and tensor: missing, another shape, a
    /// type that weights cannot have.
    virtual void check(const std::string& name, at::IntArrayRef shape) const = 0;
    /// On the CPU, contiguous, and not to be written to: it may be the mapped file itself, which then stays mapped as long as
    /// the tensor lives. A tensor of plain floats keeps its stored dtype. Quantised blocks become bf16
    /// where `wanted` is bf16, else fp32. Throws Error, naming file and tensor, when the tensor is missing or has
    /// another shape.
    [[nodiscard]] virtual at::Tensor read(const std::string& name, at::IntArrayRef shape,
                                          at::ScalarType wanted) const = 0;
    /// Whether read_blocks() has this tensor. Looks at no weight.
    [[nodiscard]] virtual bool stays_in_blocks(const std::string& name, at::IntArrayRef shape) const {
        (void)name;
        (void)shape;
        return false;
    }
    /// A matrix packed for kernels/blocks/blocks.h; undefined where the file has no such blocks. Throws as read().
    [[nodiscard]] virtual at::Tensor read_blocks(const std::string& name, at::IntArrayRef shape) const {
        (void)name;
        (void)shape;
        return {};
    }
    /// Bytes of one tensor in the file; 0 for one that is not there.
    [[nodiscard]] virtual int64_t stored_bytes(const std::string& name) const = 0;
    [[nodiscard]] virtual int64_t total_bytes() const = 0;
    /// The element types that occur, most bytes first: "Q4_1, Q8_0, F32".
    [[nodiscard]] virtual std::string stored_types() const = 0;
};

/// "A, B" of bytes by type, most bytes first.
[[nodiscard]] std::string types_by_bytes(const std::vector<std::pair<std::string, int64_t>>& bytes);

} // namespace refreshlab
