#pragma once

#include "kernels/ops/dropout.h"
#include "kernels/shared/philox.h"

#include <cstdint>

namespace refreshlab::kernels {

/// The Philox stream of one mask row. `high` = high 32 bits of its element numbers. 0 <= p < 1, layer < 4096,
/// pass < 65536, position < 2^32                                                                   (asserted)
[[nodiscard]] shared::MaskStream mask_stream(const DropoutKey& key, DropoutSite site, uint32_t high, float p);

} // namespace refreshlab::kernels
