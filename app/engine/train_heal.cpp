#include "app/engine/carry_out.h"
#include "app/engine/model_training.h"
#include "app/engine/offline_model.h"
#include "app/options/train_heal_options.h"
#include "engine/base/bytes_text.h"
#include "engine/base/error.h"
#include "engine/base/model_path.h"
#include "engine/control/derive/derive_spec.h"
#include "engine/model/model_fingerprint.h"

#include <fmt/format.h>

#include <utility>

namespace refreshlab::app {

namespace {

constexpr const char* healing = "healing a student";

LowRank low_rank_of(const TrainHealOptions& options) {
    LowRank how{options.rank, options.alpha, {}, options.norms};
    for (const std::string& name : options.on) {
        size_t i = 0;
        while (i < num_projections && to_string(static_cast<Projection>(i)) != name)
            ++i;
        if (i == num_projections)
            throw Error(healing, "--on", "'" + name + "' is no matrix of a layer",
                        "q, k, v, o, gate, up, down");
        how.places.push_back(static_cast<Projection>(i));
    }
    return how;
}

/// Writes the updates, and says what they and the student hold.
std::string write_adapter(const TrainedModel& trained, const ModelPair& pair, const ModelTraining& how) {
    const auto named = trained.trainer.updates()->named();
    const auto file = trained.folder / "adapter.safetensors";
    write_safetensors(file,
                      {{"format", "refreshlab low-rank updates"},
                       {"rank", std::to_string(how.low_rank->rank)},
                       {"alpha", fmt::format("{}", how.low_rank->alpha)},
                       {"base", how.student},
                       {"base_name", shown_model(pair.student_dir)},
                       {"teacher", how.teacher},
                       {"recipe", how.recipe()}},
                      named);
    int64_t elements = 0;
    for (const NamedTensor& tensor : named)
        elements += tensor.tensor.numel();
    std::string words = fmt::format(
        "The weights here have the updates in them. The updates alone are in adapter.safetensors: {} in f32.",
        bytes_text(4 * elements));
    if (how.low_rank->norms) words += " Norms were trained too; they are only in the weights here.";
    if (pair.derived && pair.derived->spec.bits > 0)
        words += fmt::format(" The merged weights are no longer rounded to {} bits: held and read they are "
                             "as large as the teacher's "
                             "({} a token in 16 bits). The rounded base with the updates beside it would "
                             "read {} and {} a token "
                             "(updates in 16 bits); this program has no pass that reads them so.",
                             pair.derived->spec.bits, bytes_text(pair.derived->teacher_token_bytes),
                             bytes_text(pair.derived->token_bytes), bytes_text(2 * elements));
    return words;
}

} // namespace

int carry_out(const TrainHealOptions& options) {
    check_training_files(
        options,
        {{"--teacher", options.teacher}, {"--student", options.student}, {"--withhold", options.withhold}});
    const LowRank low_rank = low_rank_of(options);
    const ReadingShares shares = shares_of(options, 0, 0.25);
    const std::optional<Almanac> withheld = withheld_facts(options);
    const OfflineModel offline(pair_to_train(options, options.teacher, options.student));
    const ModelPair& pair = offline.pair();
    require_one_geometry(healing, pair);
    const auto source = source_of_student(pair);
    ModelTraining how = training_of(options, "heal", 1e-3, *source);
    how.low_rank = low_rank;
    how.next_token = options.next_token;
    how.shares = shares;
    how.teacher = model_fingerprint(pair.teacher_dir);
    how.student = model_fingerprint(pair.student_dir);
    return train_model(
        options, how, pair, pair.teacher.get(), *pair.student, *source,
        [&](const TrainedModel& trained) -> std::optional<Finding> {
            auto result = split_before_and_after(pair, trained);
            if (!result) return std::nullopt;
            Finding finding{*std::move(result), {}};
            finding.result.notes.push_back(write_adapter(trained, pair, how));
            finding.card = fmt::format("# {0} healed for {1}\n\nA student that was trained by low-rank "
                                       "updates (rank {2}, alpha {3}) to "
                                       "read the KV cache of its teacher {1}, and to give its rows. Teacher "
                                       "and student have licences of "
                                       "their own, which hold for this folder too.\n",
                                       shown_model(pair.student_dir), model_name(pair.teacher_dir),
                                       options.rank, options.alpha) +
                           withheld_words(options);
            return finding;
        },
        withheld);
}

} // namespace refreshlab::app
