#include "engine/model/checkpoint/safetensors_header.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace refreshlab {

namespace {

using nlohmann::json;

[[noreturn]] void fail(const std::string& file, const std::string& problem, const std::string& hint = {}) {
    throw Error("reading", file, problem, hint);
}

constexpr std::array<StoredDtype, 17> stored_dtypes = {{
    {"F64", 8, at::kDouble},
    {"F32", 4, at::kFloat},
    {"BF16", 2, at::kBFloat16},
    {"F16", 2, at::kHalf},
    {"I64", 8, std::nullopt},
    {"U64", 8, std::nullopt},
    {"C64", 8, std::nullopt},
    {"I32", 4, std::nullopt},
    {"U32", 4, std::nullopt},
    {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},
    {"I8", 1, std::nullopt},
    {"U8", 1, std::nullopt},
    {"BOOL", 1, std::nullopt},
    {"F8_E4M3", 1, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
}};

std::optional<uint64_t> as_size(const json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned()) return value.get<uint64_t>();
    const auto number = value.get<int64_t>();
    return number < 0 ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(number));
}

StoredTensor parse_entry(const std::string& file, const std::string& name, const json& object,
                         uint64_t data_size) {
    if (!object.is_object()) fail_tensor(file, name, "its entry must be an object");
    const auto member = [&](const char* key) -> const json& {
        const auto it = object.find(key);
        if (it == object.end()) fail_tensor(file, name, std::string(key) + " is missing");
        return *it;
    };
    StoredTensor entry;
    const json& dtype = member("dtype");
    if (!dtype.is_string()) fail_tensor(file, name, "dtype must be a string");
    const auto& dtype_name = dtype.get_ref<const std::string&>();
    const auto* known = std::find_if(stored_dtypes.begin(), stored_dtypes.end(),
                                     [&](const StoredDtype& d) { return d.name == dtype_name; });
    if (known == stored_dtypes.end()) {
        fail_tensor(file, name, fmt::format("dtype {} is not supported", quoted_name(dtype_name)));
    }
    entry.dtype = known;

    const json& shape = member("shape");
    constexpr size_t max_dimensions = 16;
    if (!shape.is_array() || shape.size() > max_dimensions) {
        fail_tensor(file, name, fmt::format("shape must be a list of at most {} sizes", max_dimensions));
    }
    constexpr auto max_bytes = static_cast<uint64_t>(INT64_MAX);
    uint64_t bytes = entry.dtype->bytes;
    for (const json& dimension : shape) {
        const auto size = as_size(dimension);
        if (!size) fail_tensor(file, name, "shape must hold sizes of 0 or more");
        if (*size > max_bytes || __builtin_mul_overflow(bytes, *size, &bytes) || bytes > max_bytes) {
            fail_tensor(file, name, "shape is absurdly large");
        }
        entry.shape.push_back(static_cast<int64_t>(*size));
    }
    const json& offsets = member("data_offsets");
    if (!offsets.is_array() || offsets.size() != 2)
        fail_tensor(file, name, "data_offsets must be two numbers");
    const auto begin = as_size(offsets[0]);
    const auto end = as_size(offsets[1]);
    if (!begin || !end || *begin > *end) fail_tensor(file, name, "data_offsets must be two ascending sizes");
    if (*end > data_size) {
        fail_tensor(file, name,
                    fmt::format("data_offsets end at byte {}, the file's data at byte {}; is the file "
                                "truncated?",
                                *end, data_size));
    }
    if (*end - *begin != bytes) {
        fail_tensor(file, name,
                    fmt::format("data_offsets span {} bytes, shape and dtype need {}", *end - *begin, bytes));
    }
    entry.begin = *begin;
    entry.end = *end;
    return entry;
}

std::map<std::string, std::string> parse_metadata(const std::string& file, const json& value) {
    const bool good = value.is_object() && std::all_of(value.begin(), value.end(),
                                                       [](const json& item) { return item.is_string(); });
    if (!good) fail(file, "__metadata__ must map strings to strings");
    return value.get<std::map<std::string, std::string>>();
}

/// In order of their begin the ranges must follow each other without overlap or hole, from the first byte to the last.
void check_cover(const std::string& file, const std::map<std::string, StoredTensor>& tensors,
                 uint64_t data_size) {
    std::vector<std::pair<const std::string*, const StoredTensor*>> order;
    order.reserve(tensors.size());
    for (const auto& [name, entry] : tensors)
        order.emplace_back(&name, &entry);
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
    });
    uint64_t expected = 0;
    for (const auto& [name, entry] : order) {
        if (entry->begin < expected) {
            fail_tensor(file, *name,
                        fmt::format("its bytes from {} overlap another tensor's, which end at {}",
                                    entry->begin, expected));
        }
        if (entry->begin > expected) {
            fail_tensor(file, *name,
                        fmt::format("a hole of {} bytes lies before it", entry->begin - expected));
        }
        expected = entry->end;
    }
    if (expected != data_size) {
        fail(file, fmt::format("{} bytes after the last tensor belong to none", data_size - expected));
    }
}

} // namespace

std::string quoted_name(const std::string& name) {
    constexpr size_t longest = 100;
    return json(name.substr(0, longest)).dump(-1, ' ', true, json::error_handler_t::replace);
}

void fail_tensor(const std::string& file, const std::string& name, const std::string& problem) {
    // Names come from the file; a hostile one must not flood the message.
    fail(file, fmt::format("tensor {}: {}", quoted_name(name), problem));
}

SafetensorsHeader SafetensorsHeader::parse(std::span<const std::byte> bytes, const std::string& file) {
    constexpr uint64_t max_header = 100'000'000; // the limit of the reference implementation
    SafetensorsHeader result;
    uint64_t header_size = 0;
    if (bytes.size() < sizeof(header_size)) {
        fail(file, fmt::format("too short for a safetensors file ({} bytes)", bytes.size()),
             "is it truncated?");
    }
    std::memcpy(&header_size, bytes.data(), sizeof(header_size));
    if (header_size > max_header) {
        fail(file, fmt::format("header length {} is absurd (limit {})", header_size, max_header),
             "is this a safetensors file?");
    }
    if (header_size > bytes.size() - sizeof(header_size)) {
        fail(file,
             fmt::format("header length {} is beyond the end of the file ({} bytes)", header_size,
                         bytes.size()),
             "is it truncated?");
    }
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(header_size),
                                  header_size);
    if (header.empty() || header.front() != '{') fail(file, "its header is not a JSON object");
    const json object = parse_json(header, file);
    if (!object.is_object()) fail(file, "its header is not a JSON object");

    result.data_begin = sizeof(header_size) + header_size;
    const uint64_t data_size = bytes.size() - result.data_begin;
    for (const auto& [name, value] : object.items()) {
        if (name == "__metadata__") {
            result.metadata = parse_metadata(file, value);
            continue;
        }
        result.tensors.emplace(name, parse_entry(file, name, value, data_size));
    }
    check_cover(file, result.tensors, data_size);
    return result;
}

} // namespace refreshlab
