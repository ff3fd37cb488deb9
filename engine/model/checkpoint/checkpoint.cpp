#include "engine/model/checkpoint/checkpoint.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/mapped_file.h"
#include "engine/model/checkpoint/safetensors_header.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/ScalarType.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>
#include <utility>

namespace refreshlab {

namespace {

using nlohmann::json;
static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and copied as it is");

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& problem,
                       const std::string& hint = {}) {
    throw Error("reading", file.string(), problem, hint);
}

/// One safetensors file: every byte of its data belongs to one tensor.
class Shard : public std::enable_shared_from_this<Shard> {
public:
    explicit Shard(std::filesystem::path path)
        : m_path(std::move(path))
        , m_file(m_path)
        , m_header(SafetensorsHeader::parse(m_file.bytes(), m_path.string())) {}

    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
    [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return m_header.tensors; }
    [[nodiscard]] const std::byte* data(const StoredTensor& tensor) const {
        return m_file.bytes().data() + m_header.data_begin + tensor.begin;
    }

private:
    std::filesystem::path m_path;
    MappedFile m_file;
    SafetensorsHeader m_header;
};

/// Shards are named by the index file, i.e. by whoever made the download: only plain file names of this folder.
void check_shard_name(const std::filesystem::path& index, const std::string& name) {
    constexpr std::string_view suffix = ".safetensors";
    const bool plain = name.size() > suffix.size() && name.size() < 256 &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                       std::string_view(name).substr(name.size() - suffix.size()) == suffix;
    if (!plain) {
        fail(index, fmt::format("weight_map names {}, which is not a plain *.safetensors file name",
                                quoted_name(name)));
    }
}

} // namespace

struct Checkpoint::Impl {
    struct Location {
        const Shard* shard = nullptr;
        const StoredTensor* entry = nullptr;
    };
    std::filesystem::path main_file;                  ///< what a missing tensor is missing from
    std::vector<std::shared_ptr<const Shard>> shards; ///< views of their tensors own them too
    std::map<std::string, Location> tensors;
    int64_t total_bytes = 0;

    const Shard& add_shard(const std::filesystem::path& path) {
        return *shards.emplace_back(std::make_shared<const Shard>(path));
    }

    void add(const std::string& name, const Shard& shard, const StoredTensor& entry) {
        tensors.emplace(name, Location{&shard, &entry});
        total_bytes += static_cast<int64_t>(entry.end - entry.begin);
    }

    void open_index(const std::filesystem::path& folder, const std::filesystem::path& index) {
        const json object = read_json_file(index, size_t{256} << 20);
        const auto map = object.is_object() ? object.find("weight_map") : object.end();
        if (!object.is_object() || map == object.end() || !map->is_object() || map->empty()) {
            fail(index, "weight_map is missing or not an object");
        }
        std::map<std::string, const Shard*> opened;
        for (const auto& [name, file] : map->items()) {
            if (!file.is_string()) fail_tensor(index.string(), name, "its file must be a string");
            const auto& shard_name = file.get_ref<const std::string&>();
            auto it = opened.find(shard_name);
            if (it == opened.end()) {
                check_shard_name(index, shard_name);
                std::error_code ignored;
                if (!std::filesystem::exists(folder / shard_name, ignored)) {
                    fail(folder / shard_name, "the file is missing",
                         index.filename().string() + " names it; is the download complete?");
                }
                it = opened.emplace(shard_name, &add_shard(folder / shard_name)).first;
            }
            const Shard& shard = *it->second;
            const auto entry = shard.tensors().find(name);
            if (entry == shard.tensors().end()) {
                fail_tensor(shard.path().string(), name,
                            "missing, although " + index.filename().string() + " says it is here");
            }
            add(name, shard, entry->second);
        }
    }
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&& other) noexcept
    : m_impl(std::move(other.m_impl)) {}
Checkpoint& Checkpoint::operator=(Checkpoint&& other) noexcept {
    m_impl = std::move(other.m_impl);
    return *this;
}
Checkpoint::~Checkpoint() = default;

