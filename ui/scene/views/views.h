#pragma once

#include "ui/base/table_view.h"
#include "ui/scene/attention/attention_view.h"
#include "ui/scene/axes/signal_choice.h"
#include "ui/scene/landscape/landscape_view.h"
#include "ui/scene/maps/cache_view.h"
#include "ui/scene/series/distribution_view.h"
#include "ui/scene/tables/file_table_view.h"
#include "ui/scene/text/event_choice.h"
#include "ui/scene/text/text_view.h"

namespace refreshlab::ui {

/// What a person has chosen to see, a view for each kind of panel: the context has them, the settings file keeps them, and a figure's
/// request is made with them. Plain data, compared as a whole.
struct Views {
    SignalPlots signals = first_signal_plots();
    TextView text;
    AttentionView attention;
    CacheView cache;
    DistributionView distribution;
    LandscapeView landscape;
    EventChoice events;
    TableView runs; ///< columns by run_table_keys()
    FileTableView file_table;
    friend bool operator==(const Views&, const Views&) = default;
};

} // namespace refreshlab::ui
