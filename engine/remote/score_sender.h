#pragma once

#include "engine/record/recording/recording.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::remote {

/// What a cache policy thinks of the entries of the position that one client looks at, and of those beside it.
///
/// Threads  one; the scores may change on another
class ScoreSender {
public:
    static constexpr int64_t beside =
        32; ///< positions on either side that are told as well, for a mouse that moves

    /// \param run  null: nobody looks any more
    void look(std::shared_ptr<const Recording> run, int64_t position);
    /// {"run", "columns": [[position, values, steps], ...]}: the position that is looked at, where its scores are other ones than were
    /// told; null: they are not.
    [[nodiscard]] nlohmann::json next();
    /// The same of the positions beside it, the nearest first, no more once they have so many bytes.
    [[nodiscard]] nlohmann::json next_beside(int64_t bytes);

private:
    /// \return whether there was something new
    bool add(int64_t position, nlohmann::json& columns);
    [[nodiscard]] nlohmann::json message(nlohmann::json columns) const;

    std::shared_ptr<const Recording> m_run;
    int64_t m_position = -1;
    struct Column {
        std::vector<float> values;
        std::vector<int32_t> steps;
        friend bool operator==(const Column&, const Column&) = default;
    };
    std::map<int64_t, Column> m_told; ///< by position
};

/// Puts such a message into a run. Throws nlohmann::json::exception, ProtocolError.
void take_scores(const nlohmann::json& message, Recording& run);

} // namespace refreshlab::remote
