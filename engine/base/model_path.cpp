#include "engine/base/model_path.h"

#include "engine/base/error.h"
#include "engine/base/regular_file.h"

#include <string_view>

namespace refreshlab {

std::string model_name(const std::filesystem::path& path) {
    constexpr std::string_view extension = ".gguf";
    const std::filesystem::path normal = path.lexically_normal();
    std::string name =
        normal.has_filename() ? normal.filename().string() : normal.parent_path().filename().string();
    if (name.size() > extension.size() && name.ends_with(extension))
        name.resize(name.size() - extension.size());
    return name;
}

bool same_model(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code missing;
    return std::filesystem::equivalent(a, b, missing) && !missing;
}

bool may_be_model(const std::filesystem::path& path) {
    std::error_code failed;
    if (std::filesystem::is_directory(path, failed))
        return std::filesystem::exists(path / "config.json", failed);
    if (!std::filesystem::is_regular_file(path, failed)) return false;
    try {
        return RegularFile(path).read(0, 4) == "GGUF";
    } catch (const Error&) { // not ours to read
        return false;
    }
}

BundledPair bundled_pair(const std::filesystem::path& assets) {
    const std::filesystem::path models = assets / "models";
    return {(models / "llama-tales-teacher").string(), (models / "llama-tales-student").string()};
}

} // namespace refreshlab
