#pragma once

#include "engine/record/recording/recording.h"
#include "ui/scene/maps/heatmap.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// Whose attention is shown. difference: teacher - student, for queries of which both rows are there.
enum class AttentionOf : uint8_t { student, teacher, difference };
inline constexpr std::array attention_sides = {AttentionOf::student, AttentionOf::teacher,
                                               AttentionOf::difference};

/// The rows that an attention map shows: query positions [first_query, last_query].
struct QueryWindow {
    int64_t first_query = 0, last_query = -1;
    [[nodiscard]] int64_t rows() const { return last_query - first_query + 1; }
    [[nodiscard]] int64_t keys() const { return last_query + 1; }
    [[nodiscard]] bool contains(int64_t query) const { return query >= first_query && query <= last_query; }
    friend bool operator==(const QueryWindow&, const QueryWindow&) = default;
};

/// The last `rows` generated queries up to `shown`. While the person looks at a selected step, a window that holds
/// `shown` already stays where it is: choosing a row does not move the map under the mouse.
/// \param before  window of the last frame
/// \param live    following the newest step: the window ends with it
[[nodiscard]] QueryWindow next_window(const QueryWindow& before, int64_t prompt_length, int64_t shown,
                                      int64_t rows, bool live);

/// Attention of many heads over a window of queries, reduced by maximum to what the screen can show. Reads each row of
/// the recording once; after that an update only composes the reduced rows. Keys share a cell by powers of two. When a
/// growing run needs the next power, the rows that are here are reduced further, and none is read again. No ImGui in
/// here, UI thread only.
class AttentionMap {
public:
    struct Shape {
        AttentionOf of = AttentionOf::student;
        QueryWindow window;
        std::vector<int32_t> layers, heads;   ///< the visible ones; others are not read
        int64_t texels_x = 64, texels_y = 64; ///< of one head
        friend bool operator==(const Shape&, const Shape&) = default;
    };
    /// Brings the cells up to date. \return true when something changed
    bool update(const Recording& recording, const Shape& shape);
    void clear();

    [[nodiscard]] const Shape& shape() const { return m_shape; }
    [[nodiscard]] int64_t rows() const { return m_rows; } ///< of cells
    [[nodiscard]] int64_t columns() const { return m_columns; }
    [[nodiscard]] int64_t query_factor() const { return m_query_factor; } ///< queries per cell
    [[nodiscard]] int64_t key_factor() const { return m_key_factor; }
    /// Of the window's coarsest row.
    [[nodiscard]] const AttentionResolution& resolution() const { return m_resolution; }
    /// Query position at the upper edge of the first row of cells: a multiple of query_factor, at most first_query.
    [[nodiscard]] int64_t first_aligned() const { return m_first_aligned; }
    /// Cells of one head, [rows * columns]; indices into shape().layers and shape().heads. Those of a difference are
    /// cells of difference_cell().
    [[nodiscard]] std::span<const HalfCell> cells(size_t layer_index, size_t head_index) const;
    /// Largest weight, or the difference of the largest amount, of one head in the window; nothing when no row is there.
    [[nodiscard]] std::optional<double> largest_weight(size_t layer_index, size_t head_index,
                                                       bool without_position_0) const;
    [[nodiscard]] int64_t missing_rows() const { return m_missing; }
    [[nodiscard]] bool has_row(int64_t query) const { return m_row_cache.contains(query); }

private:
    struct Row {
        std::vector<HalfCell> cells;         ///< [layers * heads * columns of this row]
        std::vector<HalfCell> top, top_rest; ///< [layers * heads]: over all keys; without position 0
        int64_t columns = 0;
        AttentionResolution resolution;
    };
    [[nodiscard]] std::optional<Row> read_row(const Recording& recording, int64_t query) const;
    [[nodiscard]] std::optional<Row> read_difference(const Recording& recording, int64_t query) const;
    [[nodiscard]] Row empty_row(int64_t keys) const;
    void read_head(const AttentionRows& rows, size_t of_rows, size_t at, Row& row) const;
    void reduce_further(Row& row, int64_t key_factor) const;
    void compose();

    Shape m_shape;
    const Recording* m_recording = nullptr; ///< identity only
    std::map<int64_t, Row> m_row_cache;     ///< by query position, under the present key factor
    std::vector<HalfCell> m_cells, m_top, m_top_rest;
    int64_t m_rows = 0, m_columns = 0, m_query_factor = 1, m_key_factor = 1, m_first_aligned = 0,
            m_missing = 0;
    AttentionResolution m_resolution;
};

/// "35 bins of up to 64 keys, 33 keys exact"; empty where every key has its weight.
[[nodiscard]] std::string resolution_words(const AttentionResolution& resolution);
/// The one that says less of its keys.
[[nodiscard]] const AttentionResolution& coarser(const AttentionResolution& a, const AttentionResolution& b);

/// Which row of the rows of a query a head's is; nothing where this layer or head is not there.
[[nodiscard]] std::optional<size_t> row_of_head(const AttentionRows& rows, int32_t layer, int32_t head);
/// Half weights of a row, [keys]. Of rows that are kept in bins each key has its share: the sum over the keys of its bin.
/// \param row     layer by layer, head by head (asserted to be there)
/// \param shares  memory for those; the result points to it or to the rows
[[nodiscard]] std::span<const uint16_t> row_weights(const AttentionRows& rows, size_t row,
                                                    std::vector<uint16_t>& shares);
/// The same of one head in the rows of a query; nothing where this layer or head is not there.
[[nodiscard]] std::span<const uint16_t> head_weights(const AttentionRows& rows, int32_t layer, int32_t head,
                                                     std::vector<uint16_t>& shares);

/// Weights of one head of one query (or their difference), [keys]; empty when they were not recorded.
[[nodiscard]] std::vector<float> attention_row(const Recording& recording, int64_t query, AttentionOf of,
                                               int32_t layer, int32_t head);
/// Of how many keys each of these weights is the mean, [keys]: 1 where it is the key's own. Of a difference the more of the two.
[[nodiscard]] std::vector<int32_t> keys_of_weights(const Recording& recording, int64_t query, AttentionOf of,
                                                   int32_t layer, int32_t head);
/// The stretch of keys that a weight of the student or the teacher comes from; nothing where it was not recorded.
[[nodiscard]] std::optional<AttentionShare> attention_share(const Recording& recording, int64_t query,
                                                            bool teacher, int32_t layer, int32_t head,
                                                            int64_t key);
/// "0.034" of a key with a weight of its own; of others what is known: "0.034 on keys 512 to 575 together, 0.00055 each of 62 on average".
[[nodiscard]] std::string share_words(const AttentionShare& share);

/// The `n` weights of the largest amount, largest first, among keys that have one of their own.
struct TopKey {
    int64_t position = 0;
    float weight = 0;
};
[[nodiscard]] std::vector<TopKey> top_keys(std::span<const float> row,
                                           std::span<const int32_t> keys_of_weights, size_t n);

} // namespace refreshlab::ui
