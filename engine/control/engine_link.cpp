#include "engine/control/engine_link.h"

namespace refreshlab {

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
