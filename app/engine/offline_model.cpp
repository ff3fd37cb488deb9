#include "app/engine/offline_model.h"

#include "app/base/output.h"
#include "app/options/run_options.h"
#include "engine/base/error.h"

#include <filesystem>
#include <utility>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

RunConfig config_of(const std::string& model, int threads, Dtype dtype) {
    RunConfig config;
    config.mode = Mode::teacher;
    config.teacher_dir = model;
    config.device = "cpu";
    config.threads = threads;
    config.dtype = dtype;
    return config;
}

} // namespace

void check_files_of_work(const std::string& model, const std::vector<std::string>& texts,
                         const std::string& out, const char* option) {
    std::vector<NamedFile> inputs{{option, model}};
    for (const std::string& file : texts)
        inputs.push_back({"--texts", file});
    check_outputs(std::vector<NamedFile>{{"--out", out}}, inputs);
    const fs::path folder = fs::absolute(out).parent_path();
    if (!fs::is_directory(folder))
        throw Error("writing --out", folder.string(), "no such folder", "make it first");
}

OfflineModel::OfflineModel(const std::string& model, int threads, Dtype dtype)
    : OfflineModel(config_of(model, threads, dtype)) {}

OfflineModel::OfflineModel(RunConfig config)
    : m_config((note_threads(config.threads), std::move(config)))
    , m_execution(make_execution(m_config))
    , m_scope(*m_execution)
    , m_pair(load_pair(m_config)) {}

} // namespace refreshlab::app
