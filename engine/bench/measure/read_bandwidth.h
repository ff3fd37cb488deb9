#pragma once

#include "engine/session/pair/run_execution.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

namespace refreshlab::bench {

/// How fast so many bytes are read again and again: 10^9 bytes a second. On a CPU all threads of the context read, each with the
/// widest loads of the processor; a buffer that fits into a cache is read from there, as the weights of a small model are. On a
/// GPU a sum of libtorch reads.
class ReadBuffer {
public:
    /// \param bytes  at least 4096 count
    ReadBuffer(Execution execution, at::Device device, int64_t bytes);
    /// Of so many timed passes; some more warm up.
    [[nodiscard]] std::vector<double> rates(int64_t passes) const;

private:
    Execution m_execution;
    at::Tensor m_buffer;
};

} // namespace refreshlab::bench
