#pragma once

#include "engine/base/origin.h"
#include "engine/control/run_config.h"
#include "engine/model/checkpoint/safetensors_file.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace refreshlab {

class KvCache;

/// How keys and values of a saved prompt stand in its file.
enum class CacheForm : uint8_t {
    four_bits, ///< 16 codes for each group of up to 64 channels of a row, with a scale and a minimum in fp16
    exact,     ///< the cache's own numbers
};
[[nodiscard]] std::string_view to_string(CacheForm form);

/// Whose cache it is, and of what: a file is used where all of it is the same.
struct PromptCacheOrigin {
    std::string prompt; ///< as it was given, before the chat template
    bool raw_prompt = false;
    std::vector<int32_t> tokens; ///< that were read, at positions 0, 1, ...
    std::string model;           ///< fingerprint of the model that read them
    std::string model_name;      ///< for people
    std::string dtype;           ///< that it computed in, as RunConfig names it
};

/// The cache of a prompt that was read, as a safetensors file: a run of the same prompt goes on from it and reads no prompt.
/// Source: docs/reference/cache-definitions.md, section 9 (Agent-Memory).
///
/// metadata  format = "refreshlab prompt cache", version, form, and the fields of PromptCacheOrigin
/// tensors   tokens I32 [n], positions I64 [n]; for each layer l and half h (keys after RoPE, values):
///           exact      layers.l.h          [kv_heads, n, head_dim], f32, bf16 or f16
///           four_bits  layers.l.h.codes    U8 [kv_heads, bytes of n * head_dim codes, the lower one first]
///                      layers.l.h.scales   F16 [kv_heads, n * groups, 2], scale and minimum of a group
class PromptCacheFile {
public:
    /// Reads all but keys and values. Throws Error{bad_input}: no such file, no saved cache, of another version, damaged.
    explicit PromptCacheFile(const std::filesystem::path& path);

    [[nodiscard]] const PromptCacheOrigin& origin() const { return m_origin; }
    [[nodiscard]] CacheForm form() const { return m_form; }
    /// Throws Error{bad_input} where this run cannot go on from it: another model, other numbers, or tokens that the prompt does not
    /// begin with.
    void check(const std::string& model, const std::string& dtype, std::span<const int32_t> prompt) const;
    /// Writes the columns of the first n tokens into an empty cache of the model, with this origin. Throws Error{bad_input}: another
    /// shape. n <= tokens                                                                                       (asserted)
    void load(KvCache& cache, int64_t n, Origin origin) const;

private:
    [[nodiscard]] at::Tensor half(const KvCache& cache, int64_t layer, const char* name, int64_t n) const;

    SafetensorsFile m_file;
    PromptCacheOrigin m_origin;
    CacheForm m_form = CacheForm::exact;
};

/// Writes the columns of origin.tokens, of a dense cache that holds them (asserted). Throws Error{failure}.
void save_prompt_cache(const std::filesystem::path& path, const PromptCacheOrigin& origin, CacheForm form,
                       const KvCache& cache);

/// A configuration that goes on from a saved cache and has no prompt gets the one that was saved. Throws as PromptCacheFile.
[[nodiscard]] RunConfig with_saved_prompt(RunConfig config);

} // namespace refreshlab
