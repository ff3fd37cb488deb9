#include "app/base/assets.h"
#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/offline_model.h"
#include "app/engine/work_progress.h"
#include "app/options/train_prune_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/model/checkpoint/llama_weights.h"
#include "engine/model/derive/prune_widths.h"
#include "engine/model/derive/write_folder.h"
#include "engine/model/model_source.h"
#include "engine/train/training_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

namespace refreshlab::app {

namespace {

constexpr int64_t shortest_length = 64; ///< of read_training_texts()

std::vector<int64_t> all_channels(int64_t width) {
    std::vector<int64_t> all(static_cast<size_t>(width));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

std::vector<std::vector<int32_t>> texts_of(const TrainPruneOptions& options, const ModelPair& pair) {
    std::vector<std::filesystem::path> files(options.texts.begin(), options.texts.end());
    if (files.empty()) files.push_back(find_assets() / "prompts/story_continuations.jsonl");
    const int64_t length = std::min(options.length, pair.teacher->config().max_position);
    if (length < shortest_length)
        throw Error("pruning widths", options.model,
                    fmt::format("its context of {} tokens is too short to score channels on texts", length));
    std::vector<std::vector<int32_t>> texts;
    for (TrainingText& text : read_training_texts(pair, files, length, 1))
        if (std::ssize(texts) < options.most_texts) texts.push_back(std::move(text.ids));
    return texts;
}

/// "hidden 320 -> 144", with what a width is held as.
std::string width_change(const char* name, int64_t before, int64_t after) {
    const int64_t held = LlamaWeights::held_width(after);
    return fmt::format("{} {} -> {}{}", name, before, after,
                       held == after ? std::string() : fmt::format(" (held as {}, padded with zeros)", held));
}

} // namespace

int carry_out(const TrainPruneOptions& options) {
    const std::vector<NamedFile> outputs{{"--out", options.out}, {"--json", options.json}};
    std::vector<NamedFile> inputs{{"MODEL", options.model}};
    for (const std::string& file : options.texts)
        inputs.push_back({"--text", file});
    check_outputs(outputs, inputs);
    require_new_folder(options.out);
    const auto source = ModelSource::open(options.model);
    const ModelConfig before = source->config();
    const ModelConfig after = pruned_config(before, options.hidden > 0 ? options.hidden : before.hidden_size,
                                            options.ffn > 0 ? options.ffn : before.intermediate_size);
    Dtype dtype = Dtype::f32;
    for (const Dtype one : {Dtype::bf16, Dtype::f16})
        if (to_string(one) == options.dtype) dtype = one;
    const OfflineModel offline(options.model, options.threads, dtype);
    note_interrupts();
    KeptChannels kept{all_channels(before.hidden_size),
                      {static_cast<size_t>(before.num_layers), all_channels(before.intermediate_size)}};
    std::string read = "nothing to choose";
    try {
        WorkProgress progress;
        const auto show = [&](double done, const std::string& what) {
            progress.show(done, what);
            return interrupted() == 0;
        };
        if (after.hidden_size < before.hidden_size || after.intermediate_size < before.intermediate_size) {
            const auto texts = texts_of(options, offline.pair());
            int64_t tokens = 0;
            for (const auto& text : texts)
                tokens += std::ssize(text);
            const ChannelScore by =
                options.ffn_score == "derive" ? ChannelScore::derive : ChannelScore::overfill;
            kept = best_widths(width_scores(offline.model(), texts, by, show), after.hidden_size,
                               after.intermediate_size);
            read = fmt::format("channels of {} texts, {} tokens", texts.size(), tokens);
        }
        write_folder(*source, *prune_widths(offline.model(), kept), options.out);
    } catch (const Error&) {
        if (interrupted() == 0) throw;
        say("interrupted: nothing was written\n");
        return 128 + interrupted();
    }
    if (!options.json.empty())
        write_file(options.json, json_text({{"hidden", kept.hidden}, {"ffn", kept.ffn}}) + "\n");
    print("{}: {}; {}; {:.2f} M -> {:.2f} M parameters; {}\n", options.out,
          width_change("hidden", before.hidden_size, after.hidden_size),
          width_change("ffn", before.intermediate_size, after.intermediate_size),
          static_cast<double>(before.num_parameters()) / 1e6,
          static_cast<double>(after.num_parameters()) / 1e6, read);
    return 0;
}

} // namespace refreshlab::app
