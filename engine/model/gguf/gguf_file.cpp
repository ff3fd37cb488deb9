#include "engine/model/gguf/gguf_file.h"

#include "engine/base/error.h"
#include "engine/base/mapped_file.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace refreshlab {

namespace {

constexpr uint64_t max_entries = 100'000; // keys, tensors: some tens and some thousands in real files
constexpr uint64_t max_length = uint64_t{1} << 30; // of a text, of an array: ggml's own limits
constexpr uint64_t max_name_bytes = 63;            // of a tensor
constexpr uint64_t max_key_bytes = (1U << 16) - 1; // of the format's description
constexpr uint64_t max_dimensions = 4;             // GGML_MAX_DIMS
constexpr uint64_t default_alignment = 32;
constexpr const char* truncated = "is it truncated?";

std::string shown(std::string_view name) {
    return visible_text(name, 100);
}

/// Bytes of a scalar; 0 for texts and arrays.
uint64_t scalar_bytes(GgufKind kind) {
    constexpr std::array<uint8_t, 13> bytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[static_cast<size_t>(kind)];
}

const char* kind_name(GgufKind kind) {
    constexpr std::array<const char*, 13> names = {
        "a whole number", "a whole number", "a whole number", "a whole number", "a whole number",
        "a whole number", "a number",       "true or false",  "a text",         "a list",
        "a whole number", "a whole number", "a number"};
    return names[static_cast<size_t>(kind)];
}

template <typename T>
T load(const std::byte* bytes) {
    T value{};
    std::memcpy(&value, bytes, sizeof(value));
    return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Reads the header from front to back; every step checks what is left.
class Cursor {
public:
    Cursor(std::span<const std::byte> bytes, const std::string& file)
        : m_bytes(bytes)
        , m_file(file) {}

    [[noreturn]] void fail(const std::string& problem, const std::string& hint = {}) const {
        throw Error("reading", m_file, problem, hint);
    }
    /// \param where  for messages: "key llama.block_count"
    std::span<const std::byte> take(uint64_t n, const std::string& where) {
        if (n > left()) {
            fail(fmt::format("the file ends at byte {}, inside {}, which needs {} more bytes from byte {}",
                             m_bytes.size(), where, n, m_at),
                 truncated);
        }
        const auto taken = m_bytes.subspan(m_at, n);
        m_at += n;
        return taken;
    }
    template <typename T>
    T number(const std::string& where) {
        return load<T>(take(sizeof(T), where).data());
    }
    std::span<const std::byte> text(uint64_t longest, const std::string& where) {
        const auto length = number<uint64_t>(where);
        if (length > longest)
            fail(fmt::format("{}: a text of {} bytes is absurd (limit {})", where, length, longest));
        return take(length, where);
    }
    [[nodiscard]] uint64_t at() const { return m_at; }
    [[nodiscard]] uint64_t left() const { return m_bytes.size() - m_at; }

private:
    std::span<const std::byte> m_bytes;
    const std::string& m_file;
    uint64_t m_at = 0;
};

GgufKind read_kind(Cursor& cursor, const std::string& where) {
    const auto kind = cursor.number<uint32_t>(where);
    if (kind > static_cast<uint32_t>(GgufKind::f64))
        cursor.fail(fmt::format("{} has value type {}, which the format does not know", where, kind));
    return static_cast<GgufKind>(kind);
}

GgufValue read_value(Cursor& cursor, const std::string& where) {
    GgufValue value;
    value.kind = read_kind(cursor, where);
    if (value.kind == GgufKind::text) {
        value.bytes = cursor.text(max_length, where);
    } else if (value.kind == GgufKind::array) {
        value.element = read_kind(cursor, where);
        if (value.element == GgufKind::array)
            cursor.fail(where + " is a list of lists, which is not supported");
        value.count = cursor.number<uint64_t>(where);
        const uint64_t least =
            value.element == GgufKind::text ? sizeof(uint64_t) : scalar_bytes(value.element);
        if (value.count > max_length || value.count > cursor.left() / least) {
            cursor.fail(fmt::format("{}: a list of {} elements, and {} bytes are left", where, value.count,
                                    cursor.left()),
                        truncated);
        }
        if (value.element == GgufKind::text) {
            Cursor elements = cursor; // only to find the end
            for (uint64_t i = 0; i < value.count; ++i)
                static_cast<void>(elements.text(max_length, where));
            value.bytes = cursor.take(elements.at() - cursor.at(), where);
        } else {
            value.bytes = cursor.take(value.count * least, where);
        }
    } else {
        value.bytes = cursor.take(scalar_bytes(value.kind), where);
    }
    return value;
}

/// Name, shape and type of a tensor. \param offset  gets its offset within the data
GgufTensor read_tensor(Cursor& cursor, const std::string& where, uint64_t& offset, uint64_t& bytes) {
    GgufTensor tensor;
    tensor.name = as_text(cursor.text(max_name_bytes, where));
    const std::string named = fmt::format("tensor \"{}\"", shown(tensor.name));
    const auto dimensions = cursor.number<uint32_t>(named);
    if (dimensions == 0 || dimensions > max_dimensions)
        cursor.fail(
            fmt::format("{}: {} dimensions, and the format has 1 to {}", named, dimensions, max_dimensions));
    uint64_t elements = 1;
    for (uint32_t i = 0; i < dimensions; ++i) {
        const auto size = cursor.number<uint64_t>(named);
        if (size == 0 || size > INT64_MAX || __builtin_mul_overflow(elements, size, &elements) ||
            elements > INT64_MAX)
            cursor.fail(named + ": its shape is empty or absurdly large");
        tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(size));
    }
    const auto type = cursor.number<uint32_t>(named);
    tensor.type = find_gguf_type(type);
    if (tensor.type == nullptr) {
        std::string known;
        for (const GgufType& one : gguf_types())
            known += (known.empty() ? "" : ", ") + std::string(one.name);
        cursor.fail(fmt::format("{}: its type {} is not supported", named, gguf_type_name(type)),
                    "supported: " + known);
    }
    const auto block = static_cast<uint64_t>(tensor.type->block);
    if (static_cast<uint64_t>(tensor.shape.back()) % block != 0)
        cursor.fail(fmt::format("{}: rows of {} elements are no whole blocks of {} ({})", named,
                                tensor.shape.back(), block, tensor.type->name));
    if (__builtin_mul_overflow(elements / block, static_cast<uint64_t>(tensor.type->block_bytes), &bytes) ||
        bytes > INT64_MAX)
        cursor.fail(named + ": its shape is absurdly large");
    offset = cursor.number<uint64_t>(named);
    return tensor;
}

/// Whole numbers of every width. Nothing for what is no whole number; beyond int64 it saturates.
std::optional<int64_t> as_integer(GgufKind kind, const std::byte* bytes) {
    switch (kind) {
    case GgufKind::u8:
        return load<uint8_t>(bytes);
    case GgufKind::i8:
        return load<int8_t>(bytes);
    case GgufKind::u16:
        return load<uint16_t>(bytes);
    case GgufKind::i16:
        return load<int16_t>(bytes);
    case GgufKind::u32:
        return load<uint32_t>(bytes);
    case GgufKind::i32:
        return load<int32_t>(bytes);
    case GgufKind::u64: {
        const auto value = load<uint64_t>(bytes);
        return value > INT64_MAX ? INT64_MAX : static_cast<int64_t>(value);
    }
    case GgufKind::i64:
        return load<int64_t>(bytes);
    default:
        return std::nullopt;
    }
}

std::optional<double> as_number(GgufKind kind, const std::byte* bytes) {
    if (kind == GgufKind::f64) return load<double>(bytes);
    if (kind == GgufKind::f32) {
        const auto value = load<float>(bytes);
        if (!std::isfinite(value)) return static_cast<double>(value);
        return std::strtod(fmt::format("{}", value).c_str(), nullptr);
    }
    const auto whole = as_integer(kind, bytes);
    return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

} // namespace

GgufFile GgufFile::open(const std::filesystem::path& path) {
    GgufFile file;
    file.m_mapped = std::make_shared<const MappedFile>(path);
    file.m_bytes = file.m_mapped->bytes();
    file.m_name = path.string();
    file.read();
    return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, const std::string& name) {
    GgufFile file;
    file.m_bytes = bytes;
    file.m_name = name;
    file.read();
    return file;
}

void GgufFile::read() {
    Cursor cursor(m_bytes, m_name);
    constexpr std::string_view magic = "GGUF";
    if (!as_text(m_bytes).starts_with(magic))
        cursor.fail(
            "is no GGUF file: it does not start with the letters GGUF",
            "a model is a folder with config.json, tokenizer.json and *.safetensors, or a .gguf file");
    static_cast<void>(cursor.take(magic.size(), "its header"));
    const auto version = cursor.number<uint32_t>("its header");
    if ((version & 0xFFFFU) == 0) cursor.fail("is a big-endian GGUF file, which is not supported");
    if (version != 2 && version != 3)
        cursor.fail(fmt::format("GGUF version {} is not supported", version), "supported: 2, 3");
    const auto tensors = cursor.number<uint64_t>("its header");
    const auto keys = cursor.number<uint64_t>("its header");
    for (const auto& [what, count] : {std::pair("tensors", tensors), std::pair("keys", keys)}) {
        if (count > max_entries)
            cursor.fail(fmt::format("{} {} are absurd (limit {})", count, what, max_entries));
    }

    for (uint64_t i = 0; i < keys; ++i) {
        const std::string numbered = fmt::format("key number {} of {}", i + 1, keys);
        const std::string key(as_text(cursor.text(max_key_bytes, numbered)));
        if (key.empty()) cursor.fail(numbered + " is empty");
        if (m_values.contains(key)) fail_key(key, "stands there twice");
        m_values.emplace(key, read_value(cursor, "key " + shown(key)));
    }
    if (const auto parts = integer("split.count", 0, INT64_MAX); parts && *parts > 1) {
        fail_key("split.count", fmt::format("says that this is one of {} files of a model", *parts),
                 "join them first (llama.cpp's llama-gguf-split --merge)");
    }
    const auto alignment = static_cast<uint64_t>(
        integer("general.alignment", 1, INT32_MAX).value_or(static_cast<int64_t>(default_alignment)));
    if (!std::has_single_bit(alignment))
        fail_key("general.alignment", fmt::format("is {}, which is no power of two", alignment));

    std::vector<uint64_t> offsets, sizes;
    for (uint64_t i = 0; i < tensors; ++i) {
        uint64_t offset = 0, bytes = 0;
        GgufTensor tensor =
            read_tensor(cursor, fmt::format("the name of tensor {} of {}", i + 1, tensors), offset, bytes);
        if (!m_places.emplace(tensor.name, m_tensors.size()).second)
            fail_tensor(tensor.name, "stands there twice");
        m_tensors.push_back(std::move(tensor));
        offsets.push_back(offset);
        sizes.push_back(bytes);
    }

    const auto padded = [&](uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
    const uint64_t data = padded(cursor.at());
    uint64_t expected = 0, end = cursor.at();
    for (size_t i = 0; i < m_tensors.size(); ++i) {
        const std::string& name = m_tensors[i].name;
        if (offsets[i] != expected)
            fail_tensor(name,
                        fmt::format("its data begin at byte {} of the data part, those before it end at {}",
                                    offsets[i], expected));
        if (data > m_bytes.size() || offsets[i] > m_bytes.size() - data ||
            sizes[i] > m_bytes.size() - data - offsets[i]) {
            fail_tensor(name,
                        fmt::format("needs {} bytes from byte {} of the file, which has {}", sizes[i],
                                    data + offsets[i], m_bytes.size()),
                        truncated);
        }
        m_tensors[i].bytes = m_bytes.subspan(data + offsets[i], sizes[i]);
        end = data + offsets[i] + sizes[i];
        expected = padded(offsets[i] + sizes[i]);
    }
    // The padding after the last tensor may be missing.
    const uint64_t longest = std::max(end, m_tensors.empty() ? data : data + expected);
    if (m_bytes.size() > longest)
        cursor.fail(fmt::format("{} bytes after the last tensor belong to none", m_bytes.size() - longest));
}

void GgufFile::fail_key(std::string_view key, const std::string& problem, const std::string& hint) const {
    throw Error("reading", m_name, fmt::format("key {} {}", shown(key), problem), hint);
}

void GgufFile::fail_tensor(const std::string& tensor, const std::string& problem,
                           const std::string& hint) const {
    throw Error("reading", m_name, fmt::format("tensor \"{}\": {}", shown(tensor), problem), hint);
}

const GgufTensor* GgufFile::tensor(std::string_view name) const {
    const auto found = m_places.find(name);
    return found == m_places.end() ? nullptr : &m_tensors[found->second];
}

const GgufValue* GgufFile::find(std::string_view key) const {
    const auto found = m_values.find(key);
    return found == m_values.end() ? nullptr : &found->second;
}

const GgufValue* GgufFile::find_array(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value != nullptr && value->kind != GgufKind::array)
        fail_key(key, fmt::format("is {}, and a list is expected", kind_name(value->kind)));
    return value;
}

std::optional<int64_t> GgufFile::integer(std::string_view key, int64_t low, int64_t high) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number =
        value->kind == GgufKind::array ? std::nullopt : as_integer(value->kind, value->bytes.data());
    if (!number) fail_key(key, fmt::format("is {}, and a whole number is expected", kind_name(value->kind)));
    if (*number < low || *number > high)
        fail_key(key, fmt::format("must be in {} .. {}, not {}", low, high, *number));
    return number;
}

