#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Element type of a stored tensor.
struct StoredDtype {
    std::string_view name; ///< as in the file: "BF16"
    uint64_t bytes;
    std::optional<at::ScalarType> type; ///< nothing: part of the format, but no weight of a model that we run
};

/// One tensor of a safetensors file.
struct StoredTensor {
    const StoredDtype* dtype = nullptr;
    std::vector<int64_t> shape;
    uint64_t begin = 0,
             end = 0; ///< bytes, from the start of the data part; end - begin = elements * dtype->bytes
};

/// The table of contents of a safetensors file: 8 bytes length (little-endian), that many bytes of JSON, data.
struct SafetensorsHeader {
    std::map<std::string, StoredTensor> tensors;
    std::map<std::string, std::string> metadata; ///< of __metadata__
    uint64_t data_begin = 0;                     ///< first byte of the data part in the file

    /// Reads the header of a whole file and checks all of it: the length against the file, JSON, dtypes, shapes against
    /// byte ranges; the ranges follow each other without overlap or hole and end with the file. Looks at no data byte.
    /// \param file  what the bytes are, for messages. Throws Error{bad_input} naming it and the tensor.
    /// Source: safetensors format description.
    [[nodiscard]] static SafetensorsHeader parse(std::span<const std::byte> bytes, const std::string& file);
};

/// Throws Error{bad_input} "reading FILE: tensor NAME: problem"; long and unprintable names are cut and escaped.
[[noreturn]] void fail_tensor(const std::string& file, const std::string& name, const std::string& problem);

/// A name of a file as part of a message: at most 100 bytes, escaped, in quotation marks.
[[nodiscard]] std::string quoted_name(const std::string& name);

} // namespace refreshlab
