#include "engine/record/trace/load/checked_values.h"
#include "engine/record/trace/load/run_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace refreshlab::trace {

namespace {

using sqlite::Statement;

/// A value that came with a later boundary than its step.
struct Fill {
    int64_t known, step;
    size_t signal;
    float value;
};

StepRecord& own_record(std::vector<StepRecord>& records, int64_t before, int64_t step) {
    within(step, before + 1, before + static_cast<int64_t>(records.size()), "step");
    return records[static_cast<size_t>(step - before - 1)];
}

std::vector<StepRecord> read_records(const RunSource& run, const Recording& recording) {
    std::vector<StepRecord> records;
    Statement rows(run.db, run.select("steps", "step"));
    rows.bind(0, run.number);
    const int64_t last_id = largest_id(recording);
    while (rows.step()) {
        StepRecord record;
        const int64_t expected = recording.steps() + static_cast<int64_t>(records.size()) + 1;
        record.step = within(rows.integer(1), expected, std::min(expected, max_steps), "step");
        record.position = recording.prompt_length() + record.step - 1;
        within(rows.integer(2), record.position, record.position, "position");
        record.token_id = run.known_id(within32(rows.integer(3), -1, last_id, "token id"));
        record.next_token_id = run.known_id(within32(rows.integer(4), -1, last_id, "next token id"));
        record.producer = static_cast<Producer>(within(rows.integer(5), 0, 1, "producer"));
        record.next_producer = static_cast<Producer>(within(rows.integer(6), 0, 1, "producer"));
        record.fed = within(rows.integer(7), 0, 1, "fed") != 0;
        record.arrival_ms = number_or_nan(rows, 8);
        for (size_t part = 0; part < num_parts; ++part) {
            record.part_ms[part] = static_cast<float>(number_or_nan(rows, 9 + static_cast<int>(part)));
        }
        record.signals.fill(absent());
        records.push_back(record);
    }
    return records;
}

void read_candidates(const RunSource& run, const Recording& recording, std::vector<StepRecord>& records,
                     int64_t before) {
    Statement rows(run.db, "SELECT step, rank, token_id, prob FROM topk WHERE run = ? ORDER BY step, rank");
    rows.bind(0, run.number);
    const int64_t last_id = largest_id(recording);
    while (rows.step()) {
        StepRecord& record = own_record(records, before, rows.integer(0));
        within(rows.integer(1), record.top_k, std::min<int64_t>(record.top_k, max_top_k - 1), "rank");
        record.top_ids[record.top_k] = run.known_id(within32(rows.integer(2), -1, last_id, "token id"));
        record.top_probs[record.top_k] = real32(rows, 3);
        ++record.top_k;
    }
}

/// Measured values go into their records. \return the back-filled ones, by boundary
std::vector<Fill> read_signals(const RunSource& run, const Recording& recording,
                               std::vector<StepRecord>& records, int64_t before) {
    std::vector<Fill> fills;
    Statement rows(run.db, "SELECT step, signal, known, value FROM signals WHERE run = ?");
    rows.bind(0, run.number);
    const int64_t last = before + static_cast<int64_t>(records.size());
    while (rows.step()) {
        const auto id = recording.signal_id(rows.text(1));
        if (!id) continue; // a signal that this program does not have: nothing here could show it
        const int64_t step = within(rows.integer(0), 1, last, "step of a signal");
        const int64_t known = within(rows.integer(2), step, last + 1, "boundary of a signal");
        if (known == step) {
            own_record(records, before, step).signals[*id] = real32(rows, 3);
        } else {
            fills.push_back({known, step, *id, real32(rows, 3)});
        }
    }
    std::ranges::sort(fills, {}, [](const Fill& f) { return std::tuple(f.known, f.signal, f.step); });
    return fills;
}

/// By record; shorter where the last ones have none.
std::vector<LayerValues> read_layers(const RunSource& run, const Recording& recording,
                                     std::vector<StepRecord>& records, int64_t before) {
    std::vector<LayerValues> layers;
    if (run.version < 3) return layers;
    Statement rows(run.db,
                   "SELECT step, signal, layer_values FROM layers WHERE run = ? ORDER BY step, signal");
    rows.bind(0, run.number);
    while (rows.step()) {
        const int64_t step = own_record(records, before, rows.integer(0)).step;
        const auto id = recording.signal_id(rows.text(1));
        if (!id) continue;
        if (!recording.signals()[*id].layered)
            throw Damage(fmt::format("signal {} has layers in step {}", recording.signals()[*id].name, step));
        const auto of_layers = values<float>(rows, 2, recording.info().layers, "a layered signal");
        const auto at = static_cast<size_t>(step - before - 1);
        if (layers.size() <= at) layers.resize(at + 1);
        layers[at].set(*id, of_layers);
    }
    return layers;
}

} // namespace

void load_steps(const RunSource& run, Recording& recording) {
    const int64_t before = recording.steps();
    std::vector<StepRecord> records = read_records(run, recording);
    read_candidates(run, recording, records, before);
    const std::vector<Fill> fills = read_signals(run, recording, records, before);
    std::vector<LayerValues> layers = read_layers(run, recording, records, before);

    // Between the records the back-fills, each after the boundary at which it was made.
    auto next = fills.begin();
    const auto fill_up_to = [&](int64_t known) {
        while (next != fills.end() && next->known <= known) {
            if (next->known != recording.steps() + 1)
                throw Damage("a back-filled value belongs to no boundary");
            const Fill& first = *next;
            std::vector<float> filled; // of neighbouring steps
            for (; next != fills.end() && next->known == first.known && next->signal == first.signal &&
                   next->step == first.step + static_cast<int64_t>(filled.size());
                 ++next) {
                filled.push_back(next->value);
            }
            recording.back_fill(first.signal, first.step, filled);
        }
    };
    for (const StepRecord& record : records) {
        fill_up_to(record.step);
        const auto at = static_cast<size_t>(record.step - before - 1);
        recording.append(record, at < layers.size() ? layers[at] : LayerValues{});
    }
    fill_up_to(recording.steps() + 1);
    if (next != fills.end()) throw Damage("a back-filled value belongs to no boundary");
}

} // namespace refreshlab::trace
