// A prompt's cache as a file: saved from a run, and gone on from in another (engine/model/prompt_cache.h).
#include "engine/base/error.h"
#include "engine/model/prompt_cache.h"
#include "engine/session/decode/session_impl.h"
#include "engine/session/pair/policy_aids.h"

#include <fmt/format.h>

#include <algorithm>

namespace refreshlab {

namespace {

/// The prompt's last tokens that are read all the same: the last one's row chooses the first token, and a cache policy may look at
/// several. Throws where a policy has to see all of it.
int64_t read_again(const PolicyRunner* policy, const std::string& name, CacheForm form) {
    if (policy == nullptr) return 1;
    const PolicyNeeds& needs = policy->needs();
    const auto refuse = [&](const std::string& problem) {
        throw Error("going on from a saved cache", fmt::format("under cache policy {}", name), problem,
                    "read the prompt (without --cache)");
    };
    if (needs.prompt_sums) refuse("it looks at the attention of the whole prompt, which is not read");
    if (needs.prompt_gate) refuse("its gate scores every token of the prompt while it is read");
    if (needs.prompt_band > 0) refuse("it reads the prompt under a band (banded_prefill)");
    if (needs.recomputes && form != CacheForm::exact)
        refuse("it computes entries again from their tokens, and those of the file are rounded to four bits");
    return std::max({int64_t{1}, needs.prompt_rows, needs.prompt_queries});
}

} // namespace

int64_t DecodeSession::Impl::adopt_saved(KvCache& cache, Origin origin) {
    if (config.prompt_cache.empty()) return 0;
    const PromptCacheFile saved(config.prompt_cache);
    saved.check(pair_fingerprint(*pair, config.mode != Mode::student), std::string(to_string(config.dtype)),
                prompt());
    const int64_t again = read_again(cache_policy.get(), decoder_policy().policy, saved.form());
    const int64_t n = std::min(std::ssize(saved.origin().tokens), prompt_length() - again);
    if (n <= 0) return 0;
    saved.load(cache, n, origin);
    if (saved.form() == CacheForm::four_bits)
        start_note =
            fmt::format("{} of the prompt's {} tokens come from a cache in four bits", n, prompt_length());
    return n;
}

void DecodeSession::Impl::save_prompt(const std::filesystem::path& path, CacheForm form) const {
    const auto refuse = [&](const std::string& problem, const std::string& hint) {
        throw Error("saving the prompt's cache", path.string(), problem, hint);
    };
    const bool by_student = config.mode == Mode::student;
    const KvCache& cache = by_student ? *student_cache : teacher->cache();
    if (cache.layout() != CacheLayout::dense)
        refuse(fmt::format("cache policy {} does not keep it whole", decoder_policy().policy),
               "save it in a run whose policy is full");
    if ((by_student ? pair->student : pair->teacher)->config().rope_scaling.by_context())
        refuse(
            "the model's RoPE depends on how long a run may become, so another run could not go on from it",
            "read the prompt in each run");
    if (!config.prompt_cache.empty())
        refuse("this run itself went on from a saved cache", "copy " + config.prompt_cache);
    refreshlab::save_prompt_cache(
        path,
        {config.prompt, config.raw_prompt, prompt(), pair_fingerprint(*pair, config.mode != Mode::student),
         by_student ? pair->student_dir : pair->teacher_dir, std::string(to_string(config.dtype))},
        form, cache);
}

} // namespace refreshlab
