#include "ui/panels/panel.h"

namespace refreshlab::ui {

std::vector<std::unique_ptr<Panel>> make_panels() {
    std::vector<std::unique_ptr<Panel>> panels;
    panels.push_back(make_text_panel());
    panels.push_back(make_signals_panel());
    panels.push_back(make_policy_panel());
    panels.push_back(make_sampling_panel());
    panels.push_back(make_measure_panel());
    panels.push_back(make_inspector_panel());
    panels.push_back(make_attention_panel());
    panels.push_back(make_landscape_panel());
    panels.push_back(make_cache_panel());
    panels.push_back(make_distribution_panel());
    panels.push_back(make_events_panel());
    panels.push_back(make_runs_panel());
    panels.push_back(make_performance_panel());
    panels.push_back(make_exactness_panel());
    panels.push_back(make_log_panel());
    panels.push_back(make_timeline_panel());
    return panels;
}

} // namespace refreshlab::ui
