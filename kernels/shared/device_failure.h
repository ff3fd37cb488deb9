#pragma once

#include <stdexcept>

namespace refreshlab::kernels {

/// A call to a device's runtime that failed: the device, its driver or its memory is at fault, not the program. The message is one line:
/// what was being done, and the runtime's words. What was under way is lost; whoever owns the run ends it.
class DeviceFailure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

} // namespace refreshlab::kernels
