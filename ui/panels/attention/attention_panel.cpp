#include "ui/panels/attention/attention_panel.h"

#include "ui/base/format.h"
#include "ui/draw/cells.h"
#include "ui/draw/colour_bar.h"
#include "ui/panels/attention/attention_frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace refreshlab::ui {

using namespace attention;

namespace {

constexpr int log_decades = 3; ///< a logarithmic scale shows this many below its maximum

constexpr const char* signed_colours = "rdbu"; ///< of differences: blue below zero, red above

std::vector<int32_t> chosen(const std::vector<uint8_t>& shown) {
    std::vector<int32_t> indices;
    for (size_t i = 0; i < shown.size(); ++i)
        if (shown[i] != 0) indices.push_back(static_cast<int32_t>(i));
    return indices;
}

} // namespace

std::unique_ptr<Panel> make_attention_panel() {
    return std::make_unique<AttentionPanel>();
}

void AttentionPanel::recording_changed(UiContext&) {
    m_grid.clear();
    m_head.clear();
    m_window = {};
    m_head_max.clear();
    m_shared_max = 0;
    m_row_query = -1;
    m_row.clear();
    m_top.clear();
    m_asked.reset();
}

ColourScale AttentionPanel::head_scale(size_t layer_index, size_t head_index) const {
    ColourScale scale{colour_map(differences() ? signed_colours : m_colours), 0, 1, m_log && !differences()};
    if (m_range == Range::shared && m_shared_max > 0) scale.max = m_shared_max;
    const size_t at = layer_index * m_grid.shape().heads.size() + head_index;
    if (m_range == Range::per_head && at < m_head_max.size() && m_head_max[at] > 0)
        scale.max = m_head_max[at];
    if (scale.log) scale.min = scale.max * std::pow(10.0, -log_decades);
    if (differences()) scale.min = -scale.max;
    return scale;
}

void AttentionPanel::show(AttentionOf of) {
    if (differences() != (of == AttentionOf::difference)) { // ranges of weights say nothing of differences
        m_head_max.clear();
        m_shared_max = 0;
    }
    m_of = of;
}

void AttentionPanel::colour(std::span<const HalfCell> cells, const ColourScale& scale,
                            std::span<uint32_t> rgba) const {
    (differences() ? colour_differences : colour_cells)(cells, scale, rgba);
}

void AttentionPanel::follow_range(const Frame& f) {
    m_head_max.resize(f.layers.size() * f.heads.size(), 0.0);
    size_t at = 0;
    for (size_t l = 0; l < f.layers.size(); ++l) {
        for (size_t h = 0; h < f.heads.size(); ++h, ++at) {
            const double top = std::abs(m_grid.largest_weight(l, h, m_without_first).value_or(0.0));
            m_head_max[at] = std::max(m_head_max[at], top);
            m_shared_max = std::max(m_shared_max, top);
        }
    }
}

void AttentionPanel::draw(UiContext& ctx) {
    const Recording* recording = ctx.recording.get();
    if (recording == nullptr || ctx.steps == 0) {
        ImGui::TextDisabled("Attention appears here with the first step of a run.");
        return;
    }
    const RunInfo& info = recording->info();
    m_layer_shown.resize(static_cast<size_t>(std::max<int64_t>(info.layers, 1)), 1);
    m_head_shown.resize(static_cast<size_t>(std::max<int64_t>(info.heads, 1)), 1);

    Frame f;
    f.recording = recording;
    f.prompt = recording->prompt_length();
    f.layers = chosen(m_layer_shown);
    f.heads = chosen(m_head_shown);
    f.em = ImGui::GetFontSize();
    f.live_engine = ctx.engine.recording().get() == recording;
    // The last record of a finished run holds a token that was never fed: the query before it is the newest.
    const int64_t shown = ctx.shown_step();
    f.query = f.prompt + shown - 1 - (recording->step(shown).fed ? 0 : 1);
    f.query = std::max(f.query, f.prompt);
    if (info.config.mode == Mode::teacher) show(AttentionOf::teacher);
    if (info.config.mode == Mode::student) show(AttentionOf::student);

    draw_toolbar(ctx, f);
    if (f.layers.empty() || f.heads.empty()) {
        ImGui::TextDisabled("All layers or all heads are hidden; choose some in Options.");
        return;
    }
    ctx.selection.layer = std::clamp<int32_t>(ctx.selection.layer, 0, static_cast<int32_t>(info.layers) - 1);
    ctx.selection.head = std::clamp<int32_t>(ctx.selection.head, 0, static_cast<int32_t>(info.heads) - 1);
    if (std::ranges::find(f.layers, ctx.selection.layer) == f.layers.end())
        ctx.selection.layer = f.layers.front();
    if (std::ranges::find(f.heads, ctx.selection.head) == f.heads.end()) ctx.selection.head = f.heads.front();

    m_window = next_window(m_window, f.prompt, f.query, m_rows, ctx.live());
    const ImVec2 at = ImGui::GetCursorScreenPos(), room = ImGui::GetContentRegionAvail();
    if (room.x < 6 * f.em || room.y < 4 * f.em) {
        ImGui::TextDisabled("Too small for the map: enlarge this panel");
        return;
    }

    // Grid left, head right; in a narrow panel the grid above the head.
    const auto columns = static_cast<float>(f.heads.size()), rows = static_cast<float>(f.layers.size());
    const float gap = std::round(f.em);
    const bool beside = room.x >= 1.25F * room.y;
    if (beside) {
        const float want = (room.y - 1.4F * f.em) / rows * columns + 2.0F * f.em; // square cells
        const float width = std::round(std::clamp(want, std::min(room.x * 0.3F, 8 * f.em), room.x * 0.46F));
        draw_grid(ctx, f, at, ImVec2(width, room.y));
        draw_head(ctx, f, ImVec2(at.x + width + gap, at.y), ImVec2(room.x - width - gap, room.y));
    } else {
        const float height = std::round(std::min(room.y * 0.45F, room.x / columns * rows + 1.4F * f.em));
        draw_grid(ctx, f, at, ImVec2(room.x, height));
        draw_head(ctx, f, ImVec2(at.x, at.y + height + gap), ImVec2(room.x, room.y - height - gap));
    }
}