std::optional<double> GgufFile::number(std::string_view key, double low, double high) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = as_number(value->kind, value->bytes.data());
    if (!number) fail_key(key, fmt::format("is {}, and a number is expected", kind_name(value->kind)));
    if (!(*number >= low && *number <= high))
        fail_key(key, fmt::format("must be in {} .. {}, not {}", low, high, *number));
    return number;
}

std::optional<bool> GgufFile::flag(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->kind != GgufKind::boolean)
        fail_key(key, fmt::format("is {}, and true or false is expected", kind_name(value->kind)));
    const auto byte = std::to_integer<int>(value->bytes.front());
    if (byte > 1) fail_key(key, fmt::format("is {}, and true (1) or false (0) is expected", byte));
    return byte == 1;
}

std::optional<std::string_view> GgufFile::text(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (value->kind != GgufKind::text)
        fail_key(key, fmt::format("is {}, and a text is expected", kind_name(value->kind)));
    const std::string_view text = as_text(value->bytes);
    if (const auto at = first_invalid_utf8(text)) fail_key(key, fmt::format("is not UTF-8 at byte {}", *at));
    return text;
}

std::optional<std::vector<std::string_view>> GgufFile::texts(std::string_view key) const {
    const GgufValue* value = find_array(key);
    if (value == nullptr) return std::nullopt;
    if (value->element != GgufKind::text)
        fail_key(key,
                 fmt::format("is a list of what is {}, and texts are expected", kind_name(value->element)));
    std::vector<std::string_view> result;
    result.reserve(value->count); // each took 8 bytes of the file at least
    Cursor cursor(value->bytes, m_name);
    for (uint64_t i = 0; i < value->count; ++i) {
        const std::string_view text = as_text(cursor.take(cursor.number<uint64_t>({}), {}));
        if (const auto at = first_invalid_utf8(text))
            fail_key(key, fmt::format("has an element {} that is not UTF-8 at byte {}", i, *at));
        result.push_back(text);
    }
    return result;
}

