#pragma once

#include "engine/session/pair/model_pair.h"
#include "engine/session/pair/run_execution.h"

#include <memory>
#include <string>
#include <vector>

namespace refreshlab::app {

/// What a command that reads texts with a model and makes one file of them can refuse before the work.
/// Throws Error{bad_input}: `out` is one of the inputs, or has no folder.
/// \param option  that has named the model
void check_files_of_work(const std::string& model, const std::vector<std::string>& texts,
                         const std::string& out, const char* option = "--model");

/// One model on the CPU, as the teacher of a pair, or a pair. While this lives, the calling thread computes with its threads.
class OfflineModel {
public:
    /// \param model    a checkpoint folder or a .gguf file. Throws what load_pair() throws
    /// \param threads  0 = all cores that this process may use
    OfflineModel(const std::string& model, int threads, Dtype dtype = Dtype::f32);
    /// The pair of a configuration. Throws what load_pair() throws
    explicit OfflineModel(RunConfig config);

    [[nodiscard]] const ModelPair& pair() const { return *m_pair; }
    [[nodiscard]] const LlamaModel& model() const { return *m_pair->teacher; }

private:
    RunConfig m_config;
    Execution m_execution;
    kernels::ExecutionScope m_scope;
    kernels::LibtorchThreads m_all_threads;
    std::shared_ptr<const ModelPair> m_pair;
};

} // namespace refreshlab::app
