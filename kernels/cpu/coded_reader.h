#pragma once

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/cpu_tensors.h"
#include "kernels/ops/attention.h"

#include <algorithm>
#include <cstdint>

namespace refreshlab::kernels::cpu {

/// Some of a head's channels.
struct Channels {
    int64_t begin, count;
};

/// Some of the coded entries of a list, which are read in one way, as rows.
struct CodedPart {
    int64_t begin = 0; ///< in the list
    int64_t n = 0;
    const int64_t* ones = nullptr; ///< which ones, from `begin`; null: 0, 1, 2, ...
    bool turned = false;
    int64_t width = 0;  ///< of a row
    int64_t stride = 0; ///< from row to row
    const void* rows = nullptr;
    ElementType type = ElementType::f32;
    const int64_t* index = nullptr;  ///< of the rows; null: 0, 1, 2, ...
    bool made = false;               ///< just now
    const int64_t* places = nullptr; ///< null: rows stand as they are read; else make_rows() makes them
    int64_t first_channel = 0;
};

/// The coded entries of a list as rows that kernels read: where they stand, or made a few at a time, so that they stay in the first cache
/// until they are read. Made rows belong to the calling thread and are there until it makes the next ones.
class CodedReader {
public:
    /// \param columns  of the list: places of the entries
    /// \param type     of the cache
    /// \param from_codes  few rows will be made (CodedEntries::dots()), so parts are as long as they can be
    CodedReader(const CodedEntries& entries, const int64_t* columns, int64_t head_dim, ElementType type,
                bool from_codes)
        : m_entries(entries)
        , m_columns(columns)
        , m_head_dim(head_dim)
        , m_type(type)
        , m_from_codes(from_codes) {}

    /// Calls visit(part) for entries [begin, end) of the list. Those that are read in one way come in order; where entries of both ways
    /// stand side by side the turned ones come after the plain ones.
    /// \param c  channels of plain rows; turned ones are whole
    template <typename Visit>
    void each(bool values, int64_t begin, int64_t end, Channels c, Visit visit) const {
        CodedPart part;
        int64_t own_places[CodedEntries::at_once];
        while (begin < end) {
            if (next_stretch(values, begin, end, c, part)) {
                visit(part);
                begin += part.n;
                continue;
            }
            CodedEntries::Sorted sorted;
            const int64_t n = std::min(most_made(values), end - begin);
            m_entries.sort(values, m_columns + begin, n, sorted);
            for (const bool turned : {false, true}) {
                if ((turned ? sorted.turned : sorted.plain).n == 0) continue;
                some_of(values, begin, n, sorted, turned, c, own_places, part);
                visit(part);
            }
            begin += n;
        }
    }

    /// Makes the rows of a part that has none.
    void make_rows(CodedPart& part, bool values) const;
    /// As CodedEntries has them.
    [[nodiscard]] static CodedEntries::Some some_of(const CodedPart& part, bool values) {
        return {values, part.turned, part.places, part.n, part.first_channel, part.width};
    }

    /// Room for numbers of the calling thread: scores, or weights, of the entries of a part.
    [[nodiscard]] static float* numbers(int64_t n);

private:
    /// Entries whose rows are made at once.
    [[nodiscard]] int64_t most_made(bool values) const;
    /// The first entries as a part, if enough of them are read in one way.
    bool next_stretch(bool values, int64_t begin, int64_t end, Channels c, CodedPart& part) const;
    /// Those of n sorted entries that are read in one way.
    void some_of(bool values, int64_t begin, int64_t n, const CodedEntries::Sorted& sorted, bool turned,
                 Channels c, int64_t* own_places, CodedPart& part) const;
    void stand(CodedPart& part, bool values, const void* rows, int64_t stride, Channels c) const;
    void are_made(CodedPart& part, bool values, const int64_t* places, Channels c) const;

    const CodedEntries& m_entries;
    const int64_t* m_columns;
    int64_t m_head_dim;
    ElementType m_type;
    bool m_from_codes;
};

} // namespace refreshlab::kernels::cpu
