#pragma once

#include <stdexcept>
#include <string>

namespace refreshlab {

/// A broken invariant: a bug of this program, never bad input. It ends the run and not the program. Tests may expect
/// it.
class InvariantError : public std::logic_error {
public:
    using std::logic_error::logic_error;
};

[[noreturn]] inline void invariant_failed(const char* condition, const char* file, int line) {
    throw InvariantError(std::string(file) + ":" + std::to_string(line) + ": " + condition);
}

} // namespace refreshlab

/// Cheap checks, on in every build.
#define RL_ASSERT(condition)                                                                                 \
    do {                                                                                                     \
        if (!(condition)) ::refreshlab::invariant_failed(#condition, __FILE__, __LINE__);                    \
    } while (false)

/// Costly checks (whole tensors read), only in builds without NDEBUG.
#ifdef NDEBUG
#define RL_DEBUG_ASSERT(condition)                                                                           \
    do {                                                                                                     \
    } while (false)
#else
#define RL_DEBUG_ASSERT(condition) RL_ASSERT(condition)
#endif
