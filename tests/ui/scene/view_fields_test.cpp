#include "tests/ui/changed_views.h"
#include "ui/panels/panel.h"
#include "ui/scene/views/view_fields.h"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

namespace view_fields_test {

using namespace refreshlab;
using namespace refreshlab::ui;

TEST_CASE("every choice of a view is a field of its own, and is taken back alone", "[ui]") {
    const Views usual, other = test::changed_views();
    const auto fields = view_fields();
    CHECK(changed_fields(usual, usual).empty());
    CHECK(changed_fields(usual, other).size() == fields.size());
    Views taken = other;
    for (size_t i = 0; i < fields.size(); ++i) {
        fields[i].take(taken, usual);
        CHECK(changed_fields(other, taken).size() == i + 1);
    }
    CHECK(taken == usual); // nothing that a person chooses is missing among them
}

TEST_CASE("what a panel sets by itself is no choice", "[ui]") {
    Views views;
    views.cache.top = 3;
    views.attention.scales = AttentionScales{0.5, {0.5}};
    views.landscape.frontier = FrontierRange{{0, 3}, {0, 1}};
    CHECK(changed_fields(Views{}, views).empty());
}

TEST_CASE("a change of what is shown has words", "[ui]") {
    const auto words = [](const Views& before, const Views& after) {
        return words_of_change(changed_fields(before, after), before, after);
    };
    const Views usual;
    Views other = usual;
    other.signals.choose("entropy_bits").shown = false;
    CHECK(words(usual, other) == "Signals: hide Entropy");
    CHECK(words(other, usual) == "Signals: show Entropy");
    other.signals.choose("kl_nats").scale = AxisScale::log;
    CHECK(words(usual, other) == "Signals: hide Entropy, ...");
    other = usual;
    other.signals.choose("kl_nats").scale = AxisScale::log;
    CHECK(words(usual, other).starts_with("Signals: y axis of KL"));
    other = usual;
    other.cache.log = true;
    CHECK(words(usual, other) == "Cache: logarithmic");
    other.text.origins = true;
    CHECK(words(usual, other) == "Text: underlines by origin, ...");
    CHECK(words(usual, usual).empty());
}

TEST_CASE("a further panel has a view of its own kind alone", "[ui]") {
    Views context;
    Views wanted;
    wanted.text.coloured_by = "kl_nats";
    const auto panel = make_another("Text 2", wanted);
    REQUIRE(panel);
    CHECK(panel->title() == "Text 2");
    CHECK(panel->kind() == "Text");
    context.cache.log = true;
    panel->exchange_view(context);
    CHECK(context.text.coloured_by == "kl_nats");
    CHECK(context.cache.log); // another kind's
    context.text.origins = true;
    panel->exchange_view(context);
    CHECK(context.text == TextView{});
    panel->exchange_view(context);
    CHECK(context.text.origins); // it has kept what was changed
    for (const char* none : {"Text", "Text 1", "Text 4", "Text 02", "Policy 2", "Nothing 2", ""})
        CHECK(make_another(none, wanted) == nullptr);
    for (const PanelKind& kind : panel_kinds())
        CHECK((make_another(title_of_another(kind, 2), wanted) != nullptr) == (kind.swap_views != nullptr));
}

} // namespace view_fields_test
