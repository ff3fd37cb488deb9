#pragma once

#include <filesystem>
#include <string>

namespace refreshlab {

/// Digest of a model's configuration, tokenizer and weights (a folder or a GGUF file); of files above 64 MiB the size, both
/// ends and 64 samples in between. Of a derivation ("derive:SPEC") what it says; its teacher has one of its own. Empty for an
/// empty path. Throws Error{bad_input}: no such model, unreadable.
[[nodiscard]] std::string model_fingerprint(const std::filesystem::path& model);

} // namespace refreshlab
