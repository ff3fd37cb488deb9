#include "app/base/build_commit.h"
#include "app/options/engine_module.h"
#include "kernels/execution/tensor_memory.h"

// What app/loader/load_engine.cpp looks up by name. Everything else of the library is for the package of Python, which links it (python/).

/// Version and commit of the sources, as the program has them too: classes cross the border, so both must be of one build.
extern "C" __attribute__((visibility("default"))) const char* refreshlab_engine_build() {
    return refreshlab::app::build_stamp();
}

extern "C" __attribute__((visibility("default"))) const refreshlab::app::EngineModule* refreshlab_engine() {
    refreshlab::kernels::use_tensor_memory(); // the program's alone: in Python libtorch is somebody else's
    return &refreshlab::app::engine_module();
}
