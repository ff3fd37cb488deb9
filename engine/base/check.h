#pragma once

/// RL_ASSERT, RL_DEBUG_ASSERT and InvariantError for everything above the kernels. The kernels use them too.
#include "kernels/shared/check.h" // IWYU pragma: export
