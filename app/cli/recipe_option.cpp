#include "app/cli/recipe_option.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/signals/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <vector>

namespace refreshlab::app {

namespace {

[[noreturn]] void refuse(const std::string& file, const std::string& problem, const std::string& hint = {}) {
    throw Error("reading a recipe", file, problem, hint);
}

/// Under the names that a recipe gives them.
std::map<std::string, CLI::Option*, std::less<>> options_of(CLI::App& command) {
    std::map<std::string, CLI::Option*, std::less<>> options;
    for (CLI::Option* option : command.get_options()) {
        for (const std::string& name : option->get_lnames())
            if (name != "help" && name != "recipe" && name != "restart") options[name] = option;
        if (option->nonpositional()) continue;
        std::string name = option->get_name();
        std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
        options[name] = option;
    }
    return options;
}

/// What would stand behind the option on a command line; nothing: not the option itself.
std::vector<std::string> words_of(const nlohmann::json& value, const CLI::Option& option,
                                  const std::string& file, const std::string& key) {
    const auto word = [&](const nlohmann::json& one) -> std::string {
        if (one.is_string()) return one.get<std::string>();
        if (!one.is_number() && !one.is_boolean()) refuse(file, "'" + key + "' is neither text nor number");
        return one.dump();
    };
    const bool bare = option.get_items_expected_min() == 0; // a flag, or one that may stand without a value
    if (bare && value.is_boolean() && !value.get<bool>()) return {};
    if (bare && (value == nlohmann::json(true) || value == nlohmann::json::array()))
        return {option.get_expected_max() == 0 ? "true" : ""};
    if (!value.is_array()) return {word(value)};
    if (value.empty()) refuse(file, "'" + key + "' is an empty list");
    std::vector<std::string> words;
    for (const nlohmann::json& one : value)
        words.push_back(word(one));
    return words;
}

void read_recipe(CLI::App& command, const std::string& file) {
    const nlohmann::json recipe = read_json_file(file);
    if (!recipe.is_object()) refuse(file, "is no JSON object");
    const auto whose = recipe.find("train");
    if (whose == recipe.end() || *whose != command.get_name())
        refuse(file, "\"train\" is " + (whose == recipe.end() ? "missing" : whose->dump()) + ", not \"" +
                         command.get_name() + "\"");
    const auto options = options_of(command);
    for (const auto& [key, value] : recipe.items()) {
        if (key == "train") continue;
        const auto found = options.find(key);
        if (found == options.end()) {
            std::vector<std::string_view> names;
            for (const auto& [name, option] : options)
                names.push_back(name);
            refuse(file, "'" + key + "' is no option of train " + command.get_name(),
                   name_hint(key, names, "options"));
        }
        CLI::Option* const option = found->second;
        if (option->count() > 0) continue; // the command line's
        const std::vector<std::string> words = words_of(value, *option, file, key);
        if (words.empty()) continue;
        for (const std::string& word : words)
            option->add_result(word);
        try {
            option->run_callback();
        } catch (const CLI::ParseError& e) {
            refuse(file, e.what());
        }
    }
}

} // namespace

void add_recipe_option(CLI::App& command) {
    // The callbacks of options come before it is seen which required ones are missing.
    command
        .add_option_function<std::string>(
            "--recipe", [&command](const std::string& file) { read_recipe(command, file); },
            "Options from a JSON file: {\"train\": \"" + command.get_name() +
                "\", ...}. The command line goes before it")
        ->type_name("FILE");
}

} // namespace refreshlab::app
