#include "engine/control/model_files.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/model_path.h"
#include "engine/control/cache_choice.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/text/digest.h"

#include <fmt/format.h>

namespace refreshlab {

namespace fs = std::filesystem;

namespace {

using FileKind = CacheFile::Kind;

/// How a kind of file is called, and made.
struct KindWords {
    const char *name, *command, *folder, *extension, *derived;
};
KindWords words_of(FileKind kind) {
    if (kind == FileKind::profile) return {"profile", "profile", "profiles", ".json", "measured"};
    return {"trained gate", "train-gate", "gates", ".safetensors", "trained"};
}

/// MODEL/NAME of a folder, MODEL.NAME of a file; empty of none and of a derived student.
fs::path folder_beside(const std::string& model, const char* name) {
    if (model.empty() || is_derivation(model)) return {};
    std::error_code ignored;
    fs::path folder = fs::path(model).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path(); // "MODEL/"
    return fs::is_directory(folder, ignored) ? folder / name : fs::path(folder.string() + "." + name);
}

/// A method with the flag `by_profile` reads its profile where that is on, others always do.
bool goes_by_profile(const CachePolicyConfig& policy) {
    const auto flag = policy.values.find("by_profile");
    return flag == policy.values.end() || flag->second != 0;
}

} // namespace

fs::path file_beside(const std::string& model, std::string_view method, FileKind kind) {
    const KindWords words = words_of(kind);
    const fs::path folder = folder_beside(model, words.folder);
    return folder.empty() ? folder : folder / (std::string(method) + words.extension);
}

fs::path bridges_beside(const std::string& student) {
    return folder_beside(student, "bridges");
}

std::vector<ModelFile> model_files(const RunConfig& config) {
    const CachePolicyConfig& policy = deciding_cache(config);
    std::vector<ModelFile> all;
    const auto& files = find_cache_method(policy.policy)->files;
    for (const CacheFile& known : files) {
        if (known.kind == FileKind::profile && !goes_by_profile(policy)) continue;
        // One model does both: the first file serves.
        if (known.of_decoder && &known != &files.front() && config.mode != Mode::overfill) continue;
        const PolicyFile& asked = policy.files.find(known.key)->second;
        ModelFile file;
        file.key = known.key;
        file.kind = known.kind;
        file.of_decoder = known.of_decoder;
        file.of_teacher =
            config.mode == Mode::teacher || (config.mode == Mode::overfill && !known.of_decoder);
        file.named = !asked.path.empty();
        file.path = file.named ? fs::path(asked.path)
                               : file_beside(file.of_teacher ? config.teacher_dir : config.student_dir,
                                             policy.policy, known.kind);
        file.digest = asked.digest;
        all.push_back(std::move(file));
    }
    return all;
}

void check_file_is_there(const ModelFile& file, const std::string& method, const std::string& model) {
    const KindWords words = words_of(file.kind);
    std::error_code ignored;
    const bool there = fs::is_regular_file(file.path, ignored);
    if (file.named && !there)
        throw Error(fmt::format("reading a {}", words.name), file.path.string(), "no such file",
                    fmt::format("refreshlab {} {} makes one", words.command, method));
    if (file.path.empty())
        throw Error("starting a run", fmt::format("cache policy {}", method),
                    fmt::format("has no {} for {}, and a derived student's cannot be {}", words.name,
                                model_name(model), words.derived),
                    "take a student with files of its own, or mode teacher");
    if (!there)
        throw Error("starting a run", fmt::format("cache policy {}", method),
                    fmt::format("has no {} for {}: {} is not there", words.name, model_name(model),
                                file.path.string()),
                    fmt::format("name one (--set student_cache.{}=FILE, teacher_cache in mode teacher), or "
                                "make it: refreshlab {} {}",
                                file.key, words.command, method));
}

void check_files_are_there(const RunConfig& config) {
    for (const ModelFile& file : model_files(config))
        check_file_is_there(file, deciding_cache(config).policy,
                            file.of_teacher ? config.teacher_dir : config.student_dir);
}

std::string file_digest(const fs::path& path) {
    Digest digest;
    digest.add(read_file(path));
    return digest.hex();
}

RunConfig with_file_digests(RunConfig config) {
    CachePolicyConfig& policy = config.mode == Mode::teacher ? config.teacher_cache : config.student_cache;
    for (const ModelFile& file : model_files(config)) {
        std::error_code ignored;
        if (file.path.empty() || !fs::is_regular_file(file.path, ignored)) continue;
        policy.files.find(file.key)->second.digest = file_digest(file.path);
    }
    return config;
}

} // namespace refreshlab
