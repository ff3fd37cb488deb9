#include "ui/panels/policy/cache_section.h"

#include "engine/base/json_file.h"
#include "engine/base/json_text.h"
#include "ui/draw/widgets.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace refreshlab::ui {
namespace {

void set_box(UiContext& ctx, const char* landmark) {
    const ImVec2 low = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
    ctx.landmarks.set(landmark, {low.x, low.y, size.x, size.y});
}

} // namespace

void CacheSection::draw(UiContext& ctx) {
    const RunConfig next = ctx.drafts.next_run();
    const CacheOwner acts = deciding_owner(next.mode);
    const float column = ImGui::GetFontSize() * 6.5F;
    heading(ctx, "Cache policy");
    if (!ctx.of_engine() && ctx.recording)
        muted_text(ctx, fmt::format("The run that is shown: {}",
                                    cache_words(deciding_cache(ctx.recording->info().config))));
    draw_owner(ctx, next, CacheOwner::teacher, column);
    draw_owner(ctx, next, CacheOwner::student, column);
    draw_full_step(ctx, ctx.drafts.config());
    draw_next(ctx, next, acts);
    draw_prompt_cache(ctx, column);
    if (ImGui::Button("Compare with...")) ctx.run_action("run.compare_cache");
    ImGui::SetItemTooltip("Runs the shown run's prompt again with another cache policy, and shows both");
    draw_file_popup(ctx, acts);
}

void CacheSection::draw_owner(UiContext& ctx, const RunConfig& next, CacheOwner owner, float column) {
    const std::string why = why_no_cache_policy(next.mode, owner);
    const CachePolicyConfig& cache = cache_of(next, owner);
    const float menu = ImGui::GetFrameHeight(), em = ImGui::GetFontSize();
    ImGui::PushID(owner == CacheOwner::teacher ? "teacher" : "student");
    row_label(owner == CacheOwner::teacher ? "Teacher" : "Student", column, em * 6);
    if (!why.empty() && cache.is_full()) {
        ImGui::PushTextWrapPos(0);
        ImGui::TextDisabled("%s", why.c_str());
        ImGui::PopTextWrapPos();
        ImGui::PopID();
        return;
    }
    const EngineState state = ctx.status->state;
    const bool run = state == EngineState::running || state == EngineState::paused;
    const CachePolicyConfig& present = cache_of(ctx.drafts.config(), owner);
    const int64_t context = cache_facts(next, *ctx.status).context;
    const int64_t prompt = ctx.of_engine() && ctx.recording ? ctx.recording->prompt_length() : 0;
    const CacheControls::Subject of{next, owner, context, reach_of(next, prompt, context),
                                    run && present.policy == cache.policy};
    CacheControls& controls = owner == CacheOwner::teacher ? m_teacher : m_student;
    const float width = ImGui::GetContentRegionAvail().x - menu - ImGui::GetStyle().ItemSpacing.x;
    auto changed = CacheControls::draw_methods(ctx, of, width);
    if (changed) controls.forget_fault();
    ImGui::SameLine();
    draw_file_menu(ctx, owner);
    if (auto values = controls.draw_values(ctx, of, column)) changed = std::move(values);
    if (changed) ctx.drafts.set_next_cache(owner, *changed);
    ImGui::PopID();
}

/// What waits for the next run, whether that would start, and the button that starts it.
void CacheSection::draw_next(UiContext& ctx, const RunConfig& next, CacheOwner owner) {
    const std::string refusal = cache_refusal(next, cache_facts(next, *ctx.status));
    if (!refusal.empty()) {
        ImGui::PushStyleColor(ImGuiCol_Text, ctx.theme.text_error);
        ImGui::TextWrapped("%s", refusal.c_str());
        ImGui::PopStyleColor();
        set_box(ctx, "cache policy/refusal");
    }
    if (!ctx.drafts.cache_waits(CacheOwner::teacher) && !ctx.drafts.cache_waits(CacheOwner::student)) return;
    const CachePolicyConfig& waiting = cache_of(next, owner);
    muted_text(ctx, fmt::format("{} from the next run", cache_words(waiting)));
    set_box(ctx, "cache policy/waits");
    const bool prompt = !ctx.status->applied.prompt.empty();
    ImGui::BeginDisabled(!prompt || !refusal.empty());
    if (accent_button(ctx, "Run this prompt with it", 0)) ctx.run_action("run.with_cache_policy");
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", prompt
                                    ? "The same prompt and seed from the beginning, with this cache policy.\n"
                                      "The present run stays beside it: see Runs"
                                    : "No run yet: New run... starts with it");
    ImGui::SameLine();
    if (ImGui::Button("Discard"))
        for (const CacheOwner of : {CacheOwner::teacher, CacheOwner::student})
            ctx.drafts.set_next_cache(of, cache_of(ctx.drafts.config(), of));
}

