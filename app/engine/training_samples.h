#pragma once

#include "engine/session/pair/model_pair.h"
#include "engine/train/models/model_trainer.h"
#include "engine/train/training_text.h"

#include <cstdint>
#include <filesystem>
#include <string>

namespace refreshlab::app {

/// Decodes of a model while it is trained, as runs of one trace, which the window opens: each goes on from the same prompt, greedily. A
/// training that goes on adds to the trace that is there.
class TrainingSamples {
public:
    /// \param path  empty: no samples
    /// \param every steps between two of them
    /// \param pair  the teacher that writes the prompt's entries, and the tokenizer; outlives this
    /// \param mode  overfill: behind the teacher's prompt; else the model alone
    /// \param name  of the model that is made, for the trace
    TrainingSamples(std::filesystem::path path, int64_t every, const ModelPair& pair, Mode mode,
                    std::string name, const TrainingText& text);

    /// A sample where the trainer has made that many steps. A trace that cannot be written is said once, and the training goes on.
    void take(const ModelTrainer& trainer);

private:
    void add(const ModelTrainer& trainer) const;

    std::filesystem::path m_path;
    int64_t m_every;
    const ModelPair& m_pair;
    Mode m_mode;
    std::string m_name;
    std::shared_ptr<const RunText> m_text;
    bool m_failed = false;
};

} // namespace refreshlab::app
