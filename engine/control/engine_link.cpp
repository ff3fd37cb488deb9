#include "engine/control/engine_link.h"

#include "engine/base/error.h"

namespace refreshlab {

void EngineLink::fetch_file(const std::string& name, const std::filesystem::path&,
                            const std::function<bool(double share)>&) const {
    throw Error("fetching", name, "the engine is in this process, and its files are here");
}

const char* to_string(EngineState s) {
    switch (s) {
    case EngineState::idle:
        return "idle";
    case EngineState::loading:
        return "loading";
    case EngineState::prefilling:
        return "prefilling";
    case EngineState::running:
        return "running";
    case EngineState::paused:
        return "paused";
    case EngineState::finished:
        return "finished";
    case EngineState::failed:
        return "failed";
    }
    return "unknown";
}

} // namespace refreshlab
