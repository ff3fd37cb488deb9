#include "ui/panels/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace refreshlab::ui {

namespace {

template <auto member>
void swap_member(Views& a, Views& b) {
    std::swap(a.*member, b.*member);
}

/// What it draws lies in a namespace of landmarks of its own ("2/signals/plot/kl_nats").
class AnotherPanel final : public Panel {
public:
    AnotherPanel(const PanelKind& kind, int number, const Views& view)
        : m_kind(kind)
        , m_number(number)
        , m_title(title_of_another(kind, number))
        , m_panel(kind.make())
        , m_views(view) {}

    [[nodiscard]] std::string_view title() const override { return m_title; }
    [[nodiscard]] std::string_view kind() const override { return m_kind.title; }
    [[nodiscard]] std::pair<float, float> size_in_ems() const override { return m_panel->size_in_ems(); }
    [[nodiscard]] Views* own_views() override { return &m_views; }
    void exchange_view(Views& views) override { m_kind.swap_views(views, m_views); }

    void draw(UiContext& ctx) override {
        const Exchanged own(*this, ctx);
        m_panel->draw(ctx);
    }
    void recording_changed(UiContext& ctx) override {
        const Exchanged own(*this, ctx);
        m_panel->recording_changed(ctx);
    }

private:
    /// The context has this panel's view for as long as it lives, whatever is thrown meanwhile.
    class Exchanged {
    public:
        Exchanged(AnotherPanel& panel, UiContext& ctx)
            : m_panel(panel)
            , m_ctx(ctx) {
            m_panel.exchange_view(m_ctx.views);
            m_ctx.landmarks.set_prefix(fmt::format("{}/", m_panel.m_number));
        }
        ~Exchanged() {
            m_panel.exchange_view(m_ctx.views);
            m_ctx.landmarks.set_prefix({});
        }
        Exchanged(const Exchanged&) = delete;
        Exchanged& operator=(const Exchanged&) = delete;

    private:
        AnotherPanel& m_panel;
        UiContext& m_ctx;
    };

    const PanelKind& m_kind;
    int m_number;
    std::string m_title;
    std::unique_ptr<Panel> m_panel;
    Views m_views;
};

} // namespace

std::span<const PanelKind> panel_kinds() {
    static constexpr PanelKind kinds[] = {
        {"Text", &make_text_panel, &swap_member<&Views::text>},
        {"Signals", &make_signals_panel, &swap_member<&Views::signals>},
        {"Policy", &make_policy_panel},
        {"Sampling", &make_sampling_panel},
        {"Measure", &make_measure_panel},
        {"Inspector", &make_inspector_panel},
        {"Attention", &make_attention_panel, &swap_member<&Views::attention>},
        {"Landscape", &make_landscape_panel, &swap_member<&Views::landscape>},
        {"Cache", &make_cache_panel, &swap_member<&Views::cache>},
        {"Distribution", &make_distribution_panel, &swap_member<&Views::distribution>},
        {"Events", &make_events_panel, &swap_member<&Views::events>},
        {"Notes", &make_notes_panel},
        {"Runs", &make_runs_panel},
        {"Table", &make_table_panel},
        {"Performance", &make_performance_panel},
        {"Exactness", &make_exactness_panel},
        {"Log", &make_log_panel},
        {"Timeline", &make_timeline_panel},
    };
    return kinds;
}

std::vector<std::unique_ptr<Panel>> make_panels() {
    std::vector<std::unique_ptr<Panel>> panels;
    for (const PanelKind& kind : panel_kinds())
        panels.push_back(kind.make());
    return panels;
}

std::string title_of_another(const PanelKind& kind, int number) {
    return fmt::format("{} {}", kind.title, number);
}

std::unique_ptr<Panel> make_another(std::string_view title, const Views& view) {
    for (const PanelKind& kind : panel_kinds())
        for (int number = 2; kind.swap_views != nullptr && number <= most_of_a_kind; ++number)
            if (title_of_another(kind, number) == title)
                return std::make_unique<AnotherPanel>(kind, number, view);
    return nullptr;
}

} // namespace refreshlab::ui
