#pragma once

#include "ui/scene/views/views.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace refreshlab::ui {

/// One choice of a view, as a person makes it and may take it back. What a panel sets by itself (a colour range that widened, the part
/// of a frontier in sight) is none of them.
struct ViewField {
    std::string_view words; ///< "Attention: order of heads"
    bool (*same)(const Views& a, const Views& b) = nullptr;
    void (*take)(Views& to, const Views& from) = nullptr;
};
[[nodiscard]] std::span<const ViewField> view_fields();

/// Which of them differ: indices of view_fields(), ascending.
[[nodiscard]] std::vector<size_t> changed_fields(const Views& before, const Views& after);
/// In words for a menu: "Signals: hide Entropy", "Text: colours"; of several the first, and that there are more.
[[nodiscard]] std::string words_of_change(const std::vector<size_t>& fields, const Views& before,
                                          const Views& after);

} // namespace refreshlab::ui
