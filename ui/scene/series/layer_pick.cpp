#include "ui/scene/series/layer_pick.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace refreshlab::ui {
namespace {

constexpr std::string_view strip_name = "strip", layer_name = "layer ";

} // namespace

LayerPick within(LayerPick pick, int64_t layers) {
    if (layers > 0) pick.layer = static_cast<int32_t>(std::min<int64_t>(pick.layer, layers - 1));
    return pick;
}

std::string to_string(const LayerPick& pick) {
    if (pick.strip) return std::string(strip_name);
    if (pick.reduction == Reduction::layer) return fmt::format("{}{}", layer_name, pick.layer);
    return std::string(to_string(pick.reduction));
}

std::optional<LayerPick> parse_layer_pick(std::string_view text) {
    if (text == strip_name) return LayerPick{.strip = true};
    if (text.starts_with(layer_name)) {
        text.remove_prefix(layer_name.size());
        LayerPick pick{.reduction = Reduction::layer};
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pick.layer);
        if (error != std::errc() || end != text.data() + text.size() || pick.layer < 0) return std::nullopt;
        return pick;
    }
    const auto reduction = reduction_from_string(text);
    if (!reduction || *reduction == Reduction::layer) return std::nullopt;
    return LayerPick{.reduction = *reduction};
}

} // namespace refreshlab::ui
