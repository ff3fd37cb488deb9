#include "engine/control/table/parameter_groups.h"
#include "engine/control/table/parameter_kinds.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

namespace refreshlab {

using namespace parameter_kinds;

namespace {

void add_verification(std::vector<ParameterEntry>& table) {
    const auto of_policy = [&table](ParameterEntry entry) {
        entry.parameter.of_policy = true;
        table.push_back(std::move(entry));
    };
    ParameterEntry rule;
    rule.parameter = choice(
        "verify.rule", "Token stays if",
        "When a drafted token stays: exact = with probability min(1, p/q), which gives every token the "
        "teacher's distribution; greedy = the teacher's first choice; near_best = at least verify.share of "
        "the "
        "teacher's best; top_k = among the teacher's verify.rank first.",
        {to_string(VerifyRule::exact), to_string(VerifyRule::greedy), to_string(VerifyRule::near_best),
         to_string(VerifyRule::top_k)});
    rule.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.verify.rule));
    };
    rule.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.verify.rule = static_cast<VerifyRule>(v.choice);
    };
    of_policy(std::move(rule));
    of_policy(plain(
        real("verify.share", "Share of the best", "",
             "Rule near_best: a token stays where its probability by the teacher's row is at least this "
             "share of "
             "the largest.",
             0, 1, 0, 1),
        [](auto& c) -> auto& { return c.policy.verify.share; }));
    of_policy(plain(
        integer("verify.rank", "Among the first", "tokens",
                "Rule top_k: a token stays where it is among so many of the teacher's first.", 1,
                policy_limits::rank, 1, 50),
        [](auto& c) -> auto& { return c.policy.verify.rank; }));
    ParameterEntry target;
    target.parameter = real(
        "verify.target", "Share to stay", "",
        "The threshold of top1_prob follows this share of judged tokens that should stay; none = it stands "
        "still.",
        0, 1, 0, 1);
    target.parameter.optional = true;
    target.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.policy.verify.target ? to_text(*c.policy.verify.target) : "none";
    };
    target.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.verify.target = v.none ? std::nullopt : std::optional(v.number);
    };
    of_policy(std::move(target));
    of_policy(plain(
        boolean("verify.splice", "Splice kept",
                "Verification also splices the teacher's entries; off = the student drafts on its own, as in "
                "speculative decoding."),
        [](auto& c) -> auto& { return c.policy.verify.splice; }));
}

/// What a refresh writes (engine/refresh/scope.h).
void add_scope(std::vector<ParameterEntry>& table) {
    const auto of_policy = [&table](ParameterEntry entry) {
        entry.parameter.of_policy = true;
        table.push_back(std::move(entry));
    };
    const auto text = [&](Parameter parameter, std::string_view form, auto field, auto from_text) {
        ParameterEntry entry;
        entry.parameter = std::move(parameter);
        entry.parameter.kind = Kind::text;
        entry.parameter.form = form;
        entry.reads = [from_text](std::string_view given) { return from_text(given).has_value(); };
        entry.get = [field](const RunConfig& c) -> std::optional<std::string> { return to_text(field(c)); };
        entry.set = [field, from_text](RunConfig& c, const ParameterValue& v) {
            field(c) = *from_text(v.text);
        };
        of_policy(std::move(entry));
    };
    text(
        integer(
            "refresh.layers", "Layers", "",
            "Layers whose entries a refresh takes over from the teacher; in the others the student's stay.",
            0, scope_limits::index, 0, 64),
        layers_form, [](auto& c) -> auto& { return c.policy.scope.layers; }, layers_from_text);
    text(
        integer("refresh.kv_heads", "KV heads", "",
                "KV heads whose entries a refresh takes over; 10-12:0 is head 0 of layers 10 to 12.", 0,
                scope_limits::index, 0, 64),
        heads_form, [](auto& c) -> auto& { return c.policy.scope.kv_heads; }, heads_from_text);
    ParameterEntry parts;
    parts.parameter =
        choice("refresh.parts", "Keys, values", "What of an entry a refresh takes over.",
               {to_string(ScopeParts::both), to_string(ScopeParts::keys), to_string(ScopeParts::values)});
    parts.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.scope.parts));
    };
    parts.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.scope.parts = static_cast<ScopeParts>(v.choice);
    };
    of_policy(std::move(parts));
    ParameterEntry positions;
    positions.parameter = choice("refresh.positions", "Positions",
                                 "Which positions of delta a refresh writes: all, or refresh.count of them: "
                                 "the newest, those with the most "
                                 "drift, those that the student attended to most, or by the product of the "
                                 "two. The others stay the student's.",
                                 {to_string(ScopePositions::all), to_string(ScopePositions::newest),
                                  to_string(ScopePositions::drift), to_string(ScopePositions::attention),
                                  to_string(ScopePositions::drift_attention)});
    positions.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.scope.positions));
    };
    positions.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.scope.positions = static_cast<ScopePositions>(v.choice);
    };
    of_policy(std::move(positions));
    of_policy(plain(
        integer("refresh.count", "Positions written", "tokens",
                "How many positions a refresh writes, where refresh.positions is not all.", 0,
                scope_limits::count, 0, 256),
        [](auto& c) -> auto& { return c.policy.scope.count; }));
}

} // namespace