// --- controls ---

void AttentionPanel::draw_toolbar(UiContext& ctx, Frame& f) {
    const float em = f.em;
    const Mode mode = f.recording->info().config.mode;
    ImGui::BeginDisabled(mode != Mode::overfill);
    ImGui::SetNextItemWidth(6.8F * em);
    constexpr std::array names{"Student", "Teacher", "Difference"};
    if (ImGui::BeginCombo("##model", names[static_cast<size_t>(m_of)])) {
        for (const AttentionOf of : {AttentionOf::student, AttentionOf::teacher, AttentionOf::difference})
            if (ImGui::Selectable(names[static_cast<size_t>(of)], of == m_of)) show(of);
        ImGui::EndCombo();
    }
    ImGui::EndDisabled();
    ImGui::SetItemTooltip(
        mode == Mode::overfill
            ? "Whose attention is shown; the difference is teacher - student, over the same keys.\n"
              "The teacher's is read on request."
            : "This run has one model only.");
    ImGui::SameLine();
    bool log = m_log && !differences();
    ImGui::BeginDisabled(differences());
    if (ImGui::Checkbox("Log", &log)) m_log = log;
    ImGui::EndDisabled();
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled))
        ImGui::SetTooltip(
            "%s", differences() ? "Differences have signs: their colours are linear."
                                : fmt::format("Logarithmic colours, over {} decades.", log_decades).c_str());
    ImGui::SameLine();
    if (ImGui::Button("Options")) ImGui::OpenPopup("attention options");
    draw_options(ctx, f);
    ImGui::SameLine();

    // The scale of what is enlarged; in the default, shared range it is everybody's.
    const auto layer = std::ranges::find(f.layers, ctx.selection.layer),
               head = std::ranges::find(f.heads, ctx.selection.head);
    const ColourScale scale =
        head_scale(layer == f.layers.end() ? 0 : static_cast<size_t>(layer - f.layers.begin()),
                   head == f.heads.end() ? 0 : static_cast<size_t>(head - f.heads.begin()));
    const float room = ImGui::GetContentRegionAvail().x;
    if (room > 9 * em) draw_colour_bar("weight", scale, std::min(7 * em, room - 7.5F * em));
    std::string note = m_range == Range::unit ? "fixed" : m_range == Range::shared ? "shared" : "this head";
    if (m_range != Range::unit && m_without_first) note += ", without position 0";
    ctx.landmarks.set_text("attention/range", fmt::format("{}, up to {}", note, format_number(scale.max)));
    ImGui::SameLine();
    if (ImGui::GetContentRegionAvail().x > text_width(note)) {
        ImGui::AlignTextToFramePadding();
        ImGui::TextDisabled("%s", note.c_str());
    } else {
        ImGui::NewLine();
    }
}

void AttentionPanel::draw_chooser(const char* label, std::vector<uint8_t>& shown) {
    ImGui::PushID(label);
    ImGui::TextUnformatted(label);
    ImGui::SameLine(5 * ImGui::GetFontSize());
    if (ImGui::SmallButton("All")) std::ranges::fill(shown, uint8_t{1});
    ImGui::SameLine();
    if (ImGui::SmallButton("None")) std::ranges::fill(shown, uint8_t{0});
    for (size_t i = 0; i < shown.size(); ++i) {
        if (i % 8 != 0) ImGui::SameLine();
        bool on = shown[i] != 0;
        if (ImGui::Checkbox(fmt::format("{}", i).c_str(), &on)) shown[i] = on ? 1 : 0;
    }
    ImGui::PopID();
}

