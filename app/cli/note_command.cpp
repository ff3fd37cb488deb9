#include "app/base/output.h"
#include "app/base/trace_runs.h"
#include "app/cli/commands.h"
#include "engine/base/error.h"
#include "engine/record/notes/run_notes.h"
#include "engine/record/trace/trace_notes.h"
#include "engine/record/trace/trace_store.h"
#include "engine/text/utf8.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>

namespace refreshlab::app {

namespace {

struct NoteOptions {
    std::string trace, run, steps, text;
    uint32_t colour = 0;
    int64_t erase = 0; ///< number in the list
    bool has_text = false, erases = false;
};

/// "42", "40-60"; the steps that a note stands on.
StepNote place_of(const std::string& text, int64_t steps) {
    StepNote note;
    const char* const end = text.data() + text.size();
    auto [after, error] = std::from_chars(text.data(), end, note.first_step);
    note.last_step = note.first_step;
    if (error == std::errc() && after != end && *after == '-') {
        const auto last = std::from_chars(after + 1, end, note.last_step);
        after = last.ptr;
        error = last.ec;
    }
    if (error != std::errc() || after != end)
        throw Error("reading", "--step", "'" + visible_text(text, 40) + "' is no step",
                    "for example --step 42, or --step 40-60");
    if (note.first_step < 1 || note.last_step < note.first_step || note.last_step > steps)
        throw Error("reading", "--step",
                    note_place(note) + ": the run has steps 1 to " + fmt::format("{}", steps));
    return note;
}

void list(const RunNotes& notes) {
    const auto seen = notes.seen();
    for (size_t i = 0; i < seen.size(); ++i) {
        const StepNote& note = seen[i].note;
        print("{}. {}, colour {}{}: {}\n", i + 1, note_place(note), note.colour,
              seen[i].owner ? ", of run " + seen[i].owner->run_id() : "",
              note.text.empty() ? "(bookmark)" : note.text);
    }
    if (seen.empty()) say("note: run {} has no notes\n", notes.run_id());
}

int keep(const NoteOptions& options) {
    const auto runs = load_trace(options.trace);
    const auto run = chosen_run(runs, options.run, "noting", options.trace);
    const std::shared_ptr<RunNotes> notes = run->notes();
    if (options.erases) {
        const auto seen = notes->seen();
        if (options.erase < 1 || options.erase > static_cast<int64_t>(seen.size()))
            throw Error("reading", "--erase", fmt::format("there is no note {}", options.erase),
                        fmt::format("run {} shows {} of them; without options they are listed",
                                    notes->run_id(), seen.size()));
        const RunNotes::Seen& gone = seen[static_cast<size_t>(options.erase - 1)];
        const std::shared_ptr<RunNotes> owner = gone.owner ? gone.owner : notes;
        owner->erase(gone.note.id);
        store_notes(options.trace, *owner);
        say("note: erased at {} of run {}\n", note_place(gone.note), owner->run_id());
        return 0;
    }
    if (options.steps.empty()) {
        if (options.has_text) throw Error("reading", "--text", "a note stands on a step", "give --step N");
        list(*notes);
        return 0;
    }
    StepNote note = place_of(options.steps, run->steps());
    note.text = options.text;
    note.colour = options.colour;
    notes->add(note);
    store_notes(options.trace, *notes);
    say("note: kept at {} of run {}\n", note_place(note), notes->run_id());
    return 0;
}

} // namespace

Command add_note_command(CLI::App& app) {
    auto options = std::make_shared<NoteOptions>();
    CLI::App* command = app.add_subcommand(
        "note", "Write notes beside a recorded run's steps into its trace, list and erase them");
    command->add_option("TRACE", options->trace, "A trace that no run is writing to at the moment")
        ->required();
    command->add_option("--step", options->steps, "The step, or the steps A-B, that a new note stands on")
        ->type_name("N|A-B");
    CLI::Option* const text =
        command->add_option("--text", options->text, "What it says; left out: a bookmark")->type_name("TEXT");
    command->add_option("--colour", options->colour, "Its colour, 0 to 7 (default 0)")
        ->type_name("K")
        ->check(CLI::Range(0U, note_colours - 1));
    CLI::Option* const erase =
        command->add_option("--erase", options->erase, "Erase the note with this number in the list")
            ->type_name("N");
    erase->excludes("--step")->excludes("--text");
    command->add_option("--run", options->run, "Id of one run of the trace (default: the newest)")
        ->type_name("ID");
    command->footer("Without --step and --erase it lists the notes that the run shows, also those of its "
                    "parent on shared steps.\n");
    return [options, text, erase] {
        options->has_text = text->count() > 0;
        options->erases = erase->count() > 0;
        return keep(*options);
    };
}

} // namespace refreshlab::app