void add_policy_parameters(std::vector<ParameterEntry>& table) {
    ParameterEntry on_fire;
    on_fire.parameter = choice(
        "on_fire", "On fire",
        "What a refresh does to the token already chosen: keep it, draw it from the teacher's row, "
        "draw it again over the refreshed cache; or verify all tokens since the last one: each stays, or "
        "the draft is cut there and the teacher's takes its place.",
        {to_string(OnFire::keep), to_string(OnFire::teacher_token), to_string(OnFire::redraw),
         to_string(OnFire::verify)});
    on_fire.parameter.of_policy = true;
    on_fire.get = [](const RunConfig& c) -> std::optional<std::string> {
        return std::string(to_string(c.policy.on_fire));
    };
    on_fire.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.on_fire = static_cast<OnFire>(v.choice);
    };
    table.push_back(std::move(on_fire));
    add_verification(table);

    ParameterEntry combine;
    combine.parameter =
        choice("combine", "Combine triggers", "Refresh when any trigger holds, or only when all of them do.",
               {"any", "all"});
    combine.parameter.of_policy = true;
    combine.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.policy.combine == Combine::any ? "any" : "all";
    };
    combine.set = [](RunConfig& c, const ParameterValue& v) {
        c.policy.combine = static_cast<Combine>(v.choice);
    };
    table.push_back(std::move(combine));

    ParameterEntry at;
    at.parameter = integer("at", "Schedule", "",
                           "Refreshes at these steps, whatever the triggers say; none = no schedule.", 1,
                           policy_limits::step, 1, policy_limits::step);
    at.parameter.kind = Kind::list;
    at.parameter.choices = {"none"};
    at.parameter.of_policy = true;
    at.get = [](const RunConfig& c) -> std::optional<std::string> {
        return c.policy.at.empty() ? "none" : fmt::format("{}", fmt::join(c.policy.at, ","));
    };
    at.set = [](RunConfig& c, const ParameterValue& v) { c.policy.at = v.list; };
    table.push_back(std::move(at));

    table.push_back(limit(
        integer("window.size", "Window", "tokens",
                "A refresh splices at most the newest W columns; none = all of them, 0 = the teacher "
                "reads and nothing is spliced.",
                0, policy_limits::window, 0, 256),
        [](auto& c) -> auto& { return c.policy.window; }));
    ParameterEntry lag = plain(
        integer("refresh.lag", "Lag", "tokens",
                "A refresh writes this many tokens after it fired, and only the entries that were delta "
                "then. The teacher reads a share of them at each step between. 0 = exact: the student waits. "
                "A lag is another algorithm: the same work with a lower latency spike.",
                0, policy_limits::lag, 0, 32),
        [](auto& c) -> auto& { return c.policy.lag; });
    lag.parameter.of_policy = true;
    table.push_back(std::move(lag));
    add_scope(table);
    table.push_back(limit(
        integer("budget.refreshes", "Budget", "refreshes",
                "At most so many automatic refreshes within budget.per_tokens; none = unlimited.", 0,
                policy_limits::refreshes, 0, 50),
        [](auto& c) -> auto& { return c.policy.budget.refreshes; }));
    ParameterEntry per_tokens = plain(
        integer("budget.per_tokens", "Budget window", "tokens",
                "The number of newest tokens in which budget.refreshes are counted.", 1,
                policy_limits::per_tokens, 100, 2000),
        [](auto& c) -> auto& { return c.policy.budget.per_tokens; });
    per_tokens.parameter.of_policy = true;
    table.push_back(std::move(per_tokens));
}

} // namespace refreshlab