void AttentionPanel::draw_options(UiContext&, Frame& f) {
    if (!ImGui::BeginPopup("attention options")) return;
    ImGui::SeparatorText("Colour range");
    const auto choice = [this](const char* label, Range range, const char* help) {
        if (ImGui::RadioButton(label, m_range == range)) m_range = range;
        ImGui::SetItemTooltip("%s", help);
    };
    choice("0 to 1", Range::unit, "The same for every run.");
    choice("Largest weight of all heads", Range::shared, "One scale for the whole grid.");
    choice("Largest weight of each head", Range::per_head, "Heads cannot be compared by colour.");
    ImGui::BeginDisabled(m_range == Range::unit);
    if (ImGui::Checkbox("Range without position 0", &m_without_first)) {
        m_head_max.clear();
        m_shared_max = 0;
    }
    ImGui::SetItemTooltip("Many heads put most of their weight there.");
    if (ImGui::Button("Fit range")) {
        m_head_max.clear();
        m_shared_max = 0;
    }
    ImGui::SetItemTooltip(
        "The range widens by itself and narrows only here, so that colours do not flicker.");
    ImGui::EndDisabled();
    ImGui::SeparatorText("Shown");
    ImGui::SetNextItemWidth(7 * f.em);
    if (ImGui::BeginCombo("Queries", fmt::format("{}", m_rows).c_str())) {
        for (const int rows : {16, 32, 64, 128, 256})
            if (ImGui::Selectable(fmt::format("{}", rows).c_str(), rows == m_rows)) m_rows = rows;
        ImGui::EndCombo();
    }
    ImGui::SetNextItemWidth(7 * f.em);
    ImGui::BeginDisabled(differences());
    if (ImGui::BeginCombo("Colours", differences() ? signed_colours : m_colours.c_str())) {
        for (const std::string_view name : colour_map_names())
            if (name != signed_colours && ImGui::Selectable(std::string(name).c_str(), name == m_colours))
                m_colours = name;
        ImGui::EndCombo();
    }
    ImGui::EndDisabled();
    draw_chooser("Layers", m_layer_shown);
    draw_chooser("Heads", m_head_shown);
    ImGui::EndPopup();
}

// --- grid ---

