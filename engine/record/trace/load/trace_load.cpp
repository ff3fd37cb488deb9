#include "engine/record/trace/load/run_loader.h"
#include "engine/record/trace/trace_access.h"
#include "engine/record/trace/trace_store.h"

namespace refreshlab {

LabelledRuns load_labelled_trace(const std::filesystem::path& path) {
    LabelledRuns trace;
    trace::read_trace(path, [&](const trace::OpenTrace& file) {
        trace::RunLoader loader(file.db, file.version, path.string(), file.bytes);
        trace.runs = loader.load();
        trace.labels = loader.labels(trace.runs.size());
    });
    return trace;
}

std::vector<std::shared_ptr<Recording>> load_trace(const std::filesystem::path& path) {
    return load_labelled_trace(path).runs;
}

} // namespace refreshlab
