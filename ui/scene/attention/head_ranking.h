#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/attention/attention_map.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// What heads are ranked by: means over the queries of a window.
enum class HeadOrder : uint8_t {
    place,   ///< layer by layer: no ranking
    focused, ///< lowest entropy of the weights first
    spread,  ///< highest entropy first
    off_sink, ///< most weight away from position 0 first: the distance (total variation) to a row that is all sink
    differing, ///< largest distance (total variation) between the teacher's and the student's row first
};
inline constexpr std::array head_orders = {HeadOrder::place, HeadOrder::focused, HeadOrder::spread,
                                           HeadOrder::off_sink, HeadOrder::differing};
[[nodiscard]] std::string_view head_order_label(HeadOrder order); ///< "Lowest entropy"
[[nodiscard]] std::string_view head_order_unit(HeadOrder order);  ///< of its values: "bits" or ""

/// A number of one row of weights, [keys] halves: entropy in bits, or the share away from position 0.
[[nodiscard]] double row_entropy(std::span<const uint16_t> weights);
[[nodiscard]] double row_off_sink(std::span<const uint16_t> weights);
/// Half the sum of the absolute differences, 0 .. 1; NaN where the rows have different keys.
[[nodiscard]] double row_distance(std::span<const uint16_t> a, std::span<const uint16_t> b);

/// A head and its value; indices into the question's layers and heads.
struct RankedHead {
    size_t layer_index = 0, head_index = 0;
    double value = 0;
};

/// Heads in the order of a number of their rows. Each row is read once. The order holds while a live run makes some steps, so
/// that cells do not jump about. No ImGui in here, UI thread only.
class HeadRanking {
public:
    struct Question {
        HeadOrder order = HeadOrder::place;
        bool teacher = false; ///< whose rows; of `differing` both
        std::vector<int32_t> layers, heads;
        friend bool operator==(const Question&, const Question&) = default;
    };
    /// Reads rows of the window that are not known yet, the newest first, `rows` at most.
    /// \return some that are recorded are left
    bool update(const Recording& recording, const Question& question, const QueryWindow& window,
                int64_t rows);
    void clear();
    /// Best first; empty where no row of the window is recorded, and for HeadOrder::place.
    [[nodiscard]] const std::vector<RankedHead>& ranked() const { return m_ranked; }

private:
    [[nodiscard]] std::vector<double> measure(const Recording& recording, int64_t query) const;
    void rank(const QueryWindow& window);

    Question m_question;
    const Recording* m_recording = nullptr;         ///< compared only
    std::map<int64_t, std::vector<double>> m_known; ///< by query: of each head
    std::vector<RankedHead> m_ranked;
    int64_t m_ranked_last = -1; ///< last query of the window that the order was made for
    size_t m_ranked_rows = 0;   ///< rows that were known then
    int64_t m_window_rows = 0;
};

} // namespace refreshlab::ui
