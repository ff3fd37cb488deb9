#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/work_progress.h"
#include "app/options/run_options.h"
#include "app/options/train_eval_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/model_path.h"
#include "engine/model/model_source.h"
#include "engine/study/studies/pair_card.h"

#include <fmt/format.h>

#include <filesystem>

namespace refreshlab::app {

namespace {

/// Leaves a measurement between two runs.
struct Stopped {};

nlohmann::json json_of(const StudyCell& cell) {
    return std::visit(
        [](const auto& value) -> nlohmann::json {
            if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>)
                return nullptr;
            else
                return value;
        },
        cell);
}

/// A list of objects, one a row.
nlohmann::json json_of(const StudyTable& table) {
    nlohmann::json rows = nlohmann::json::array();
    for (const auto& cells : table.rows) {
        nlohmann::json row;
        for (size_t c = 0; c < cells.size(); ++c)
            row[table.columns[c].name] = json_of(cells[c]);
        rows.push_back(std::move(row));
    }
    return rows;
}

/// "name, 2.28 M parameters (hidden 144, ffn 400, 5 layers, 6 query and 3 KV heads of 64)"
std::string about(const std::string& model) {
    const ModelConfig config = ModelSource::open(model)->config();
    return fmt::format(
        "{}, {:.2f} M parameters (hidden {}, ffn {}, {} layers, {} query and {} KV heads of {})",
        model_name(model), static_cast<double>(config.num_parameters()) / 1e6, config.hidden_size,
        config.intermediate_size, config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim);
}

std::string card_of(const TrainEvalOptions& options, const StudyResult& result) {
    std::string card = fmt::format("# {}\n\n- teacher: {}\n- student: {}\n", model_name(options.student),
                                   about(options.teacher), about(options.student));
    if (!options.baseline.empty()) card += "- baseline: " + about(options.baseline) + "\n";
    card += "\nGiven texts, fp32. A gate looks at the student's own next-token entropy at every token "
            "(cool-down 4); a refresh rewrites all "
            "entries that the student made.\n\n";
    card += to_markdown(result);
    return card + fmt::format("\nMeasured by:\n\n```sh\n{}\n```\n", options.command);
}

} // namespace

int carry_out(const TrainEvalOptions& options) {
    std::vector<NamedFile> inputs{
        {"--teacher", options.teacher}, {"--student", options.student}, {"--baseline", options.baseline}};
    for (const std::string& file : options.texts)
        inputs.push_back({"--texts", file});
    check_outputs(
        std::vector<NamedFile>{{"--out", options.out}, {"--csv", options.csv}, {"--json", options.json}},
        inputs);
    for (const std::string& file : {options.out, options.json}) {
        if (file.empty()) continue;
        const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
        if (!std::filesystem::is_directory(folder))
            throw Error("writing", folder.string(), "no such folder", "make it first");
    }
    PairCardOptions card;
    card.study.base.teacher_dir = options.teacher;
    card.study.base.student_dir = options.student;
    card.study.base.device = "cpu";
    card.study.base.threads = options.threads;
    note_threads(options.threads);
    card.study.prompts = options.prompts.empty() && options.tasks ? find_assets() / "prompts"
                                                                  : std::filesystem::path(options.prompts);
    card.study.seed = options.seed;
    card.study.limit = options.limit;
    card.baseline = options.baseline;
    card.texts.assign(options.texts.begin(), options.texts.end());
    card.kinds = options.kinds;
    if (options.tasks && card.kinds.empty()) card.kinds = {"roll_call", "company", "chronicle"};
    note_interrupts();
    StudyResult result;
    try {
        WorkProgress progress;
        card.study.progress = [&](double done, const std::string& what) {
            if (interrupted() != 0) throw Stopped();
            progress.show(done, what);
        };
        result = measure_pair_card(card);
    } catch (const Stopped&) {
        say("interrupted: nothing was written\n");
        return 128 + interrupted();
    }
    const std::string text = card_of(options, result);
    write_file(options.out, text);
    if (!options.csv.empty()) write_study(result, options.csv);
    if (!options.json.empty()) {
        nlohmann::json all;
        for (const StudyTable& table : result.figures)
            all[table.name] = json_of(table);
        write_file(options.json, json_text(all, 1) + "\n");
    }
    print("{}", to_markdown(result));
    return 0;
}

} // namespace refreshlab::app
