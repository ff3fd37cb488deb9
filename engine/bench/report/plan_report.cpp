#include "engine/bench/report/plan_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <vector>

namespace refreshlab::bench {

namespace {

using kernels::decode::LaunchTraffic;
using kernels::decode::PlannedLaunch;

double mega(int64_t bytes) {
    return static_cast<double>(bytes) * 1e-6;
}

/// Launches that differ in their layer alone.
struct Row {
    const PredictedLaunch* first;
    int64_t times;
};

bool same(const PredictedLaunch& a, const PredictedLaunch& b) {
    return a.launch.kernel == b.launch.kernel && std::string_view(a.launch.part) == b.launch.part &&
           a.launch.dependent == b.launch.dependent && a.launch.traffic == b.launch.traffic &&
           a.launch.busy_blocks == b.launch.busy_blocks;
}

std::vector<Row> rows_of(const PredictedStep& step) {
    std::vector<Row> rows;
    for (const PredictedLaunch& p : step.launches) {
        const auto found = std::ranges::find_if(rows, [&](const Row& row) { return same(*row.first, p); });
        if (found == rows.end())
            rows.push_back({&p, 1});
        else
            ++found->times;
    }
    return rows;
}

/// Why registers are not known, and of what.
std::string why_unknown(const PredictedStep& step) {
    if (!step.with_nvcc) return "not known (built without nvcc)";
    std::string parts;
    for (const Row& row : rows_of(step))
        if (!row.first->resources)
            parts += fmt::format("{}{}", parts.empty() ? "" : ", ", row.first->launch.part);
    return fmt::format("not known of {} (this build has no assembled code of these kernels for sm_{})", parts,
                       step.device.architecture);
}

void add_impossible(const PredictedStep& step, std::vector<std::string>& notes) {
    for (const Row& row : rows_of(step)) {
        const PredictedLaunch& p = *row.first;
        if (p.occupancy.blocks_per_sm == 0)
            notes.push_back(
                fmt::format("{} CANNOT RUN on this device: a block asks for {} bytes of shared memory, {} "
                            "registers a thread; its time is that of one block per SM",
                            p.launch.part, p.launch.shape.shared_bytes,
                            p.resources ? fmt::to_string(p.resources->registers) : "unknown"));
    }
}

std::vector<std::string> notes_of(const PlanReport& r) {
    const PredictedStep& step = r.step;
    std::vector<std::string> notes{
        "a PREDICTION: nothing was run on a GPU. Bytes and launches are exact; times follow from published "
        "numbers and assumptions (docs/howto/decode-plan.md)"};
    if (!step.knows_registers())
        notes.push_back("registers and spills: " + why_unknown(step) +
                        "; blocks per SM are those that threads and shared memory allow");
    add_impossible(step, notes);
    if (r.refresh) add_impossible(r.refresh->work, notes);
    if (step.fits_l2)
        notes.push_back("weights and cache fit into this device's L2: a step may be faster than the floor, "
                        "which counts memory");
    if (r.model.shape.rows > 1) notes.push_back("masks of dropout are counted in attention MC alone");
    return notes;
}

nlohmann::json json_of(const PredictedLaunch& p, size_t index) {
    const PlannedLaunch& l = p.launch;
    const LaunchTraffic& t = l.traffic;
    nlohmann::json out{{"index", index},
                       {"kernel", name_of(l.kernel)},
                       {"part", l.part},
                       {"layer", l.layer < 0 ? nlohmann::json() : nlohmann::json(l.layer)},
                       {"grid", l.shape.grid},
                       {"block", l.shape.block},
                       {"cluster", l.shape.cluster},
                       {"shared_bytes", l.shape.shared_bytes},
                       {"dependent", l.dependent},
                       {"busy_blocks", l.busy_blocks},
                       {"registers", nullptr},
                       {"spill_bytes", nullptr},
                       {"blocks_per_sm", p.occupancy.blocks_per_sm},
                       {"occupancy", p.occupancy.share},
                       {"occupancy_limit", name_of(p.occupancy.limit)},
                       {"rounds", p.rounds},
                       {"bytes", t.floor()},
                       {"bytes_read", t.read()},
                       {"bytes_written", t.written()},
                       {"traffic",
                        {{"matrices", t.matrices},
                         {"small_weights", t.small_weights},
                         {"cache", t.cache},
                         {"cache_written", t.cache_written},
                         {"again", t.again},
                         {"activations", t.activations},
                         {"activations_written", t.activations_written},
                         {"host_written", t.host_written}}},
                       {"tensor_multiply_adds", l.tensor_multiply_adds},
                       {"floor_us", p.floor_us()},
                       {"chain_us", p.chain_us()},
                       {"gap_us", p.gap_us},
                       {"predicted_us", p.predicted_us()},
                       {"bound", name_of(p.bound)}};
    if (p.resources) {
        out["registers"] = p.resources->registers;
        out["spill_bytes"] = p.resources->spill_stores + p.resources->spill_loads;
        out["stack_bytes"] = p.resources->stack_bytes;
        out["static_shared_bytes"] = p.resources->shared_bytes;
        out["assembled_for"] = p.resources->architecture;
    }
    return out;
}

nlohmann::json json_of(const DeviceModel& d) {
    return {{"name", d.name},
            {"title", d.title},
            {"architecture", d.architecture},
            {"bandwidth_bytes_per_s", d.bandwidth},
            {"latency_ns", d.latency_ns},
            {"l2_bandwidth_bytes_per_s", d.l2_bandwidth},
            {"l2_latency_ns", d.l2_latency_ns},
            {"l2_bytes", d.l2_bytes},
            {"fp32_multiply_adds_per_s", d.fp32_rate},
            {"mma_multiply_adds_per_s", d.mma_rate},
            {"bus_bytes_per_s", d.bus_bandwidth},
            {"cluster_latency_ns",
             d.cluster_latency_ns > 0 ? nlohmann::json(d.cluster_latency_ns) : nlohmann::json()},
            {"sms", d.sms},
            {"threads_per_sm", d.threads_per_sm},
            {"blocks_per_sm", d.blocks_per_sm},
            {"registers_per_sm", d.registers_per_sm},
            {"shared_bytes_per_sm", d.shared_per_sm},
            {"launch_gap_us", d.gap_us},
            {"dependent_launch_gap_us",
             d.dependent_gap_us > 0 ? nlohmann::json(d.dependent_gap_us) : nlohmann::json()}};
}

std::string text_of(const std::array<uint32_t, 3>& extent) {
    std::string text = fmt::to_string(extent[0]);
    if (extent[1] > 1 || extent[2] > 1) text += fmt::format(" x {}", extent[1]);
    if (extent[2] > 1) text += fmt::format(" x {}", extent[2]);
    return text;
}

std::string head(const PlanReport& r) {
    const kernels::decode::DecodeShape& s = r.model.shape;
    const DeviceModel& d = r.step.device;
    const bool padded = s.hidden != r.model.hidden || s.ffn != r.model.ffn;
    return fmt::format(
        "PREDICTION of a decode step on a {} (model {}); nothing was run on a GPU\n"
        "model {}: {} x {}{}, {} layers, {} heads, {} KV heads of {}, vocabulary {}; {}; after {} tokens, {} "
        "row{}\n"
        "device: {:.2f} TB/s of memory, {} SMs, {:.1f} us between launches{}\n",
        d.title, d.name, r.model.name, r.model.hidden, r.model.ffn,
        padded ? fmt::format(" (held as {} x {})", s.hidden, s.ffn) : "", s.layers, s.heads, s.kv_heads,
        s.head_dim, s.vocab, r.dtype, s.context, s.rows, s.rows == 1 ? "" : "s", d.bandwidth * 1e-12, d.sms,
        d.dependent_gap_us > 0 ? d.dependent_gap_us : d.gap_us,
        d.dependent_gap_us > 0 ? " (programmatic dependent launch)" : " of a graph");
}

std::string shapes(const std::vector<Row>& rows) {
    std::string text =
        fmt::format("\n{:<15} {:>5}  {:<20} {:>14} {:>7} {:>6} {:>9} {:>9} {:>8} {:>10}  {:>9}  {}\n",
                    "launch", "times", "kernel", "grid", "cluster", "block", "shared B", "registers",
                    "spills B", "blocks/SM", "occupancy", "limited by");
    for (const auto& [p, times] : rows) {
        const bool known = p->resources.has_value();
        text +=
            fmt::format("{:<15} {:>5}  {:<20} {:>14} {:>7} {:>6} {:>9} {:>9} {:>8} {:>10}  {:>7.0f} %  {}\n",
                        p->launch.part, times, name_of(p->launch.kernel), text_of(p->launch.shape.grid),
                        p->launch.shape.cluster, text_of(p->launch.shape.block), p->launch.shape.shared_bytes,
                        known ? fmt::to_string(p->resources->registers) : "not known",
                        known ? fmt::to_string(p->resources->spill_stores + p->resources->spill_loads) : "-",
                        p->occupancy.blocks_per_sm, p->occupancy.share * 100, name_of(p->occupancy.limit));
    }
    return text;
}

std::string times(const std::vector<Row>& rows) {
    std::string text =
        fmt::format("\n{:<15} {:>5}  {:>9} {:>9} {:>10} {:>7} {:>9} {:>8} {:>7} {:>13} {:>7}  {}\n", "launch",
                    "times", "memory MB", "L2 MB", "written KB", "rounds", "floor us", "chain us", "gap us",
                    "predicted us", "share", "bound by");
    for (const auto& [p, times] : rows) {
        const LaunchTraffic& t = p->launch.traffic;
        text += fmt::format("{:<10} {:>5}  {:>9.3f} {:>9.3f} {:>10.1f} {:>7.2f} {:>9.2f} {:>8.2f} {:>7.2f} "
                            "{:>13.2f} {:>5.0f} %  {}\n",
                            p->launch.part, times, mega(t.floor() + t.small_weights),
                            mega(t.activations + t.again), static_cast<double>(t.written()) * 1e-3, p->rounds,
                            p->floor_us(), p->chain_us(), p->gap_us, p->predicted_us(),
                            p->floor_us() / p->predicted_us() * 100, name_of(p->bound));
    }
    return text;
}

std::string beyond_floor(const PredictedStep& step) {
    std::string text = "predicted beyond the floor:";
    bool first = true;
    for (size_t i = 1; i < num_bounds; ++i) {
        if (step.parts_us[i] < 0.05) continue;
        text += fmt::format("{} {} {:.1f} us", first ? "" : ",", name_of(static_cast<Bound>(i)),
                            step.parts_us[i]);
        first = false;
    }
    return text + (first ? " nothing\n" : "\n");
}

/// Of a step, or of a refresh: launches and their sums.
nlohmann::json totals_json(const PredictedStep& step) {
    nlohmann::json launches = nlohmann::json::array(), beyond = nlohmann::json::object();
    for (size_t i = 0; i < step.launches.size(); ++i)
        launches.push_back(json_of(step.launches[i], i));
    for (size_t i = 1; i < num_bounds; ++i)
        beyond[name_of(static_cast<Bound>(i))] = step.parts_us[i];
    return {{"launches", launches},
            {"bytes", step.bytes},
            {"floor_us", step.floor_us},
            {"predicted_us", step.predicted_us},
            {"share_of_floor", step.share_of_floor()},
            {"predicted_beyond_floor_us", beyond},
            {"bound", name_of(step.bound())},
            {"registers", step.knows_registers() ? "known" : why_unknown(step)}};
}

/// What attention rows add to a step.
struct AddedByRows {
    double us = 0, share = 0; ///< of the step without them
    int64_t host_bytes = 0;
};
AddedByRows added_by_rows(const PlanReport& r) {
    AddedByRows added;
    added.us = r.step.predicted_us - *r.without_rows_us;
    added.share = added.us / *r.without_rows_us;
    for (const PredictedLaunch& p : r.step.launches)
        added.host_bytes += p.launch.traffic.host_written;
    return added;
}

std::string totals(const PlanReport& r) {
    const PredictedStep& step = r.step;
    std::string text = fmt::format("\nstep: {} launches, {:.1f} MB that the floor counts, floor {:.1f} us, "
                                   "predicted {:.1f} us: {:.1f} % of the "
                                   "floor predicted; bound by {}\n",
                                   step.launches.size(), mega(step.bytes), step.floor_us, step.predicted_us,
                                   step.share_of_floor() * 100, name_of(step.bound()));
    text +=
        fmt::format("if gap and latencies, of which little is known, are twice or half as long: {:.1f} to "
                    "{:.1f} % predicted\n",
                    r.range.low * 100, r.range.high * 100);
    text += beyond_floor(step);
    if (r.without_rows_us) {
        const AddedByRows added = added_by_rows(r);
        text += fmt::format(
            "attention rows of {} layers{}, {:.3f} MB over the bus to the host: {:.1f} us, {:.1f} "
            "% of the step without them predicted\n",
            step.shape.taps, step.shape.bins > 0 ? fmt::format(" in {} bins at most", step.shape.bins) : "",
            mega(added.host_bytes), added.us, added.share * 100);
    }
    return text;
}

const char* name_of(kernels::decode::PassShape::Logits logits) {
    using Logits = kernels::decode::PassShape::Logits;
    return logits == Logits::none ? "none" : logits == Logits::last ? "last" : "all";
}

/// What a refresh's rows of logits are for.
std::string asked_of(const PredictedRefresh& refresh) {
    using Logits = kernels::decode::PassShape::Logits;
    return refresh.shape.logits == Logits::none   ? "no logits"
           : refresh.shape.logits == Logits::last ? "logits of the last row"
                                                  : "logits of all rows";
}

std::string refresh_table(const PlanReport& r) {
    const PredictedRefresh& refresh = *r.refresh;
    const PredictedStep& work = refresh.work;
    const std::vector<Row> rows = rows_of(work);
    std::string text =
        fmt::format("\nPREDICTION of a refresh of {} tokens by {}, {}; then a splice into {}\n",
                    refresh.shape.tokens, r.model.name, asked_of(refresh), r.student);
    text += shapes(rows) + times(rows);
    text += fmt::format(
        "\nrefresh: {} launches, {:.1f} MB that the floor counts, floor {:.1f} us (bytes {:.1f}, products "
        "on tensor cores {}), predicted {:.1f} us: {:.1f} % of the floor predicted; bound by {}\n",
        work.launches.size(), mega(work.bytes), refresh.floor_us(), work.floor_us,
        refresh.arithmetic_us > 0 ? fmt::format("{:.1f}", refresh.arithmetic_us) : "not counted",
        work.predicted_us, refresh.floor_us() / work.predicted_us * 100, name_of(work.bound()));
    text += beyond_floor(work);
    return text + fmt::format("a step of {} is predicted to take {:.1f} us: the refresh takes {:.2f} steps\n",
                              r.student, refresh.step.predicted_us, refresh.steps());
}

nlohmann::json json_of(const PlanReport& r, const PredictedRefresh& refresh) {
    const PredictedStep& work = refresh.work;
    nlohmann::json out = totals_json(work);
    out["tokens"] = refresh.shape.tokens;
    out["logits"] = name_of(refresh.shape.logits);
    out["floor_us"] = refresh.floor_us();
    out["bytes_us"] = work.floor_us;
    out["arithmetic_us"] = refresh.arithmetic_us;
    out["share_of_floor"] = refresh.floor_us() / work.predicted_us;
    out["student"] = {{"name", r.student},
                      {"floor_us", refresh.step.floor_us},
                      {"predicted_us", refresh.step.predicted_us}};
    out["student_steps"] = refresh.steps();
    return out;
}

} // namespace

nlohmann::json to_json(const PlanReport& r) {
    const PredictedStep& step = r.step;
    const kernels::decode::DecodeShape& s = r.model.shape;
    nlohmann::json out{{"format", "refreshlab-decode-plan"},
                       {"version", 1},
                       {"what", "PREDICTION of a decode step; nothing was run on a GPU"},
                       {"prediction", true},
                       {"commit", r.commit},
                       {"device_model", json_of(step.device)},
                       {"model",
                        {{"name", r.model.name},
                         {"hidden", r.model.hidden},
                         {"ffn", r.model.ffn},
                         {"held_hidden", s.hidden},
                         {"held_ffn", s.ffn},
                         {"layers", s.layers},
                         {"heads", s.heads},
                         {"kv_heads", s.kv_heads},
                         {"head_dim", s.head_dim},
                         {"vocab", s.vocab}}},
                       {"dtype", r.dtype},
                       {"context", s.context},
                       {"capacity", s.capacity},
                       {"rows", s.rows},
                       {"share_of_floor_range", {r.range.low, r.range.high}},
                       {"notes", notes_of(r)}};
    if (s.experts.count > 0)
        out["model"]["experts"] = {
            {"count", s.experts.count}, {"used", s.experts.used}, {"held_width", s.experts.width}};
    out.update(totals_json(step));
    if (r.without_rows_us) {
        const AddedByRows added = added_by_rows(r);
        out["attention_rows"] = {{"layers", step.shape.taps},
                                 {"bins", step.shape.bins},
                                 {"host_bytes", added.host_bytes},
                                 {"added_us", added.us},
                                 {"share_of_step", added.share}};
    }
    if (r.refresh) out["refresh"] = json_of(r, *r.refresh);
    return out;
}

std::string plan_table(const PlanReport& r) {
    const std::vector<Row> rows = rows_of(r.step);
    std::string text = head(r) + shapes(rows) + times(rows) + totals(r);
    if (r.refresh) text += refresh_table(r);
    for (const std::string& note : notes_of(r))
        text += "\nnote: " + note;
    return text + "\n";
}

} // namespace refreshlab::bench