Checkpoint Checkpoint::open(const std::filesystem::path& folder) {
    auto impl = std::make_unique<Impl>();
    const std::filesystem::path single = folder / "model.safetensors";
    const std::filesystem::path index = folder / "model.safetensors.index.json";
    std::error_code ignored;
    if (std::filesystem::exists(single, ignored)) {
        impl->main_file = single;
        const Shard& shard = impl->add_shard(single);
        for (const auto& [name, entry] : shard.tensors())
            impl->add(name, shard, entry);
    } else if (std::filesystem::exists(index, ignored)) {
        impl->main_file = index;
        impl->open_index(folder, index);
    } else {
        const bool pickled = std::filesystem::exists(folder / "pytorch_model.bin", ignored) ||
                             std::filesystem::exists(folder / "pytorch_model.bin.index.json", ignored);
        fail(folder, "no model.safetensors and no model.safetensors.index.json in it",
             pickled ? "convert pytorch_model.bin to safetensors" : "is the download complete?");
    }
    return Checkpoint(std::move(impl));
}

bool Checkpoint::contains(const std::string& name) const {
    return m_impl->tensors.count(name) > 0;
}

std::vector<std::string> Checkpoint::names() const {
    std::vector<std::string> result;
    result.reserve(m_impl->tensors.size());
    for (const auto& [name, location] : m_impl->tensors)
        result.push_back(name);
    return result;
}

std::filesystem::path Checkpoint::file_of(const std::string& name) const {
    const auto it = m_impl->tensors.find(name);
    return it == m_impl->tensors.end() ? m_impl->main_file : it->second.shard->path();
}

void Checkpoint::check(const std::string& name, at::IntArrayRef shape) const {
    const auto it = m_impl->tensors.find(name);
    if (it == m_impl->tensors.end()) fail_tensor(m_impl->main_file.string(), name, "missing");
    const auto& [shard, entry] = it->second;
    if (shape != at::IntArrayRef(entry->shape)) {
        fail_tensor(shard->path().string(), name,
                    fmt::format("its shape is [{}], config.json asks for [{}]", fmt::join(entry->shape, ", "),
                                fmt::join(shape, ", ")));
    }
    if (!entry->dtype->type) {
        fail_tensor(
            shard->path().string(), name,
            fmt::format("its dtype is {}, weights must be F64, F32, BF16 or F16", entry->dtype->name));
    }
}

at::Tensor Checkpoint::read(const std::string& name, at::IntArrayRef shape) const {
    check(name, shape);
    const auto& [shard, entry] = m_impl->tensors.at(name);
    at::Tensor result = at::empty(shape, at::TensorOptions().dtype(*entry->dtype->type).device(at::kCPU));
    const uint64_t bytes = entry->end - entry->begin;
    if (bytes > 0) std::memcpy(result.mutable_data_ptr(), shard->data(*entry), bytes);
    return result;
}

at::Tensor Checkpoint::read(const std::string& name, at::IntArrayRef shape, at::ScalarType /*wanted*/) const {
    check(name, shape);
    const auto& [shard, entry] = m_impl->tensors.at(name);
    const std::byte* const data = shard->data(*entry);
    const at::ScalarType type = *entry->dtype->type;
    const auto address = reinterpret_cast<uintptr_t>(data);
    if (entry->end == entry->begin || address % c10::elementSize(type) != 0) return read(name, shape);
    // from_blob() asks for an address that may be written to; whoever has the tensor may not (WeightStore::read).
    return at::from_blob(
        const_cast<std::byte*>(data), shape, [owner = shard->shared_from_this()](void*) {},
        at::TensorOptions().dtype(type).device(at::kCPU));
}

int64_t Checkpoint::stored_bytes(const std::string& name) const {
    const auto it = m_impl->tensors.find(name);
    return it == m_impl->tensors.end()
               ? 0
               : static_cast<int64_t>(it->second.entry->end - it->second.entry->begin);
}

int64_t Checkpoint::total_bytes() const {
    return m_impl->total_bytes;
}

std::string Checkpoint::stored_types() const {
    std::vector<std::pair<std::string, int64_t>> bytes;
    for (const auto& [name, location] : m_impl->tensors)
        bytes.emplace_back(location.entry->dtype->name, stored_bytes(name));
    return types_by_bytes(bytes);
}

} // namespace refreshlab
