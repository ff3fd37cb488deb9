#include "engine/model/checkpoint.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <optional>
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

std::string quoted(const std::string& text) {
    constexpr size_t longest = 100;
    return json(text.substr(0, longest)).dump(-1, ' ', true, json::error_handler_t::replace);
}

[[noreturn]] void fail_tensor(const std::filesystem::path& file, const std::string& name,
                              const std::string& problem) {
    // Names come from the file; a hostile one must not flood the message.
    fail(file, fmt::format("tensor {}: {}", quoted(name), problem));
}

/// A whole file, mapped read-only for as long as the object lives.
class MappedFile {
public:
    explicit MappedFile(const std::filesystem::path& path) {
        const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (descriptor < 0) fail(path, std::strerror(errno));
        struct stat status {};
        const bool regular = ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
        if (regular && status.st_size > 0) {
            m_size = static_cast<size_t>(status.st_size);
            void* address = ::mmap(nullptr, m_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
            m_data = address == MAP_FAILED ? nullptr : static_cast<const std::byte*>(address);
        }
        const int map_error = errno;
        ::close(descriptor);
        if (!regular) fail(path, "is not a regular file");
        if (m_size > 0 && m_data == nullptr)
            fail(path, std::string("cannot be mapped: ") + std::strerror(map_error));
    }
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile() {
        if (m_data != nullptr) ::munmap(const_cast<std::byte*>(m_data), m_size);
    }

    [[nodiscard]] const std::byte* data() const { return m_data; }
    [[nodiscard]] uint64_t size() const { return m_size; }

private:
    const std::byte* m_data = nullptr;
    size_t m_size = 0;
};

struct StoredDtype {
    std::string_view name;
    uint64_t bytes;
    std::optional<at::ScalarType> type; ///< none: part of the format, but no weight of a model that we run
};

constexpr std::array<StoredDtype, 15> stored_dtypes = {{
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
}};

struct TensorEntry {
    const StoredDtype* dtype = nullptr;
    std::vector<int64_t> shape;
    uint64_t begin = 0, end = 0; ///< bytes, from the start of the data part
};

std::optional<uint64_t> as_size(const json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned()) return value.get<uint64_t>();
    const auto number = value.get<int64_t>();
    return number < 0 ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(number));
}

