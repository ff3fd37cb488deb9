#include "engine/remote/offered_parts.h"

#include "engine/base/error.h"
#include "engine/tasks/almanac.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

namespace refreshlab::remote {

namespace {

namespace fs = std::filesystem;
using Kind = LinkOffers::Part::Kind;

constexpr std::array<std::pair<Kind, const char*>, 3> names{
    {{Kind::almanac, "almanac"}, {Kind::gate, "gate"}, {Kind::prompt_cache, "prompt_cache"}}};
/// Of a gate or a prompt cache: the header has a line for each tensor.
constexpr uint64_t longest_header = uint64_t{1} << 20;
/// An almanac has some hundred names.
constexpr uintmax_t longest_almanac = uintmax_t{16} << 20;

/// What a safetensors file says that it is (`format` of its metadata); empty: nothing, or it is no such file.
std::string format_of(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::array<unsigned char, 8> size{};
    file.read(reinterpret_cast<char*>(size.data()), size.size());
    uint64_t length = 0;
    for (size_t i = size.size(); i-- > 0;)
        length = length << 8 | size[i];
    if (!file || length == 0 || length > longest_header) return {};
    std::string header(length, '\0');
    file.read(header.data(), static_cast<std::streamsize>(length));
    if (!file) return {};
    const auto json = nlohmann::json::parse(header, nullptr, false);
    if (!json.is_object()) return {};
    const auto metadata = json.find("__metadata__");
    if (metadata == json.end() || !metadata->is_object()) return {};
    const auto format = metadata->find("format");
    return format != metadata->end() && format->is_string() ? format->get<std::string>() : std::string();
}

std::optional<Kind> kind_of(const fs::path& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return {};
    if (path.extension() == ".safetensors") {
        const std::string format = format_of(path);
        if (format == "refreshlab gate") return Kind::gate;
        if (format == "refreshlab prompt cache") return Kind::prompt_cache;
        return {};
    }
    if (path.extension() != ".json" || fs::file_size(path, error) > longest_almanac || error) return {};
    try {
        return read_almanac(path).empty() ? std::nullopt : std::optional(Kind::almanac);
    } catch (const Error&) {
        return {};
    }
}

} // namespace

std::string part_name(Kind kind) {
    return std::ranges::find(names, kind, &decltype(names)::value_type::first)->second;
}

Kind part_kind(const std::string& name) {
    const auto found = std::ranges::find_if(names, [&](const auto& known) { return name == known.second; });
    if (found == names.end())
        throw Error("reading", "what a server offers", "'" + name + "' is no kind of file");
    return found->first;
}

std::vector<LinkOffers::Part> parts_in(const fs::path& folder) {
    std::vector<LinkOffers::Part> parts;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        if (const auto kind = kind_of(it->path()))
            parts.push_back({*kind, it->path().filename().string(), it->path().string()});
    std::ranges::sort(parts, {}, &LinkOffers::Part::name);
    return parts;
}

} // namespace refreshlab::remote
