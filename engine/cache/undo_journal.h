#pragma once

#include "engine/base/origin.h"
#include "engine/cache/dense_columns.h"
#include "engine/cache/entry_pool.h"

#include <cstdint>
#include <variant>
#include <vector>

namespace refreshlab {

/// Positions [first_pos, first_pos + origins.size()) of all layers as they stood before a change.
struct ReplacedColumns {
    int64_t first_pos = 0;
    KeptColumns kept;                 ///< of n columns or more; empty where no entry changed
    std::vector<Origin> origins;      ///< [n]
    std::vector<int32_t> refresh_ids; ///< [n]
};

/// A selection of entries of a dense cache, and what their positions were known as, before a change.
struct ReplacedSelection {
    std::vector<int64_t> positions;   ///< ascending
    KeptEntries kept;                 ///< of `positions`; empty where the entries are journalled apart
    std::vector<Origin> origins;      ///< [n]
    std::vector<int32_t> refresh_ids; ///< [n]
};

/// Entries of one KV head as they stood before a change; they may be held no more after it.
struct ReplacedEntries {
    int64_t layer = 0, kv_head = 0;
    std::vector<int64_t> positions; ///< ascending
    SavedEntries saved;             ///< of `positions`
    std::vector<int64_t> blended;   ///< those of them that a splice could write before, and not after
};

using Replaced = std::variant<ReplacedColumns, ReplacedEntries, ReplacedSelection>;

/// What one change replaced, and the step that made it. Nobody writes into what it keeps, so copies share it.
struct JournalEntry {
    int64_t step = 0;
    Replaced replaced;
};

/// What the changes of a cache have replaced, in their order, each marked with the step that made it. It keeps and hands out; its
/// owner puts the entries back.
///
/// Copying  cheap: tensors and blocks are shared.
class UndoJournal {
public:
    /// \param step  not below that of an entry that is still here (asserted)
    void add(int64_t step, Replaced replaced);
    /// The newest entry where its step is > `step`, else null. Valid until the next change.
    [[nodiscard]] const JournalEntry* newest_after(int64_t step) const;
    void drop_newest(); ///< there is one (asserted)
    /// Forgets what it holds of positions >= new_length: put back later, that would overwrite entries written since.
    void cut(int64_t new_length);
    [[nodiscard]] int64_t bytes() const; ///< on the host. A block that is still in use counts as well

private:
    std::vector<JournalEntry> m_entries;
};

} // namespace refreshlab
