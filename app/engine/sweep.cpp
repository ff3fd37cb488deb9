#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/options/sweep_options.h"
#include "app/options/table_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/results/sweep_table.h"
#include "engine/session/decode/decode_session.h"
#include "engine/study/sweep/sweep_cells.h"
#include "engine/study/sweep/sweep_run.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace refreshlab::app {

namespace {

namespace fs = std::filesystem;

std::string duration(double seconds) {
    const auto s = static_cast<int64_t>(seconds + 0.5);
    if (s < 60) return fmt::format("{} s", s);
    if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
    return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

/// A bar that overwrites itself on a terminal; elsewhere a line for every twentieth of the work.
class Bar {
public:
    ~Bar() { end(); }
    void show(const SweepProgress& p) {
        const bool open = p.left_s && p.done < p.total;
        const std::string left = open ? ", " + duration(*p.left_s) + " left" : "";
        const std::string waiting =
            p.elsewhere > 0 ? fmt::format(", waiting for {} of another process", p.elsewhere) : "";
        const std::string numbers = fmt::format("{}/{} runs{}{}", p.done, p.total, left, waiting);
        if (m_terminal) {
            const std::string text = fmt::format("{:3.0f} %  {}", 100 * p.fraction, numbers);
            const int room =
                m_columns - 4 - static_cast<int>(text.size()); // a line that wraps is not overwritten
            const int width = std::min(room, 30), full = static_cast<int>(p.fraction * width);
            draw(width < 5 ? text : fmt::format("[{:#<{}}{:.<{}}] {}", "", full, "", width - full, text));
            return;
        }
        const int part = static_cast<int>(20 * p.fraction);
        if (part <= m_part && (p.elsewhere == 0 || m_waiting)) return;
        m_part = part;
        m_waiting = p.elsewhere > 0;
        say("sweep: {:3.0f} %, {}\n", 100 * p.fraction, numbers);
    }
    void show_loading(double fraction, const std::string& what) {
        if (m_terminal) draw(fmt::format("{} {:.0f} %", what, 100 * fraction));
    }
    void end() {
        if (m_open) say("\n");
        m_open = false;
    }

private:
    void draw(const std::string& line) {
        draw_line(line.substr(0, static_cast<size_t>(m_columns - 1)));
        m_open = true;
    }
    static int columns_of_terminal() {
        winsize size{};
        const bool known = ioctl(fileno(stderr), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
        return known ? size.ws_col : 80;
    }

    bool m_terminal = isatty(fileno(stderr)) != 0, m_open = false;
    bool m_waiting = false; ///< that was said
    int m_columns = columns_of_terminal(), m_part = -1;
};

std::string default_out(const std::string& spec, const SweepShard& shard) {
    const std::string stem = fs::path(spec).stem().string();
    return shard.count == 1 ? stem + ".db"
                            : fmt::format("{}.shard-{}-of-{}.db", stem, shard.index, shard.count);
}

void dry_run(const SweepSpec& spec, const SweepPlan& plan, const SweepShard& shard, const std::string& out) {
    const auto mine = cells_of(plan, shard);
    size_t found = 0;
    if (fs::exists(out)) {
        const auto finished = SweepStore::open_existing(out, true)->finished();
        for (const size_t cell : mine)
            found += finished.contains(plan.cells[cell].id) ? 1 : 0;
    }
    int64_t pairs = 0;
    for (const size_t cell : mine)
        pairs += plan.pairs(plan.cells[cell]);
    print("{} rows x {} prompts x {} seeds = {} runs, {} of them different\n", spec.rows.size(),
          spec.prompts.size(), spec.seeds.size(), plan.cells.size(), cells_of(plan, {}).size());
    print("shard {}/{}: {} runs, {} of them in {} already; {} timed pairs\n", shard.index, shard.count,
          mine.size(), found, out, pairs);
    for (const SweepRow& row : spec.rows)
        print("  {}\n", row.label);
}

} // namespace

int carry_out(const SweepCommandOptions& options) {
    options.tables.check();
    const SweepShard shard = sweep_shard(options.shard);
    const fs::path assets = assets_if_any(); // a spec may name models and prompts of its own
    const std::string text = read_file(options.spec, size_t{1} << 26);
    SweepSpec spec = parse_sweep_spec(text, options.spec, first_start_config(assets),
                                      sweep_files(fs::path(options.spec).parent_path(), assets));
    for (SweepRow& row : spec.rows) {
        if (!options.teacher.empty()) row.config.teacher_dir = options.teacher;
        if (!options.student.empty()) row.config.student_dir = settled_model(options.student);
    }
    const RunConfig bundled = first_start_config(assets);
    const bool needed = std::any_of(spec.rows.begin(), spec.rows.end(), [&](const SweepRow& row) {
        return row.config.teacher_dir == bundled.teacher_dir || row.config.student_dir == bundled.student_dir;
    });
    if (assets.empty() && needed) (void)find_assets(); // throws, saying where was looked
    if (spec.name.empty()) spec.name = fs::path(options.spec).stem().string();
    if (spec.repeated_prompts > 0)
        say("sweep: {} prompts repeat earlier ones exactly and count once\n", spec.repeated_prompts);

    SweepOptions run;
    run.jobs = options.jobs;
    run.devices = options.devices;
    run.shard = shard;
    const SweepPlan plan = make_sweep_plan(spec, sweep_models(spec, run));
    static_cast<void>(make_sweep_table(
        plan, {}, options.tables.against())); // an unknown row is refused before anything is computed
    const std::string out = options.out.empty() ? default_out(options.spec, shard) : options.out;
    std::vector<NamedFile> outputs = options.tables.files(), inputs = {{"the spec", options.spec}};
    outputs.insert(outputs.begin(), {"--out", out});
    for (const SweepRow& row : spec.rows) {
        inputs.push_back({"the teacher", row.config.teacher_dir});
        inputs.push_back({"the student", row.config.student_dir});
    }
    check_outputs(outputs, inputs);
    if (options.dry_run) {
        dry_run(spec, plan, shard, out);
        return 0;
    }
    const auto store = SweepStore::open(out, plan);
    if (const auto sets = store->kernel_sets(); std::ranges::find(sets, "") != sets.end())
        say("note: {} holds runs of an earlier program, which did not say with which kernel set it made "
            "them\n",
            out);
    note_interrupts(); // from here on the runs in flight are given up in good order
    Bar bar;
    const SweepOutcome outcome = run_sweep(
        spec, plan, *store, run, interrupt_flag(), [&](const SweepProgress& p) { bar.show(p); },
        [&](double fraction, const std::string& what) { bar.show_loading(fraction, what); });
    bar.end();
    say("sweep: {} of {} runs in {}: {} found there, {} computed now\n", outcome.found + outcome.computed,
        outcome.total, out, outcome.found, outcome.computed);
    if (outcome.failed > 0) {
        for (const auto& [id, problem] : store->failures())
            say("sweep: a run failed: {}\n", problem);
    }
    if (outcome.elsewhere > 0) // stopped while it waited for them
        say("sweep: {} runs were being computed by another process on this file\n", outcome.elsewhere);
    if (outcome.stopped) {
        say("sweep: stopped; the same command continues where this one ended\n");
        return 128 + interrupted();
    }
    const SweepTable table = make_sweep_table(plan, store->results(), options.tables.against());
    if (table.overhead_lacks_none) say("sweep: {}\n", overhead_hint);
    // A shard's table is a part of one: written when asked for, not printed.
    options.tables.write(table, shard.count == 1);
    return outcome.complete() ? 0 : 1;
}

} // namespace refreshlab::app