/// The prompt's cache as a file: saved, and gone on from.
void CacheSection::draw_prompt_cache(UiContext& ctx, float column) {
    row_label("Prompt's cache", column, ImGui::GetFontSize() * 6);
    const bool run = !ctx.status->applied.prompt.empty();
    ImGui::BeginDisabled(!run);
    if (ImGui::Button("Save...##prompt cache")) ctx.run_action("file.save_prompt_cache");
    ImGui::SetItemTooltip("Keys and values of this run's prompt, as a file");
    ImGui::SameLine();
    if (ImGui::Button("Load...##prompt cache")) ctx.run_action("file.from_prompt_cache");
    ImGui::SetItemTooltip("A run from a saved cache: its prompt is not read again");
    ImGui::EndDisabled();
    if (ctx.recording && !ctx.recording->info().config.prompt_cache.empty())
        muted_text(ctx, "The prompt of the run that is shown comes from " +
                            ctx.recording->info().config.prompt_cache);
}

void CacheSection::draw_full_step(UiContext& ctx, const RunConfig& now) {
    if (!has_full_steps(deciding_cache(now))) return;
    const EngineState state = ctx.status->state;
    const bool run = state == EngineState::running || state == EngineState::paused;
    ImGui::BeginDisabled(!run);
    if (ImGui::Button("Full step now")) ctx.run_action("run.full_step_now");
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip("%s", run ? ctx.with_key("At the next step every layer reads all that it holds",
                                                   "run.full_step_now")
                                          .c_str()
                                    : "Nothing is running");
    set_box(ctx, "cache policy/full step");
}

void CacheSection::draw_file_menu(UiContext& ctx, CacheOwner) {
    if (ImGui::Button("...##cache file", ImVec2(ImGui::GetFrameHeight(), 0)))
        ImGui::OpenPopup("cache file menu");
    ImGui::SetItemTooltip("Load or save the cache policy as JSON");
    bool load = false, save = false;
    if (ImGui::BeginPopup("cache file menu")) {
        load = ImGui::MenuItem("Load cache policy...");
        save = ImGui::MenuItem("Save cache policy...");
        ImGui::EndPopup();
    }
    if (!load && !save) return;
    m_saving = save;
    m_picker =
        std::make_unique<PathPicker>(ctx, save ? PathPicker::Want::save_file : PathPicker::Want::open_file,
                                     "policy", save ? "cache_policy.json" : "", ".json");
    m_open_popup = true;
}

void CacheSection::draw_file_popup(UiContext& ctx, CacheOwner owner) {
    if (std::exchange(m_open_popup, false)) ImGui::OpenPopup("cache policy file");
    ImGui::SetNextWindowSize(ImVec2(ImGui::GetFontSize() * 30, 0));
    if (!m_picker || !ImGui::BeginPopup("cache policy file")) return;
    ImGui::PushFont(ctx.fonts.medium, 0);
    ImGui::TextUnformatted(m_saving ? "Save cache policy" : "Load cache policy");
    ImGui::PopFont();
    const bool enter = m_picker->draw(ctx, ImGui::GetFontSize() * 12);
    const std::string problem = m_picker->problem();
    ImGui::BeginDisabled(!problem.empty());
    const char* verb = !m_saving ? "Load" : m_picker->would_overwrite() ? "Replace" : "Save";
    const bool go = ImGui::Button(verb) || enter;
    ImGui::EndDisabled();
    if (!problem.empty()) {
        ImGui::SameLine();
        ImGui::TextDisabled("%s", problem.c_str());
    }
    if (go && problem.empty()) {
        const auto path = m_picker->path();
        try_edit(ctx, [&] {
            if (m_saving) {
                write_file(path, json_text(to_json(ctx.drafts.next_cache(owner)), 2) + "\n");
                ctx.toasts.add(Toasts::Level::info, "Cache policy saved as " + path.string(),
                               ImGui::GetTime());
            } else {
                ctx.drafts.set_next_cache(
                    owner, cache_policy_from_json(read_json_file(path, 1 << 20), path.string()));
            }
            m_picker->accept(ctx);
        });
        ImGui::CloseCurrentPopup();
    }
    ImGui::EndPopup();
}

} // namespace refreshlab::ui