void AttentionPanel::draw_grid(UiContext& ctx, Frame& f, ImVec2 at, ImVec2 size) {
    const float em = f.em, left = std::round(1.9F * em), bottom = std::round(1.25F * em);
    const auto heads = static_cast<float>(f.heads.size()), layers = static_cast<float>(f.layers.size());
    const float gap = std::max(1.0F, std::round(em * 0.2F));
    const float cell_x = std::max(4.0F, std::floor((size.x - left) / heads) - gap);
    const float cell_y =
        std::max(4.0F, std::min(std::floor((size.y - bottom) / layers) - gap, std::round(cell_x * 1.3F)));

    AttentionMap::Shape shape{
        m_of, m_window, f.layers, f.heads, static_cast<int64_t>(cell_x), static_cast<int64_t>(cell_y)};
    bool changed = m_grid.update(*f.recording, shape);
    follow_range(f);

    const int64_t rows = m_grid.rows(), columns = m_grid.columns();
    std::string look = fmt::format("{} {} {} {} {}", m_colours, static_cast<int>(m_of), m_log,
                                   static_cast<int>(m_range), m_shared_max);
    if (m_range == Range::per_head)
        for (const double top : m_head_max)
            look += fmt::format(" {}", top);
    changed = changed || look != m_grid_look;
    const auto width = static_cast<int>(columns * static_cast<int64_t>(f.heads.size()));
    const auto height = static_cast<int>(rows * static_cast<int64_t>(f.layers.size()));
    if (width < 1 || height < 1) return;
    if (changed) {
        m_grid_look = std::move(look);
        m_grid_rgba.assign(static_cast<size_t>(width) * static_cast<size_t>(height), 0U);
        std::vector<uint32_t> cell(static_cast<size_t>(rows * columns));
        for (size_t l = 0; l < f.layers.size(); ++l) {
            for (size_t h = 0; h < f.heads.size(); ++h) {
                colour(m_grid.cells(l, h), head_scale(l, h), cell);
                for (int64_t row = 0; row < rows; ++row) {
                    const auto to =
                        (static_cast<int64_t>(l) * rows + row) * width + static_cast<int64_t>(h) * columns;
                    std::copy_n(cell.begin() + row * columns, columns, m_grid_rgba.begin() + to);
                }
            }
        }
        ++m_grid_revision;
        m_grid_size = {width, height};
    }
    const ImTextureID texture =
        ctx.host.texture("attention/grid", m_grid_size[0], m_grid_size[1], m_grid_rgba, m_grid_revision);

    ImDrawList* list = ImGui::GetWindowDrawList();
    // What is recorded ends inside the last block of queries and keys: show exactly the window.
    const auto u_end = static_cast<float>(static_cast<double>(m_window.keys()) /
                                          static_cast<double>(columns * m_grid.key_factor()));
    const double block = static_cast<double>(rows * m_grid.query_factor());
    const auto v_begin =
        static_cast<float>(static_cast<double>(m_window.first_query - m_grid.first_aligned()) / block);
    const auto v_end =
        static_cast<float>(static_cast<double>(m_window.last_query + 1 - m_grid.first_aligned()) / block);
    std::optional<std::string> hovered;
    for (size_t l = 0; l < f.layers.size(); ++l) {
        for (size_t h = 0; h < f.heads.size(); ++h) {
            const ImVec2 min(at.x + left + static_cast<float>(h) * (cell_x + gap),
                             at.y + static_cast<float>(l) * (cell_y + gap));
            const ImVec2 max(min.x + cell_x, min.y + cell_y);
            ImGui::SetCursorScreenPos(min);
            ImGui::PushID(static_cast<int>(l * 4096 + h));
            if (ImGui::InvisibleButton("head", ImVec2(cell_x, cell_y))) {
                ctx.selection.layer = f.layers[l];
                ctx.selection.head = f.heads[h];
            }
            const bool hover = ImGui::IsItemHovered();
            ImGui::PopID();
            if (hover) {
                const auto top = m_grid.largest_weight(l, h, m_without_first);
                ImGui::SetTooltip("Layer %d, head %d\nLargest %s%s %s", f.layers[l], f.heads[h],
                                  differences() ? "difference" : "weight",
                                  m_without_first ? " behind position 0" : "",
                                  top ? format_number(*top).c_str() : "-");
            }
            list->AddRectFilled(min, max,
                                m_grid.missing_rows() == m_window.rows() ? ctx.theme.absent_a
                                                                         : ctx.theme.plot_background);
            const float u = static_cast<float>(h) / heads, v = static_cast<float>(l) / layers;
            draw_cells(list, texture, min, max, ImVec2(u, v + v_begin / layers),
                       ImVec2(u + u_end / heads, v + v_end / layers));
            const bool selected = f.layers[l] == ctx.selection.layer && f.heads[h] == ctx.selection.head;
            if (selected)
                list->AddRect(ImVec2(min.x - 1, min.y - 1), ImVec2(max.x + 1, max.y + 1), ctx.theme.selection,
                              0, std::max(1.5F, em * 0.12F));
            else if (hover)
                list->AddRect(min, max, faded(ctx.theme.selection, 0.6F));
            ctx.landmarks.set(fmt::format("attention/grid/{}/{}", f.layers[l], f.heads[h]),
                              {min.x, min.y, cell_x, cell_y});
        }
        const std::string label = fmt::format("L{}", f.layers[l]);
        if (cell_y >= em * 0.9F || l % 4 == 0)
            text_at(list, ImVec2(at.x, at.y + static_cast<float>(l) * (cell_y + gap) + (cell_y - em) * 0.5F),
                    f.layers[l] == ctx.selection.layer ? ctx.theme.text : ctx.theme.text_muted, label);
    }
    const float under = at.y + layers * (cell_y + gap);
    for (size_t h = 0; h < f.heads.size(); ++h) {
        const std::string label = fmt::format("H{}", f.heads[h]);
        if (cell_x < text_width(label) && h % 4 != 0) continue;
        text_at(
            list,
            ImVec2(at.x + left + static_cast<float>(h) * (cell_x + gap) + (cell_x - text_width(label)) * 0.5F,
                   under),
            f.heads[h] == ctx.selection.head ? ctx.theme.text : ctx.theme.text_muted, label);
    }
    // Below the grid, when there is room: what the cells are.
    const float line = under + bottom + em * 0.2F;
    if (line + em < at.y + size.y) {
        const std::string reduced =
            m_grid.key_factor() * m_grid.query_factor() > 1
                ? fmt::format("max of {} x {}", m_grid.query_factor(), m_grid.key_factor())
                : std::string();
        std::string what = "queries down, keys right";
        if (!reduced.empty()) what += ", " + reduced;
        if (text_width(what) > size.x - left) what = reduced;
        text_at(list, ImVec2(at.x + left, line), ctx.theme.text_muted, what);
    }
}

} // namespace refreshlab::ui