std::optional<std::vector<int64_t>> GgufFile::integers(std::string_view key) const {
    const GgufValue* value = find_array(key);
    if (value == nullptr) return std::nullopt;
    std::vector<int64_t> result;
    for (uint64_t i = 0; i < value->count; ++i) {
        const auto number =
            as_integer(value->element, value->bytes.data() + i * scalar_bytes(value->element));
        if (!number)
            fail_key(key, fmt::format("is a list of what is {}, and whole numbers are expected",
                                      kind_name(value->element)));
        result.push_back(*number);
    }
    return result;
}

std::optional<std::vector<double>> GgufFile::numbers(std::string_view key) const {
    const GgufValue* value = find_array(key);
    if (value == nullptr) return std::nullopt;
    std::vector<double> result;
    for (uint64_t i = 0; i < value->count; ++i) {
        const std::byte* const bytes = value->bytes.data() + i * scalar_bytes(value->element);
        // As they are: scores are compared with each other only.
        const auto number = value->element == GgufKind::f32 ? std::optional<double>(load<float>(bytes))
                                                            : as_number(value->element, bytes);
        if (!number)
            fail_key(key, fmt::format("is a list of what is {}, and numbers are expected",
                                      kind_name(value->element)));
        result.push_back(*number);
    }
    return result;
}

} // namespace refreshlab
