#include "ui/state/keys.h"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

namespace keys_test {

using namespace refreshlab::ui;

namespace {

std::vector<Action> some_actions() {
    std::vector<Action> actions(4);
    const std::pair<const char*, ImGuiKeyChord> table[] = {
        {"a", ImGuiKey_R}, {"b", ImGuiMod_Ctrl | ImGuiKey_S}, {"c", 0}, {"d", ImGuiKey_Space}};
    for (size_t i = 0; i < 4; ++i) {
        actions[i].id = table[i].first;
        actions[i].usual_shortcut = actions[i].shortcut = table[i].second;
    }
    return actions;
}

std::string keys_of(const std::vector<Action>& actions) {
    std::string keys;
    for (const Action& action : actions)
        keys += action.id + "=" + shortcut_text(action.shortcut) + " ";
    return keys;
}

} // namespace

TEST_CASE("every key is read as it is written", "[ui][keys]") {
    for (int key = ImGuiKey_NamedKey_BEGIN; key < ImGuiKey_GamepadStart; ++key)
        for (const ImGuiKeyChord held : {0, int(ImGuiMod_Ctrl), int(ImGuiMod_Ctrl | ImGuiMod_Shift),
                                         int(ImGuiMod_Alt | ImGuiMod_Shift)}) {
            const std::string text = shortcut_text(held | key);
            CAPTURE(text);
            CHECK(parse_shortcut(text) == (held | key));
        }
    CHECK(parse_shortcut("") == 0);
    CHECK_FALSE(parse_shortcut("Hyper+Q"));
    CHECK_FALSE(parse_shortcut("Ctrl+"));
}

TEST_CASE("a chosen key is one action's alone, and the table's comes back", "[ui][keys]") {
    std::vector<Action> actions = some_actions();
    ChosenKeys chosen;
    choose_key(actions, chosen, "c", ImGuiKey_J);
    CHECK(keys_of(actions) == "a=R b=Ctrl+S c=J d=Space ");
    CHECK(chosen == ChosenKeys{{"c", "J"}});
    choose_key(actions, chosen, "c", ImGuiKey_R); // from a, which has none then
    CHECK(keys_of(actions) == "a= b=Ctrl+S c=R d=Space ");
    CHECK(action_of_key(actions, ImGuiKey_R)->id == "c");
    CHECK(action_of_key(actions, ImGuiKey_J) == nullptr);
    CHECK(action_of_key(actions, 0) == nullptr);
    choose_key(actions, chosen, "a", ImGuiKey_R); // and back
    CHECK(keys_of(actions) == "a=R b=Ctrl+S c= d=Space ");
    choose_key(actions, chosen, "d", 0);
    CHECK(keys_of(actions) == "a=R b=Ctrl+S c= d= ");
    choose_key(actions, chosen, "c", 0);
    choose_key(actions, chosen, "d", ImGuiKey_Space);
    CHECK(chosen.empty());
    CHECK(keys_of(actions) == keys_of(some_actions()));
}

TEST_CASE("keys of a settings file that clash or that nobody knows do no harm", "[ui][keys]") {
    std::vector<Action> actions = some_actions();
    apply_keys(actions, {{"a", "X"}, {"b", "X"}, {"c", "no such key"}, {"gone", "Y"}, {"d", ""}});
    CHECK(keys_of(actions) == "a=X b= c= d= ");
    apply_keys(actions, {{"c", "R"}}); // what was chosen comes before the table
    CHECK(keys_of(actions) == "a= b=Ctrl+S c=R d=Space ");
}

TEST_CASE("a text asks for an action's key, or for its place in the menus", "[ui][keys]") {
    Action action;
    action.menu = "Run";
    action.label = "Refresh now";
    action.shortcut = ImGuiMod_Ctrl | ImGuiKey_LeftBracket;
    CHECK(way_to(action) == "Ctrl+[");
    action.shortcut = 0;
    CHECK(way_to(action) == "Run > Refresh now");
}

} // namespace keys_test
