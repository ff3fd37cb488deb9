#pragma once

#include <filesystem>

namespace refreshlab {

class RunNotes;

/// Puts the notes of a run into its trace, in the place of those that stand there; all else in the file stays. A trace of schema 3 or
/// later is brought up to the present schema. One transaction: a kill leaves what was there. For a trace that nobody records: a
/// TraceStore writes the notes of its runs itself.
/// Throws Error{bad_input}: no trace, no such run, another program has it locked, not writable, a trace of an older schema; Error{failure}
/// where the machine is at fault.
void store_notes(const std::filesystem::path& path, const RunNotes& notes);

} // namespace refreshlab
