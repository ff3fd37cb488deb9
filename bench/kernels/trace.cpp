#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>

/// What a program's kernels take on a GPU, one line a launch, inside of graphs too: a library that the CUDA driver loads into the program
/// (CUDA_INJECTION64_PATH names it), which asks CUPTI and writes to the file that REFRESHLAB_KERNEL_TRACE names. No part of the program.
///
///   start_ns,end_ns,grid_x,grid_y,grid_z,block_x,block_y,block_z,shared_bytes,kernel
/// Source: CUPTI 13.0, Activity API; CUDA Driver API, injection.
namespace {

std::FILE* out = nullptr;

void give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
    constexpr size_t bytes = size_t{1} << 20;
    *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, bytes));
    *size = *buffer == nullptr ? 0 : bytes;
    *most_records = 0; // as many as fit
}

void write_launch(const CUpti_ActivityKernel10& k) {
    int status = 0;
    char* const name = abi::__cxa_demangle(k.name, nullptr, nullptr, &status);
    std::fprintf(out, "%llu,%llu,%d,%d,%d,%d,%d,%d,%d,\"%s\"\n", static_cast<unsigned long long>(k.start),
                 static_cast<unsigned long long>(k.end), k.gridX, k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ,
                 k.dynamicSharedMemory, status == 0 && name != nullptr ? name : k.name);
    std::free(name);
}

void take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t filled) {
    CUpti_Activity* record = nullptr;
    while (out != nullptr && cuptiActivityGetNextRecord(buffer, filled, &record) == CUPTI_SUCCESS)
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
            write_launch(*reinterpret_cast<const CUpti_ActivityKernel10*>(record));
    std::free(buffer);
}

void finish() {
    (void)cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (out != nullptr && std::fclose(out) != 0) std::fputs("kernel trace: the file is not whole\n", stderr);
    out = nullptr;
}

} // namespace

/// Called by the driver when it starts. \return 1: all well
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
    const char* const path = std::getenv("REFRESHLAB_KERNEL_TRACE");
    if (path == nullptr) return 1;
    out = std::fopen(path, "w");
    if (out == nullptr || cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS) {
        std::fputs("kernel trace: cannot be taken\n", stderr);
        return 0;
    }
    std::fputs("start_ns,end_ns,grid_x,grid_y,grid_z,block_x,block_y,block_z,shared_bytes,kernel\n", out);
    (void)std::atexit(finish);
    return 1;
}
