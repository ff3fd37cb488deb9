#pragma once

#include "engine/cache/entry_pool.h"

#include <cstdint>
#include <memory>
#include <span>

namespace refreshlab::joined_rows {

// Blocks whose codec joins rows (EntryCodec::joins): a row's bytes go from block to block as they are. A policy that encodes each token by
// itself would have a block for each without that, and attention would look for every one of them.

inline constexpr int64_t most = 64; ///< rows that are joined

/// The rows of both, by position. Both are of one codec, and all of their rows are held.
[[nodiscard]] std::shared_ptr<const CodedBlock> with(const CodedBlock& a, const CodedBlock& b);
/// What is left without these positions, ascending; other rows that were let go are gone too.
[[nodiscard]] std::shared_ptr<const CodedBlock> without(const CodedBlock& block,
                                                        std::span<const int64_t> positions);
/// The held rows of the block, with those of `newer` in place of its own where both have a position.
[[nodiscard]] std::shared_ptr<const CodedBlock> replaced(const CodedBlock& block, const CodedBlock& newer);

} // namespace refreshlab::joined_rows
