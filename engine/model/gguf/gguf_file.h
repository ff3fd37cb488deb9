#pragma once

#include "engine/model/gguf/gguf_types.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

class MappedFile;

/// Value types of the metadata, numbered as in the file.
enum class GgufKind : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

/// A value of the metadata: where it stands in the file. Nothing is copied.
struct GgufValue {
    GgufKind kind = GgufKind::u8;
    GgufKind element = GgufKind::u8;  ///< of an array
    uint64_t count = 0;               ///< of an array
    std::span<const std::byte> bytes; ///< the number, the text itself, or the elements as they are stored
};

/// A tensor of the file: its shape as PyTorch says it (the file lists the contiguous axis first), and its blocks.
struct GgufTensor {
    std::string name;
    const GgufType* type = nullptr;
    std::vector<int64_t> shape;
    std::span<const std::byte> bytes;
};

/// A GGUF file (version 2 or 3, little-endian, not split), mapped read-only. Every field of its header is checked.
/// Lengths and counts are checked against the bytes that are left, before memory is taken for them. No key and no
/// tensor may occur twice. Tensors must follow each other up to the end of the file, as the format demands. Looks at no
/// weight.
///
/// Errors   Error{bad_input}, one line that names the file and the key or tensor.
/// Threads  reads may run concurrently. The file must not shrink while the object lives (it is mapped).
/// Source   gguf.md of ggml, and what ggml's own reader (src/gguf.cpp) accepts.
class GgufFile {
public:
    [[nodiscard]] static GgufFile open(const std::filesystem::path& path);
    /// The same for bytes, which must outlive the object. \param name  what they are, for messages
    [[nodiscard]] static GgufFile parse(std::span<const std::byte> bytes, const std::string& name);

    [[nodiscard]] const std::string& name() const { return m_name; }
    [[nodiscard]] uint64_t size_bytes() const { return m_bytes.size(); }
    [[nodiscard]] const std::map<std::string, GgufValue, std::less<>>& values() const { return m_values; }
    /// In the order of the file.
    [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return m_tensors; }
    [[nodiscard]] const GgufTensor* tensor(std::string_view name) const; ///< null: there is none

    // --- values by key; nothing where the key is absent, Error where it is of another kind or out of range ---
    [[nodiscard]] bool has(std::string_view key) const { return m_values.contains(key); }
    /// Whole numbers of any width alike.
    [[nodiscard]] std::optional<int64_t> integer(std::string_view key, int64_t low, int64_t high) const;
    /// Any number. An f32 gives the shortest decimal that rounds to it: 1e-5 rather than 9.99999975e-6. That is what
    /// the configuration said from which the file was made.
    [[nodiscard]] std::optional<double> number(std::string_view key, double low, double high) const;
    [[nodiscard]] std::optional<bool> flag(std::string_view key) const;
    [[nodiscard]] std::optional<std::string_view> text(std::string_view key) const; ///< well-formed UTF-8
    [[nodiscard]] std::optional<std::vector<std::string_view>> texts(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<int64_t>> integers(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;

    /// Throws Error{bad_input} "reading FILE: key KEY PROBLEM".
    [[noreturn]] void fail_key(std::string_view key, const std::string& problem,
                               const std::string& hint = {}) const;
    /// Throws Error{bad_input} "reading FILE: tensor NAME: PROBLEM".
    [[noreturn]] void fail_tensor(const std::string& tensor, const std::string& problem,
                                  const std::string& hint = {}) const;

private:
    GgufFile() = default;
    void read();
    [[nodiscard]] const GgufValue* find(std::string_view key) const;
    [[nodiscard]] const GgufValue* find_array(std::string_view key) const;

    std::shared_ptr<const MappedFile> m_mapped; ///< null: the bytes are somebody else's
    std::span<const std::byte> m_bytes;
    std::string m_name;
    std::map<std::string, GgufValue, std::less<>> m_values;
    std::vector<GgufTensor> m_tensors;
    std::map<std::string, size_t, std::less<>> m_places; ///< of the tensors, by name
};

} // namespace refreshlab
