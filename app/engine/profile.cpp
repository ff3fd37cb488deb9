#include "app/base/output.h"
#include "app/engine/carry_out.h"
#include "app/engine/offline_model.h"
#include "app/engine/work_progress.h"
#include "app/options/profile_options.h"
#include "engine/base/error.h"
#include "engine/base/interrupt.h"
#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "engine/base/model_path.h"
#include "engine/model/model_fingerprint.h"
#include "engine/signals/nearest_name.h"
#include "engine/study/measure/epicache_profile.h"
#include "engine/train/compress_kv_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <string>
#include <vector>

namespace refreshlab::app {

namespace {

constexpr auto measuring = "measuring a profile";
constexpr int64_t needle_room = 96; ///< tokens that a needle and its question add at most

void check_method(const std::string& method) {
    std::vector<std::string_view> names;
    for (const CacheMethod& known : cache_methods())
        if (known.profile != nullptr) names.push_back(known.name);
    if (std::ranges::find(names, method) == names.end())
        throw Error(measuring, method, "is no cache policy with a profile",
                    name_hint(method, names, "methods"));
}

void print_compress_kv(const CacheProfile& profile) {
    app::print("| layer | heads | error |\n|---:|---|---:|\n");
    for (size_t layer = 0; layer < profile.layers.size(); ++layer)
        app::print("| {} | {} | {:.4f} |\n", layer, fmt::join(profile.of(layer, "heads"), ", "),
                   profile.of(layer, "error").front());
}

void print_epicache(const CacheProfile& profile) {
    app::print("| layer | similarity |\n|---:|---:|\n");
    for (size_t layer = 0; layer < profile.layers.size(); ++layer)
        app::print("| {} | {:.4f} |\n", layer, profile.of(layer, "similarity").front());
}

using Going = std::function<bool(double)>;

std::optional<CacheProfile> compress_kv_profile(const ProfileOptions& options, const OfflineModel& offline,
                                                const std::vector<TrainingText>& read, const Going& going) {
    const int64_t context = offline.model().config().max_position;
    if (options.length + needle_room > context)
        throw Error(measuring, "--length",
                    fmt::format("{} tokens and a needle are more than the model's context of {}",
                                options.length, context));
    const auto texts = needle_texts(*offline.pair().tokenizer, read, options.seed);
    auto profile = measure_compress_kv(offline.model(), texts, options.share, going);
    if (profile)
        profile->recipe =
            fmt::format("{} texts of at most {} tokens with a needle each, seed {}, errors where {} "
                        "of a text stays",
                        texts.size(), options.length, options.seed, options.share);
    return profile;
}

std::optional<CacheProfile> epicache_profile(const ProfileOptions& options, const OfflineModel& offline,
                                             const std::vector<TrainingText>& read, const Going& going) {
    std::vector<std::vector<int32_t>> texts;
    for (const TrainingText& text : read)
        texts.push_back(text.ids);
    auto profile = measure_epicache(offline.model(), texts, options.block, going);
    if (profile)
        profile->recipe = fmt::format("{} texts of at most {} tokens, keys of blocks of {} tokens",
                                      texts.size(), options.length, options.block);
    return profile;
}

} // namespace

int carry_out(const ProfileOptions& options) {
    check_method(options.method);
    check_files_of_work(options.model, options.texts, options.out);
    const OfflineModel offline(options.model, options.threads);
    const auto texts =
        read_training_texts(offline.pair(), {options.texts.begin(), options.texts.end()}, options.length);
    note_interrupts();
    std::optional<CacheProfile> profile;
    {
        WorkProgress progress;
        const Going going = [&](double done) {
            progress.show(done, fmt::format("{} texts", texts.size()));
            return interrupted() == 0;
        };
        profile = options.method == "epicache" ? epicache_profile(options, offline, texts, going)
                                               : compress_kv_profile(options, offline, texts, going);
    }
    if (!profile) {
        say("interrupted: nothing was written\n");
        return 128 + interrupted();
    }
    profile->model = model_fingerprint(options.model);
    profile->model_name = model_name(options.model);
    write_file(options.out, json_text(to_json(*profile)) + "\n");
    if (options.method == "epicache") print_epicache(*profile);
    if (options.method == "compress_kv") print_compress_kv(*profile);
    return 0;
}

} // namespace refreshlab::app
