#pragma once

#include "engine/control/run_config.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab {

/// Where the file of a policy lies that belongs to a model and was not named: MODEL/gates/METHOD.safetensors or MODEL/profiles/METHOD.json of
/// a folder, MODEL.gates/METHOD.safetensors or MODEL.profiles/METHOD.json of a file. A derived student ("derive:SPEC") has none: empty.
[[nodiscard]] std::filesystem::path file_beside(const std::string& model, std::string_view method,
                                                CacheFile::Kind kind);

/// The folder of a student's bridges: MODEL/bridges of a folder, MODEL.bridges of a file. A derived student has none: empty.
[[nodiscard]] std::filesystem::path bridges_beside(const std::string& student);

/// A file of a cache policy that a run reads: a trained gate or a profile.
struct ModelFile {
    std::string key; ///< of CachePolicyConfig::files: "gate"
    CacheFile::Kind kind = CacheFile::Kind::gate;
    bool of_decoder = false;    ///< it is asked what the model that decodes does (CacheFile)
    bool of_teacher = false;    ///< whose it is; false: the student's
    bool named = false;         ///< by a person; false: it lies beside the model
    std::filesystem::path path; ///< empty: none was named, and none can lie beside the model
    std::string digest;         ///< that it must have; empty: any
};
/// The files of the policy that decides: of the model that reads the prompt, and of the one that decodes. Where one model does both, and there
/// is one for each, the first.
/// Empty where the policy has none. Looks at no file.
[[nodiscard]] std::vector<ModelFile> model_files(const RunConfig& config);

/// Throws Error{bad_input}, one line, where a file is not there, with the way to one. \param method  of the policy; \param model  its path
void check_file_is_there(const ModelFile& file, const std::string& method, const std::string& model);
/// The same for all files of the policy that decides. Reads none of them.
void check_files_are_there(const RunConfig& config);

/// Digest of a file's bytes. Throws Error{bad_input}: no such file.
[[nodiscard]] std::string file_digest(const std::filesystem::path& path);
/// The configuration with the digests of its policy's files, as they are now. One that is not there is left as it is.
[[nodiscard]] RunConfig with_file_digests(RunConfig config);

} // namespace refreshlab
