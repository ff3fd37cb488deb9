#include "engine/model/checkpoint/safetensors_file.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/mapped_file.h"
#include "engine/model/checkpoint/safetensors_header.h"

#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

constexpr std::array<std::pair<std::string_view, at::ScalarType>, 6> stored_types = {{
    {"F32", at::kFloat},
    {"BF16", at::kBFloat16},
    {"F16", at::kHalf},
    {"I32", at::kInt},
    {"I64", at::kLong},
    {"U8", at::kByte},
}};

std::string_view stored_name_of(at::ScalarType type) {
    const auto* found =
        std::ranges::find(stored_types, type, &std::pair<std::string_view, at::ScalarType>::second);
    return found == stored_types.end() ? std::string_view() : found->first;
}

} // namespace

struct SafetensorsFile::Impl {
    explicit Impl(std::filesystem::path of)
        : path(std::move(of))
        , file(path)
        , header(SafetensorsHeader::parse(file.bytes(), path.string())) {}
    std::filesystem::path path;
    MappedFile file;
    SafetensorsHeader header;
};

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : m_impl(std::make_unique<Impl>(std::move(path))) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const std::filesystem::path& SafetensorsFile::path() const {
    return m_impl->path;
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
    return m_impl->header.metadata;
}

std::vector<int64_t> SafetensorsFile::shape(const std::string& name) const {
    const auto found = m_impl->header.tensors.find(name);
    return found == m_impl->header.tensors.end() ? std::vector<int64_t>() : found->second.shape;
}

at::Tensor SafetensorsFile::read(const std::string& name, at::IntArrayRef shape, at::ScalarType type) const {
    const std::string file = m_impl->path.string();
    const auto found = m_impl->header.tensors.find(name);
    if (found == m_impl->header.tensors.end()) fail_tensor(file, name, "missing");
    const StoredTensor& stored = found->second;
    if (stored.dtype->name != stored_name_of(type))
        fail_tensor(file, name,
                    fmt::format("its type is {}, not {}", stored.dtype->name, stored_name_of(type)));
    if (shape != at::IntArrayRef(stored.shape))
        fail_tensor(file, name,
                    fmt::format("its shape is [{}], not [{}]", fmt::join(stored.shape, ", "),
                                fmt::join(shape, ", ")));
    at::Tensor tensor = at::empty(shape, at::TensorOptions().dtype(type));
    const uint64_t bytes = stored.end - stored.begin;
    if (bytes > 0)
        std::memcpy(tensor.mutable_data_ptr(),
                    m_impl->file.bytes().data() + m_impl->header.data_begin + stored.begin, bytes);
    return tensor;
}

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                       std::span<const NamedTensor> tensors) {
    nlohmann::ordered_json header = {{"__metadata__", metadata}};
    size_t begin = 0;
    for (const NamedTensor& named : tensors) {
        const size_t end = begin + named.tensor.nbytes();
        header[named.name] = {{"dtype", stored_name_of(named.tensor.scalar_type())},
                              {"shape", named.tensor.sizes().vec()},
                              {"data_offsets", {begin, end}}};
        begin = end;
    }
    std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto length = static_cast<uint64_t>(text.size());
    std::string bytes(sizeof(length), '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    bytes.reserve(bytes.size() + text.size() + begin);
    bytes += text;
    for (const NamedTensor& named : tensors) {
        const at::Tensor here = named.tensor.to(at::kCPU).contiguous();
        bytes.append(static_cast<const char*>(here.const_data_ptr()), here.nbytes());
    }
    write_file(path, bytes);
}

} // namespace refreshlab
