#include "ui/base/table_view.h"

#include <algorithm>

namespace refreshlab::ui {

bool TableView::shows(std::string_view key) const {
    return std::ranges::find(hidden, key) == hidden.end();
}

std::optional<size_t> TableView::sorted_column(std::span<const std::string_view> keys) const {
    const auto found = std::ranges::find(keys, sorted_by);
    if (sorted_by.empty() || found == keys.end()) return std::nullopt;
    return static_cast<size_t>(found - keys.begin());
}

void TableView::set_order(std::string_view order) {
    descending = order.starts_with('-');
    sorted_by = order.substr(descending ? 1 : 0);
    if (sorted_by.empty()) descending = false;
}

} // namespace refreshlab::ui
