#include "ui/scene/policy/command_words.h"

#include "engine/control/parameters.h"
#include "engine/record/recording/logged_config.h"
#include "engine/text/utf8.h"
#include "ui/base/format.h"
#include "ui/base/value_format.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace refreshlab::ui {

namespace {

struct Describe {
    std::string operator()(const command::StartRun& c) const {
        return fmt::format("run started, seed {}", c.config.seed);
    }
    std::string operator()(const command::Pause&) const { return "paused"; }
    std::string operator()(const command::Resume&) const { return "played on"; }
    std::string operator()(const command::Step& c) const {
        return format_count(c.steps, "step") + " asked for";
    }
    std::string operator()(const command::Stop&) const { return "stopped"; }
    std::string operator()(const command::RefreshNow&) const { return "refresh by hand"; }
    std::string operator()(const command::FullStepNow&) const { return "full step by hand"; }
    std::string operator()(const command::Rewind& c) const {
        return fmt::format("rewound to step {}", format_thousands(c.step));
    }
    std::string operator()(const command::SetParameter& c) const {
        const Parameter* parameter = find_parameter(c.key);
        if (parameter == nullptr) return fmt::format("{}: {}", c.key, c.value);
        const bool with_unit = !parameter->unit.empty() && c.value != "none";
        return fmt::format("{}: {}{}{}", parameter->label, c.value, with_unit ? " " : "",
                           with_unit ? shown_unit(parameter->unit) : std::string());
    }
    std::string operator()(const command::SetPolicy& c) const {
        return fmt::format("policy {}", c.policy.name);
    }
    std::string operator()(const command::RequestAttention& c) const {
        return fmt::format("attention of position {} asked for", c.position);
    }
    std::string operator()(const command::GiveTokens& c) const {
        if (!c.text.empty()) return fmt::format("given by hand: \"{}\"", visible_text(c.text, 40));
        return format_count(static_cast<int64_t>(c.ids.size()), "token") + " given by hand";
    }
    std::string operator()(const command::SetPace& c) const {
        return fmt::format("pace: {:g} tokens a second", c.tokens_per_second);
    }
    std::string operator()(const command::Branch& c) const {
        return fmt::format("branch after step {}", format_thousands(c.step));
    }
    std::string operator()(const command::ComputeLandscape&) const { return "Landscape computed"; }
    std::string operator()(const command::ComputeScope&) const { return "scopes measured"; }
    std::string operator()(const command::SavePromptCache&) const { return "prompt's cache saved"; }
    std::string operator()(const command::CheckExactness& c) const {
        return c.options.fault == CacheFault::none
                   ? std::string("exactness checked")
                   : fmt::format("exactness checked with fault {}", to_string(c.options.fault));
    }
};

} // namespace

std::string command_words(const CommandEvent& event) {
    const auto command = logged_command(event);
    return command ? std::visit(Describe{}, *command) : event.json; // its own words are better than none
}

std::string describe(const CommandEvent& event) {
    return fmt::format("step {}: {}", format_thousands(event.step), command_words(event));
}

std::string set_key(const CommandEvent& event) {
    const auto command = logged_command(event);
    const auto* set = command ? std::get_if<command::SetParameter>(&*command) : nullptr;
    return set ? set->key : std::string();
}

bool reads_attention(const CommandEvent& event) {
    const auto command = logged_command(event);
    return command && std::holds_alternative<command::RequestAttention>(*command);
}

std::string stop_text(std::string_view reason) {
    constexpr std::pair<std::string_view, std::string_view> words[] = {
        {"max_tokens", "all tokens made"}, {"given_end", "end of the given text"},
        {"stop_token", "end token"},       {"context_limit", "the context is full"},
        {"cancelled", "stopped by hand"},
    };
    for (const auto& [name, text] : words)
        if (name == reason) return std::string(text);
    return std::string(reason);
}

} // namespace refreshlab::ui
