#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

/// Seeded fuzzing of the readers, as a part of the suite: inputs are made from a corpus by mutations that know JSON and by
/// mutations of bytes. Input number i of a target is a function of (--rng-seed, i) alone, so a failure is reproduced by its
/// number, whatever the number of threads.
///
/// Environment: REFRESHLAB_FUZZ_RUNS (executions per target, else 100,000), REFRESHLAB_SHARE (share K of N begins at input K times that),
/// REFRESHLAB_FUZZ_FILE (run the targets on this one file only: a saved failure).
namespace refreshlab::fuzz {

/// Executions of each target.
[[nodiscard]] int64_t fuzz_runs();

/// Splitmix64: the same numbers with every standard library.
class Random {
public:
    explicit Random(uint64_t seed)
        : m_state(seed) {}
    uint64_t next();
    /// \param limit  > 0
    size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }
    [[nodiscard]] bool one_in(size_t n) { return below(n) == 0; }

private:
    uint64_t m_state;
};

struct CorpusFile {
    std::string name;
    std::string bytes;
};

/// The files of tests/fuzz/corpus/<reader>/ in the order of their names. Throws std::runtime_error when there is none.
[[nodiscard]] std::vector<CorpusFile> read_corpus(const std::string& reader);

/// Makes inputs out of a corpus. Immutable after construction: any number of threads may use one.
class Mutator {
public:
    /// \param words  pieces of the format that byte mutations put in, besides those found in the corpus
    explicit Mutator(const std::vector<CorpusFile>& corpus, std::vector<std::string> words = {});

    /// A file of the corpus with a few mutations: of its JSON where it is JSON, of its bytes otherwise, sometimes both.
    [[nodiscard]] std::string make(Random& random) const;

    /// 1 to 4 of: a key dropped, doubled or renamed, a value moved, copied from elsewhere, retyped, made extreme, long or
    /// deep, ill-formed UTF-8 and lone surrogates in texts. The result is JSON text, though often not a valid one.
    [[nodiscard]] std::string mutate_json(nlohmann::json document, Random& random) const;

    /// 1 to 4 of: bits flipped, bytes set, inserted, erased, doubled, a word of the format, a piece of another file of the
    /// corpus spliced in, truncation.
    [[nodiscard]] std::string mutate_bytes(std::string text, Random& random) const;

    /// A file of the corpus as it is.
    [[nodiscard]] const std::string& pick(Random& random) const;
    [[nodiscard]] size_t size() const { return m_files.size(); }

private:
    std::vector<std::string> m_files;
    std::vector<nlohmann::json> m_documents; ///< by file; discarded where it is no JSON
    std::vector<nlohmann::json> m_values;    ///< scalars and small containers found in the corpus
    std::vector<std::string> m_keys;
    std::vector<std::string> m_words;
};

struct Outcome {
    int64_t accepted = 0; ///< the reader took the input
    int64_t refused = 0;  ///< it threw refreshlab::Error
};

/// Reads one input. Only refreshlab::Error may come out, with a text of one line; a target throws anything else (say
/// std::logic_error) to report a broken promise. Called from several threads at once.
/// \param thread  from 0, for a file of its own
using Target = std::function<void(const std::string& input, size_t thread)>;

/// fuzz_runs() executions of the target, after one of every corpus file as it is. A failing input is saved under
/// RL_BUILD_DIR/fuzz-failures/<name>-<number>, its seed is printed, and the Catch2 test fails. A crash saves its input too.
/// \param name  of the target; one word
/// \param make  gives the input of a run; called from several threads at once
Outcome run_target(const std::string& name, const std::vector<CorpusFile>& corpus,
                   const std::function<std::string(Random&)>& make, const Target& target);

/// The usual case: inputs of a Mutator over the corpus of that name.
Outcome run_target(const std::string& name, const Target& target, std::vector<std::string> words = {});

} // namespace refreshlab::fuzz
