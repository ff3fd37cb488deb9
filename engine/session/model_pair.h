#pragma once

#include "engine/control/engine_link.h"
#include "engine/model/llama_model.h"
#include "engine/model/memory_estimate.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

class ChatTemplate;
class Tokenizer;

/// A loaded teacher/student pair with its text side. Shared by sessions, never changed by them.
struct ModelPair {
    std::shared_ptr<const LlamaModel> teacher,
        student; ///< either may be null in a mode that does not need it
    std::shared_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<const ChatTemplate> chat_template; ///< may be null
    std::string teacher_dir, student_dir;
    std::optional<std::string>
        geometry_difference;     ///< first field that differs; set: no splices, rebuild mode
    std::vector<PairFact> facts; ///< the pair check, line by line; empty with one model

    [[nodiscard]] std::string note() const; ///< what a person must know; empty when all is ordinary
    [[nodiscard]] std::vector<int32_t> end_ids() const; ///< end tokens of both models
    [[nodiscard]] int64_t context() const;              ///< the smaller max_position
};

/// Loads what config.mode needs (both models whenever both folders are given). Throws Error{bad_input}: missing folder,
/// different vocabularies, no such device, ...; Error{failure} naming what is needed and what there is when the run cannot
/// fit into the device's memory; Error "cancelled" when progress says so.
[[nodiscard]] std::shared_ptr<const ModelPair> load_pair(const RunConfig& config,
                                                         const LoadProgress& progress = {});

/// What the models and caches of this run will hold, device by device, before anything is loaded. The caches are as long as
/// prompt and max_tokens ask for, or as the context where no prompt is given.
/// \param text_side  a pair whose tokenizer (and template) are there; the models need not be
[[nodiscard]] std::vector<MemoryEstimate> memory_of_run(const RunConfig& config, const ModelPair& text_side);

/// True if `pair` is what load_pair(config) would give: nothing has to be loaded again.
[[nodiscard]] bool pair_serves(const ModelPair& pair, const RunConfig& config);

[[nodiscard]] ModelSummary summarize(const LlamaModel& model, const std::string& dir);

/// "auto" | "cpu" | "cuda[:i]" as a device of this machine. Throws Error{bad_input} if there is no such GPU.
[[nodiscard]] at::Device resolve_device(const std::string& name);
[[nodiscard]] at::ScalarType scalar_type(Dtype dtype);

} // namespace refreshlab
