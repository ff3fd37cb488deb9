#include "ui/draw/offered_files.h"

#include "engine/text/utf8.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

std::optional<std::string> offered_file(UiContext& ctx, LinkOffers::Part::Kind kind, float height) {
    ctx.wants_offers = true;
    std::optional<std::string> chosen;
    if (ImGui::BeginChild("offered files", ImVec2(0, height), ImGuiChildFlags_Borders)) {
        const auto of_kind = [&](const LinkOffers::Part& part) { return part.kind == kind; };
        if (ctx.offers == nullptr) {
            muted_text(ctx, "The server is asked");
            ctx.host.keep_awake(0.3);
        } else if (!ctx.offers->problem.empty()) {
            muted_text(ctx, ctx.offers->problem);
        } else if (std::ranges::none_of(ctx.offers->parts, of_kind)) {
            muted_text(ctx,
                       "The server offers no such file: it offers those in the folders of serve --files");
        } else {
            for (const LinkOffers::Part& part : ctx.offers->parts)
                if (of_kind(part)) {
                    const std::string label = fmt::format("{}###{}", visible_text(part.name, 80), part.name);
                    if (ImGui::Selectable(label.c_str())) chosen = part.path;
                    ImGui::SetItemTooltip("%s", visible_text(part.path, 400).c_str());
                }
        }
    }
    ImGui::EndChild();
    return chosen;
}

} // namespace refreshlab::ui