TensorEntry parse_entry(const std::filesystem::path& file, const std::string& name, const json& object,
                        uint64_t data_size) {
    if (!object.is_object()) fail_tensor(file, name, "its entry must be an object");
    const auto member = [&](const char* key) -> const json& {
        const auto it = object.find(key);
        if (it == object.end()) fail_tensor(file, name, std::string(key) + " is missing");
        return *it;
    };
    TensorEntry entry;
    const json& dtype = member("dtype");
    if (!dtype.is_string()) fail_tensor(file, name, "dtype must be a string");
    const auto& dtype_name = dtype.get_ref<const std::string&>();
    const auto* known = std::find_if(stored_dtypes.begin(), stored_dtypes.end(),
                                     [&](const StoredDtype& d) { return d.name == dtype_name; });
    if (known == stored_dtypes.end()) {
        fail_tensor(file, name, fmt::format("dtype {} is not supported", quoted(dtype_name)));
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

/// One safetensors file: 8 bytes header length, JSON header, data. Every byte of the data belongs to one tensor.
class Shard {
public:
    explicit Shard(std::filesystem::path path)
        : m_path(std::move(path))
        , m_file(m_path) {
        constexpr uint64_t max_header = 100'000'000; // the limit of the reference implementation
        uint64_t header_size = 0;
        if (m_file.size() < sizeof(header_size)) {
            fail(m_path, fmt::format("too short for a safetensors file ({} bytes)", m_file.size()),
                 "is it truncated?");
        }
        std::memcpy(&header_size, m_file.data(), sizeof(header_size));
        if (header_size > max_header) {
            fail(m_path, fmt::format("header length {} is absurd (limit {})", header_size, max_header),
                 "is this a safetensors file?");
        }
        if (header_size > m_file.size() - sizeof(header_size)) {
            fail(m_path,
                 fmt::format("header length {} is beyond the end of the file ({} bytes)", header_size,
                             m_file.size()),
                 "is it truncated?");
        }
        const std::string_view header(reinterpret_cast<const char*>(m_file.data()) + sizeof(header_size),
                                      header_size);
        if (header.empty() || header.front() != '{') fail(m_path, "its header is not a JSON object");
        const json object = parse_json(header, m_path.string());
        if (!object.is_object()) fail(m_path, "its header is not a JSON object");

        m_data_begin = sizeof(header_size) + header_size;
        const uint64_t data_size = m_file.size() - m_data_begin;
        for (const auto& [name, value] : object.items()) {
            if (name == "__metadata__") {
                check_metadata(value);
                continue;
            }
            m_tensors.emplace(name, parse_entry(m_path, name, value, data_size));
        }
        check_cover(data_size);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
    [[nodiscard]] const std::map<std::string, TensorEntry>& tensors() const { return m_tensors; }
    [[nodiscard]] const std::byte* data(const TensorEntry& entry) const {
        return m_file.data() + m_data_begin + entry.begin;
    }

private:
    void check_metadata(const json& value) const {
        const bool good = value.is_object() && std::all_of(value.begin(), value.end(),
                                                           [](const json& item) { return item.is_string(); });
        if (!good) fail(m_path, "__metadata__ must map strings to strings");
    }

    /// In order of their begin the ranges must follow each other without overlap or hole, from the first byte to the last.
    void check_cover(uint64_t data_size) const {
        std::vector<std::pair<const std::string*, const TensorEntry*>> order;
        order.reserve(m_tensors.size());
        for (const auto& [name, entry] : m_tensors)
            order.emplace_back(&name, &entry);
        std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
            return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
        });
        uint64_t expected = 0;
        for (const auto& [name, entry] : order) {
            if (entry->begin < expected) {
                fail_tensor(m_path, *name,
                            fmt::format("its bytes from {} overlap another tensor's, which end at {}",
                                        entry->begin, expected));
            }
            if (entry->begin > expected) {
                fail_tensor(m_path, *name,
                            fmt::format("a hole of {} bytes lies before it", entry->begin - expected));
            }
            expected = entry->end;
        }
        if (expected != data_size) {
            fail(m_path, fmt::format("{} bytes after the last tensor belong to none", data_size - expected));
        }
    }

    std::filesystem::path m_path;
    MappedFile m_file;
    uint64_t m_data_begin = 0;
    std::map<std::string, TensorEntry> m_tensors;
};

/// Shards are named by the index file, i.e. by whoever made the download: only plain file names of this folder.
void check_shard_name(const std::filesystem::path& index, const std::string& name) {
    constexpr std::string_view suffix = ".safetensors";
    const bool plain = name.size() > suffix.size() && name.size() < 256 &&
                       name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                       std::string_view(name).substr(name.size() - suffix.size()) == suffix;
    if (!plain) {
        fail(index,
             fmt::format("weight_map names {}, which is not a plain *.safetensors file name", quoted(name)));
    }
}

} // namespace

struct Checkpoint::Impl {
    struct Location {
        const Shard* shard = nullptr;
        const TensorEntry* entry = nullptr;
    };
    std::filesystem::path main_file; ///< what a missing tensor is missing from
    std::vector<std::unique_ptr<Shard>> shards;
    std::map<std::string, Location> tensors;
    int64_t total_bytes = 0;

    const Shard& add_shard(const std::filesystem::path& path) {
        return *shards.emplace_back(std::make_unique<Shard>(path));
    }

    void add(const std::string& name, const Shard& shard, const TensorEntry& entry) {
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
            if (!file.is_string()) fail_tensor(index, name, "its file must be a string");
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
                fail_tensor(shard.path(), name,
                            "missing, although " + index.filename().string() + " says it is here");
            }
            add(name, shard, entry->second);
        }
    }
};

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl)
    : m_impl(std::move(impl)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
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

at::Tensor Checkpoint::read(const std::string& name, at::IntArrayRef shape) const {
    const auto it = m_impl->tensors.find(name);
    if (it == m_impl->tensors.end()) fail_tensor(m_impl->main_file, name, "missing");
    const auto& [shard, entry] = it->second;
    if (shape != at::IntArrayRef(entry->shape)) {
        fail_tensor(shard->path(), name,
                    fmt::format("its shape is [{}], config.json asks for [{}]", fmt::join(entry->shape, ", "),
                                fmt::join(shape, ", ")));
    }
    if (!entry->dtype->type) {
        fail_tensor(
            shard->path(), name,
            fmt::format("its dtype is {}, weights must be F64, F32, BF16 or F16", entry->dtype->name));
    }
    at::Tensor result = at::empty(shape, at::TensorOptions().dtype(*entry->dtype->type).device(at::kCPU));
    const uint64_t bytes = entry->end - entry->begin;
    if (bytes > 0) std::memcpy(result.mutable_data_ptr(), shard->data(*entry), bytes);
    return result;
}

int64_t Checkpoint::total_bytes() const {
    return m_impl->total_bytes;
}

} // namespace refreshlab
