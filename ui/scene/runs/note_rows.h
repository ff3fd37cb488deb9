#pragma once

#include "engine/record/notes/run_notes.h"
#include "ui/scene/runs/run_set.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace refreshlab::ui {

/// A note of a run of the window.
struct NoteRow {
    RunKey run = 0; ///< that shows it: its own, or where that is not here one that has its steps
    std::string run_name;
    std::shared_ptr<RunNotes> owner; ///< never null
    StepNote note;                   ///< as its owner has it
};
enum class NoteColumn : uint8_t { steps, words, run, written };
inline constexpr size_t num_note_columns = 4;
[[nodiscard]] std::string_view note_column_name(NoteColumn column);

/// Every note of every run of the window, once: by run in the order of the tree, then by step.
[[nodiscard]] std::vector<NoteRow> note_rows(const RunSet& runs);
/// Differs whenever note_rows() may: each run with its notes, their revision, and its name.
using NoteRowsKey = std::vector<std::tuple<RunKey, std::shared_ptr<const RunNotes>, uint64_t, std::string>>;
[[nodiscard]] NoteRowsKey note_rows_key(const RunSet& runs);
/// Stable: equal ones stay in their order.
void sort_notes(std::vector<NoteRow>& rows, NoteColumn column, bool descending);
/// The words stand in its text, its place ("steps 5 to 9") or its run's name. The case of ASCII letters does not count.
[[nodiscard]] bool note_has(const NoteRow& row, std::string_view words);
/// A run shows this note at its own steps: it wrote it, or shares them with the run that did.
[[nodiscard]] bool shows_note(const Recording& run, const NoteRow& row);
/// "first_step,last_step,run,written,note", a line each.
[[nodiscard]] std::string notes_csv(const std::vector<NoteRow>& rows);

} // namespace refreshlab::ui
