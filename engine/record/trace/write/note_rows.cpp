#include "engine/record/trace/write/note_rows.h"

#include <string_view>

namespace refreshlab::trace {

NoteRows::NoteRows(sqlite::Database& db)
    : m_delete(db, "DELETE FROM notes WHERE run = ?")
    , m_insert(db, "INSERT INTO notes VALUES (?, ?, ?, ?, ?, ?, ?)") {}

void NoteRows::replace(int64_t run, std::span<const StepNote> notes) {
    m_delete.bind(0, run);
    m_delete.run();
    int64_t n = 0;
    for (const StepNote& note : notes) {
        m_insert.bind(0, run);
        m_insert.bind(1, ++n);
        m_insert.bind(2, note.first_step);
        m_insert.bind(3, note.last_step);
        m_insert.bind(4, static_cast<int64_t>(note.colour));
        m_insert.bind(5, std::string_view(note.text));
        m_insert.bind(6, std::string_view(note.made_at));
        m_insert.run();
    }
}

} // namespace refreshlab::trace
