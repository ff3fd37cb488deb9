#pragma once

#include "engine/model/gates/token_gate.h"

#include <filesystem>
#include <memory>
#include <string>

namespace refreshlab {

/// What a gate's file says beside its weights.
struct GateOrigin {
    std::string model;      ///< model_fingerprint() of the model that it was trained for
    std::string model_name; ///< for people
    std::string recipe;     ///< how it was trained, as JSON; for people
};

/// Writes a gate: safetensors, weights in bf16 ("layers.0.w1"), hidden widths as the model's config.json has them. Throws Error{failure}.
void save_gate(const std::filesystem::path& path, const TokenGate& gate, const ModelConfig& model,
               const GateOrigin& origin);

/// Reads the gate of a method for a model. Throws Error{bad_input}, one line: no such file, no gate, of another version, method or model.
/// \param fingerprint  of the model
[[nodiscard]] std::unique_ptr<TokenGate> load_gate(const std::filesystem::path& path, std::string_view method,
                                                   const ModelConfig& model, const std::string& fingerprint);

} // namespace refreshlab
