#pragma once

#include "engine/control/derive/derive_spec.h"
#include "engine/control/engine_link.h"
#include "engine/model/gates/token_gate.h"
#include "engine/model/llama_model.h"
#include "engine/model/memory_estimate.h"
#include "engine/session/pair/bridge_choice.h"
#include "engine/session/pair/run_execution.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab {

class ChatTemplate;
class Tokenizer;
struct Bridge;
struct RunText;

/// A loaded teacher/student pair with its text side. Shared by sessions, never changed by them.
struct ModelPair {
    std::shared_ptr<const LlamaModel> teacher,
        student; ///< either may be null in a mode that does not need it
    std::shared_ptr<const Tokenizer> tokenizer;
    std::shared_ptr<const ChatTemplate> chat_template; ///< may be null
    std::string teacher_dir, student_dir;              ///< a derived student: "derive:SPEC"
    std::optional<DerivedFacts> derived; ///< of a student that was made of the teacher's weights
    std::string
        measured_on; ///< the prompt that a derived student depends on, with how it was read; else empty
    std::optional<std::string>
        geometry_difference;             ///< first field that differs; set: rebuild mode, or a bridge
    std::optional<int64_t> shared_vocab; ///< tokens that both models keep; nothing with one model
    std::vector<PairFact> facts;         ///< the pair check, line by line; empty with one model
    /// Gates and profiles of models that have no files; those of others are read where a run wants them (policy_aids.h).
    ModelGates teacher_gates = {}, student_gates = {};
    CacheProfiles teacher_profiles = {}, student_profiles = {};

    /// Of a pair whose geometries differ: the file that maps the teacher's entries to the student's; nothing: there is none.
    std::optional<BridgeFile> bridge_file = {};
    std::shared_ptr<const Bridge> bridge = {}; ///< on the student's device; null: none, or not loaded

    /// In what the geometries differ where no bridge maps them; set: nothing is copied, rebuild mode.
    [[nodiscard]] std::optional<std::string> rebuild_reason() const;
    [[nodiscard]] std::string note() const; ///< what a person must know; empty when all is ordinary
    [[nodiscard]] bool same_folder() const; ///< one folder of weights is both teacher and student
    [[nodiscard]] std::vector<int32_t> end_ids() const; ///< end tokens of both models
    [[nodiscard]] int64_t context() const;              ///< the smaller max_position
};

/// Everything about a run that can be known without weights: the cheap checks of its models, its text, and what it will
/// hold in memory.
struct PreparedRun {
    /// Of a pair that is still to be loaded; else null. Its models are null but for those of `loaded` that serve.
    std::shared_ptr<ModelPair> text_side;
    std::shared_ptr<const ModelPair> pair; ///< null: still to be loaded
    std::shared_ptr<const RunText>
        text; ///< for DecodeSession, so that it is made once; null without a prompt
    std::vector<MemoryEstimate>
        memory;          ///< beyond what is there already; require_memory() is still to be called
    Execution execution; ///< of the run, not null; its weights are read with it
};

/// Prepares what config.mode needs (both models whenever both are given).
/// Throws Error{bad_input}: a missing model, different vocabularies, no such device, a derivation that does not fit, ...
/// \param loaded  null, or a pair: what of it serves is not read again. A changed derivation needs its teacher only
/// \param text    what the run reads, where that is known (a recording's); null: made here
[[nodiscard]] PreparedRun prepare_run(const RunConfig& config, std::shared_ptr<const ModelPair> loaded = {},
                                      const MemoryQuery& available = device_memory_available,
                                      std::shared_ptr<const RunText> text = {});

/// Reads the weights that run.pair lacks; nothing where it has them. Throws Error{bad_input} for what is wrong with the files,
/// Error "cancelled" when progress says so.
void load_models(PreparedRun& run, const RunConfig& config, const LoadProgress& progress = {});

/// prepare_run(), require_memory(), load_models(): a pair for any number of runs. Throws as they do.
[[nodiscard]] std::shared_ptr<const ModelPair> load_pair(const RunConfig& config,
                                                         const LoadProgress& progress = {},
                                                         std::shared_ptr<const RunText> text = {});

/// What the models and caches of this run will hold, device by device, beyond what is there already.
/// \param pair  the models that it has count no weights; if it has none, those that the run wants count in full
/// \param text  makes the caches as long as the run's text; null: as long as the context
[[nodiscard]] std::vector<MemoryEstimate>
memory_of_run(const RunConfig& config, const ModelPair& pair, const RunText* text = nullptr,
              const MemoryQuery& available = device_memory_available);

/// True if `pair` is what load_pair(config) would give: nothing has to be loaded again.
[[nodiscard]] bool pair_serves(const ModelPair& pair, const RunConfig& config);

[[nodiscard]] ModelSummary summarize(const LlamaModel& model, const std::string& dir);

/// "auto" | "cpu" | "cuda[:i]" as a device of this machine. Throws Error{bad_input} if there is no such GPU.
[[nodiscard]] at::Device resolve_device(const std::string& name);
[[nodiscard]] at::ScalarType scalar_type(Dtype dtype);

} // namespace refreshlab
