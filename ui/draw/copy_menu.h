#pragma once

#include <functional>
#include <string>
#include <vector>

namespace refreshlab::ui {

struct CopyItem {
    std::string label, text;
};

/// The menu of a map: a right click on the item before opens it, and what it copies is what was under the mouse then.
class CopyMenu {
public:
    /// Right after the item. \param items  asked when the menu opens
    /// \param more  draws further lines above them
    /// \return whether it is open: then no tooltip belongs there
    bool draw(const char* id, const std::function<std::vector<CopyItem>()>& items,
              const std::function<void()>& more = {});

private:
    std::vector<CopyItem> m_items;
};

} // namespace refreshlab::ui
