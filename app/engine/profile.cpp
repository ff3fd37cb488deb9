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
#include "engine/train/compress_kv_profile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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

void print_profile(const CacheProfile& profile) {
    app::print("| layer | heads | error |\n|---:|---|---:|\n");
    for (size_t layer = 0; layer < profile.layers.size(); ++layer)
        app::print("| {} | {} | {:.4f} |\n", layer, fmt::join(profile.of(layer, "heads"), ", "),
                   profile.of(layer, "error").front());
}

} // namespace

int carry_out(const ProfileOptions& options) {
    check_method(options.method);
    check_files_of_work(options.model, options.texts, options.out);
    const OfflineModel offline(options.model, options.threads);
    const LlamaModel& model = offline.model();
    if (options.length + needle_room > model.config().max_position)
        throw Error(measuring, "--length",
                    fmt::format("{} tokens and a needle are more than the model's context of {}",
                                options.length, model.config().max_position));
    const auto texts = needle_texts(
        *offline.pair().tokenizer,
        read_training_texts(offline.pair(), {options.texts.begin(), options.texts.end()}, options.length),
        options.seed);
    note_interrupts();
    std::optional<CacheProfile> profile;
    {
        WorkProgress progress;
        profile = measure_compress_kv(model, texts, options.share, [&](double done) {
            progress.show(done, fmt::format("{} texts", texts.size()));
            return interrupted() == 0;
        });
    }
    if (!profile) {
        say("interrupted: nothing was written\n");
        return 128 + interrupted();
    }
    profile->model = model_fingerprint(options.model);
    profile->model_name = model_name(options.model);
    profile->recipe =
        fmt::format("{} texts of at most {} tokens with a needle each, seed {}, errors where {} "
                    "of a text stays",
                    texts.size(), options.length, options.seed, options.share);
    write_file(options.out, json_text(to_json(*profile)) + "\n");
    print_profile(*profile);
    return 0;
}

} // namespace refreshlab::app
