#pragma once

#include "kernels/ops/dropout_site.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace refreshlab::kernels {

/// Key of one mask: with (site, element) it names every draw of a run, so nothing depends on call order or batching.
/// `pass` 0 means "no dropout" (the real token's row); MC passes are numbered from 1.
struct DropoutKey {
    uint64_t seed = 0;
    int64_t position = 0; ///< absolute position of the query token
    int32_t layer = 0;
    int32_t pass = 0;
};

/// Kept? True with probability 1 - p. Philox4x32-10 (Salmon et al. 2011) keyed by (seed, position, layer, site, pass,
/// element); shared/philox.h has the counter layout. p is rounded to a multiple of 2^-16 for the draw.
/// 0 <= p < 1, layer < 4096, pass < 65536, 0 <= position < 2^32                                    (asserted)
[[nodiscard]] bool dropout_keeps(const DropoutKey& key, DropoutSite site, uint64_t element, float p);

/// Multiplies row r of x [rows, channels] in place by mask/(1-p), drawn for key with pass = passes[r]; rows with pass 0
/// and p == 0 are left untouched bit for bit. Any device; same masks everywhere.
void dropout_rows_(at::Tensor& x, const DropoutKey& key, std::span<const int32_t> passes, DropoutSite site,
                   float p);

} // namespace refreshlab::kernels
