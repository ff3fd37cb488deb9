#pragma once

#include "engine/control/engine_link.h"
#include "engine/landscape/landscape.h"
#include "engine/landscape/objective.h"
#include "engine/record/recording/recording.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Landscapes that the window knows, by the run whose text they are of: those that the engine computes, and those that traces bring
/// along. Another run of the same models that reads the same text has the same landscape, whole or so far.
/// Threads  the UI thread.
class KnownLandscapes {
public:
    /// \param run  whose text it is of; null where it is known already
    void keep(const std::string& run_id, std::shared_ptr<const Landscape> landscape,
              const std::shared_ptr<const Recording>& run);
    /// The landscape of what is shown: its own, else one of the same text; null where there is none.
    /// \param steps  of the recording: its text so far
    [[nodiscard]] std::shared_ptr<const Landscape> of(const std::shared_ptr<const Recording>& recording,
                                                      int64_t steps);
    /// Why none of them is of this run ("the landscape that is here is of another text: ..."); empty where one is, or none is known.
    [[nodiscard]] const std::string& why_none() const { return m_why_none; }
    /// What the last answer of of() is judged by unless a person says otherwise: default_objective() of the run whose text it was
    /// computed of, also where the shown run reads that text again.
    [[nodiscard]] const ChosenObjective& usual() const { return m_usual; }
    /// The run's own, to be saved with it; also one of the same text that its text covers. Null: none.
    [[nodiscard]] std::shared_ptr<const Landscape> to_save(const Recording& recording) const;

private:
    struct Entry {
        std::shared_ptr<const Landscape> landscape;
        std::string pair;                            ///< pair_key()
        std::shared_ptr<const RunConfig> written_by; ///< null: not known
        uint64_t change = 0;                         ///< when it came: the oldest goes first
    };
    std::map<std::string, Entry, std::less<>> m_entries;
    // The last answer, and what was asked.
    std::weak_ptr<const Recording> m_recording;
    int64_t m_steps = -1;
    uint64_t m_changes = 0, m_asked_changes = 0;
    std::shared_ptr<const Landscape> m_answer;
    std::string m_why_none;
    ChosenObjective m_usual;
};

/// What decides which numbers a pair gives: the two models, their devices and dtype.
[[nodiscard]] std::string pair_key(const RunConfig& config);

/// What computing a landscape of the run's text takes, before it is asked for.
struct LandscapeCost {
    int64_t tokens = 0, cells = 0;
    int64_t bytes = 0;       ///< of the cells, the student's scratch columns and the teacher's rows
    double most_seconds = 0; ///< cells times a step of the run; 0 where that is not known
};
[[nodiscard]] LandscapeCost landscape_cost(const Recording& recording, int64_t steps,
                                           const EngineStatus& status);

/// Why a landscape of the shown run cannot be computed now, and what would help; empty where it can.
/// \param of_engine  the shown run is the engine's
[[nodiscard]] std::string why_not_computed(const Recording* recording, int64_t steps,
                                           const EngineStatus& status, bool of_engine);

/// The same of a scope map of the shown run.
[[nodiscard]] std::string why_no_scope_map(const Recording* recording, int64_t steps,
                                           const EngineStatus& status, bool of_engine);

/// The run's configuration with its text given and another policy: the same tokens are read, so its losses can be compared.
/// \param tokens  of the landscape
[[nodiscard]] RunConfig reading_run(const RunConfig& config, const std::vector<int32_t>& tokens,
                                    RefreshPolicy policy);

/// A finished run of the landscape's text, measured.
struct MeasuredRun {
    std::string run_id, policy;
    int64_t refreshes = 0;
    size_t back_fills = 0; ///< of its recording, when it was measured
    /// By Objective: mean of the costs of y_2 .. y_N, from the recorded values; NaN where one is missing.
    std::array<double, std::size(objectives)> losses{};
    [[nodiscard]] double loss(Objective objective) const { return losses[static_cast<size_t>(objective)]; }
};
/// Nothing while the run has not read the whole text, and where a loss is missing.
[[nodiscard]] std::optional<MeasuredRun> measure_run(const Landscape& landscape, const Recording& recording,
                                                     int64_t steps);

} // namespace refreshlab::ui
