#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace refreshlab::test {

/// 300 ids: single bytes (many no UTF-8 by themselves), words, and two special tokens (298, 299).
class ByteTokens final : public TokenTable {
public:
    ByteTokens();
    [[nodiscard]] std::string_view token_bytes(int32_t id) const override;
    [[nodiscard]] bool is_special(int32_t id) const override { return id >= 298; }

private:
    std::vector<std::string> m_bytes;
};

inline constexpr int32_t vocab = 300;

/// What was written when, kept apart from the recording: the plain reference for forks and traces.
struct Written {
    int64_t known, step; ///< known == step: measured
    size_t signal;
    float value;
};

/// Extends a recording at random the way a session does: events of a boundary, back-fills, then the record. Values
/// include NaN, infinities, -0.0 and subnormals.
class Grower {
public:
    explicit Grower(uint64_t seed);
    [[nodiscard]] std::shared_ptr<Recording> start(int64_t attention_megabytes = 256);
    void grow(Recording& recording, int64_t steps);
    /// A last record that is not fed, and the end; or an end by an end token.
    void finish(Recording& recording, bool by_end_token = false);

    std::vector<Written> written; ///< of the recording that grows, in order
    std::mt19937_64 random;
    bool attention = true; ///< rows of any position up to the step, so later ones may replace earlier ones

private:
    [[nodiscard]] int64_t uniform(int64_t low, int64_t high);
    [[nodiscard]] float any_float();
    void boundary(Recording& recording, int64_t t);
    void cache_events(Recording& recording, int64_t t);
    void record(Recording& recording, int64_t t);
};

/// Value of (step, signal) after boundary k according to the writes; absent() if none.
[[nodiscard]] float value_behind(const std::vector<Written>& written, int64_t k, int64_t step, size_t signal);

/// Bit equality, measured NaNs being equal to each other.
[[nodiscard]] bool same_bits(float a, float b);

/// A folder of its own under the build folder, empty at the start and gone at the end.
class TemporaryFolder {
public:
    TemporaryFolder();
    ~TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return m_path / name; }
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
    [[nodiscard]] std::vector<std::string> files() const; ///< names, sorted

private:
    std::filesystem::path m_path;
};

} // namespace refreshlab::test
