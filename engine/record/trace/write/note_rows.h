#pragma once

#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/sqlite.h"

#include <cstdint>
#include <span>

namespace refreshlab::trace {

/// The rows of the table notes. Throws SqlError.
class NoteRows {
public:
    explicit NoteRows(sqlite::Database& db);
    /// These are the run's notes now, numbered from 1 in this order.
    void replace(int64_t run, std::span<const StepNote> notes);

private:
    sqlite::Statement m_delete, m_insert;
};

} // namespace refreshlab::trace
