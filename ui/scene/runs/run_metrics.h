#pragma once

#include "engine/record/recording/recording.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// The mean of a signal over a run's steps, kept up to date: new steps are added, back-filled ones are read again. Values that
/// are absent or not finite do not count. Cost of an update: O(new values). 4 bytes a step.
class RunningMean {
public:
    explicit RunningMean(std::string_view signal)
        : m_name(signal) {}
    void update(const Recording& recording, int64_t steps);
    [[nodiscard]] std::optional<double> mean() const; ///< nothing while no value is known

private:
    void put(int64_t step, float value);

    std::string m_name;
    std::vector<float> m_values;
    size_t m_next_fill = 0;
    double m_sum = 0;
    int64_t m_count = 0;
};

/// What the panel Runs says of a run in numbers. Nothing: not known.
struct RunNumbers {
    int64_t steps = 0, refreshes = 0;
    std::optional<double> entropy_bits, kl_nats,
        acceptance; ///< means over the steps where they were measured
    /// Time of teacher passes, splices and tokens drawn again, against that of everything else in the steps.
    std::optional<double> added_percent;
    std::optional<double> teacher_ppl; ///< of the closing pass
};

/// The numbers of one run, kept up to date. Threads: the UI thread.
class RunMetrics {
public:
    /// Another recording of the run, which goes on where the last one ended, or is its branch: counts anew.
    void update(const Recording& recording, int64_t steps);
    [[nodiscard]] const RunNumbers& numbers() const { return m_numbers; }

private:
    void add_times(const Recording& recording, int64_t steps);

    const Recording* m_of = nullptr; ///< compared, never read
    RunningMean m_entropy{"entropy_bits"}, m_kl{"kl_nats"}, m_acceptance{"acceptance"};
    std::optional<uint64_t> m_end;            ///< revision that was looked at
    double m_refresh_ms = 0, m_decode_ms = 0; ///< of the first m_timed steps
    int64_t m_timed = 0;
    RunNumbers m_numbers;
};

/// Columns of the panel Runs that sort, in their order.
enum class RunColumn : uint8_t {
    name,
    steps,
    refreshes,
    added_percent,
    entropy_bits,
    kl_nats,
    teacher_ppl,
    acceptance,
};
inline constexpr size_t num_run_columns = 8;
[[nodiscard]] std::string_view run_column_key(RunColumn column); ///< "kl_nats": in views, settings, options
[[nodiscard]] std::optional<RunColumn> run_column_named(std::string_view key); ///< nothing: there is none
[[nodiscard]] const char* run_column_name(RunColumn column);                   ///< "KL (nats)"
/// Columns of a table of runs in their order: the name, "change" (what is other in the run), the numbers.
[[nodiscard]] std::span<const std::string_view> run_table_keys();
[[nodiscard]] const char* run_column_meaning(RunColumn column); ///< a sentence
/// Of the metrics, as tables have it: "1,024", "3.21"; "-" where it is not known.
[[nodiscard]] std::string run_number_words(const RunNumbers& numbers, RunColumn column);
/// Of the metrics; a name has none.
[[nodiscard]] std::optional<double> run_number(const RunNumbers& numbers, RunColumn column);

} // namespace refreshlab::ui
