#pragma once

#include "engine/text/jinja/jinja_value.h"

#include <cstddef>
#include <string_view>
#include <vector>

namespace refreshlab::jinja {

/// Finds one text in others, each time in time linear in both (Knuth, Morris and Pratt 1977). std::string::find needs up to
/// their product, so a template of 45 bytes could keep it busy for days.
class TextSearch {
public:
    enum class From { left, right };

    /// \param wanted  not empty (asserted); must outlive the search
    /// \param work    pays for `wanted` now, and for every byte that a search looks at
    TextSearch(std::string_view wanted, From from, Work& work);

    /// Where the first occurrence begins, from the left or from the right; npos where there is none.
    [[nodiscard]] size_t find(std::string_view text) const;

private:
    std::string_view m_wanted;
    From m_from;
    Work& m_work;
    /// [i]: length of the longest proper border of the first i + 1 bytes of `wanted`, read in the direction of the search.
    std::vector<size_t> m_border;
};

} // namespace refreshlab::jinja
