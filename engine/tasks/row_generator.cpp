#include "engine/tasks/row_generator.h"

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/json_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace refreshlab {

namespace {

constexpr const char* making_rows = "making rows";
constexpr size_t fewest_names = 80, story_bytes = 1400, beginning_bytes = 900, shortest_story = 200;
constexpr int most_tries = 1000;

/// The names of the almanac in the lines of a text that tell who is there, by line.
std::vector<std::set<std::string, std::less<>>> companies_of(const std::string& text,
                                                             const Almanac& almanac) {
    std::vector<std::set<std::string, std::less<>>> companies;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string_view line = std::string_view(text).substr(begin, end - begin);
        begin = end + 1;
        std::set<std::string, std::less<>> names;
        for (size_t at = 0; at < line.size();) {
            const size_t stop = std::min(line.find_first_of(" ,.:", at), line.size());
            if (almanac.contains(line.substr(at, stop - at))) names.emplace(line.substr(at, stop - at));
            at = stop + 1;
        }
        if (!names.empty()) companies.push_back(std::move(names));
    }
    return companies;
}

/// At most so many bytes, whole characters.
std::string cut_to(const std::string& text, size_t bytes) {
    if (text.size() <= bytes) return text;
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U)
        --bytes;
    return text.substr(0, bytes);
}

} // namespace

RowWords read_row_words(const std::filesystem::path& file) {
    const nlohmann::json json = read_json_file(file, size_t{1} << 24);
    const auto list = [&](const char* key, size_t fewest) {
        const auto found = json.is_object() ? json.find(key) : json.end();
        const auto is_word = [](const nlohmann::json& word) { return word.is_string(); };
        if (found == json.end() || !found->is_array() || found->size() < fewest ||
            !std::ranges::all_of(*found, is_word))
            throw Error("reading the words of rows", file.string(),
                        fmt::format("\"{}\" must be a list of {} words or more", key, fewest));
        return found->get<std::vector<std::string>>();
    };
    return {list("roles", 8),  list("interludes", 2), list("names", 18), list("colors", 1),
            list("items", 12), list("places", 1),     list("keys", 41)};
}

RowGenerator::RowGenerator(RowSources sources, uint64_t seed)
    : m_sources(std::move(sources))
    , m_random(seed) {
    for (const auto& [name, words] : m_sources.almanac)
        m_names.push_back(name);
    if (m_names.size() < fewest_names)
        throw Error(making_rows, {}, fmt::format("the almanac has {} names", m_names.size()),
                    fmt::format("a chronicle needs {}", fewest_names));
    std::erase_if(m_sources.stories, [](const std::string& story) { return story.size() < shortest_story; });
    for (const PromptRecord& row : m_sources.held_out) {
        m_rows.emplace(row.prompt, row.response);
        for (const std::string* text : {&row.prompt, &row.response}) {
            for (auto& names : companies_of(*text, m_sources.almanac))
                m_held_out.push_back(std::move(names));
        }
    }
}

size_t RowGenerator::below(size_t limit) {
    RL_ASSERT(limit > 0);
    // The high word of draw * limit: std::uniform_int_distribution differs between libraries.
    return static_cast<size_t>((m_random() >> 32) * static_cast<uint64_t>(limit) >> 32);
}

int64_t RowGenerator::between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<size_t>(high - low + 1)));
}

template <class T>
void RowGenerator::shuffle(std::vector<T>& list) {
    for (size_t i = list.size(); i > 1; --i)
        std::swap(list[i - 1], list[below(i)]);
}

std::vector<std::string> RowGenerator::some(const std::vector<std::string>& of, size_t count) {
    RL_ASSERT(count <= of.size());
    std::vector<std::string> drawn = of;
    for (size_t i = 0; i < count; ++i)
        std::swap(drawn[i], drawn[i + below(drawn.size() - i)]);
    drawn.resize(count);
    return drawn;
}

bool RowGenerator::is_held_out(const std::vector<std::string>& names) const {
    const Names ours(names.begin(), names.end());
    return std::ranges::any_of(m_held_out, [&](const Names& theirs) {
        return std::ranges::includes(ours, theirs) || std::ranges::includes(theirs, ours);
    });
}

/// \param used  names that must not come up; those of the company are added
RowGenerator::Company RowGenerator::company(Names& used) {
    const auto size = static_cast<size_t>(between(3, 8));
    const auto roles = some(m_sources.words.roles, size);
    Company made;
    for (const std::string& role : m_sources.words.roles) {
        if (std::ranges::find(roles, role) != roles.end()) made.roles.push_back(role);
    }
    std::vector<std::string> free = m_names;
    std::erase_if(free, [&](const std::string& name) { return used.contains(name); });
    int tries = 0;
    do {
        if (++tries > most_tries)
            throw Error(making_rows, {}, "the held-out rows leave no other company", "give a larger almanac");
        made.names = some(free, size);
    } while (is_held_out(made.names));
    used.insert(made.names.begin(), made.names.end());
    return made;
}

/// "Homes: king farm, cook tree."
std::string RowGenerator::facts(const Company& company, size_t attribute) const {
    std::string line = std::string(attribute_heads[attribute]) + ":";
    for (size_t i = 0; i < company.names.size(); ++i)
        line += fmt::format("{} {} {}", i > 0 ? "," : "", company.roles[i],
                            m_sources.almanac.at(company.names[i])[attribute]);
    return line + ".";
}

/// A company with all that is known of it, four lines.
std::string RowGenerator::told(const Company& company, std::string_view head) const {
    std::string text = fmt::format("{}:", head);
    for (size_t i = 0; i < company.names.size(); ++i)
        text += fmt::format("{} {} {}", i > 0 ? "," : "", company.roles[i], company.names[i]);
    text += ".";
    for (size_t attribute = 0; attribute < num_attributes; ++attribute)
        text += "\n" + facts(company, attribute);
    return text;
}

PromptRecord RowGenerator::roll_call() {
    Names used;
    const Company called = company(used);
    std::string prompt = "Roll call:", answer, asked;
    for (size_t i = 0; i < called.names.size(); ++i)
        prompt += fmt::format("{} {} {}", i > 0 ? "," : "", called.roles[i], called.names[i]);
    constexpr std::string_view words[num_attributes] = {"homes", "colors", "animals"};
    const size_t wanted = 1 + below((size_t{1} << num_attributes) - 1); // bits, at least one
    for (size_t attribute = 0; attribute < num_attributes; ++attribute) {
        if ((wanted >> attribute & 1U) == 0) continue;
        asked += fmt::format("{}{}", asked.empty() ? "" : " and ", words[attribute]);
        answer += (answer.empty() ? "" : "\n") + facts(called, attribute);
    }
    return {"roll_call", fmt::format("{}. Tell their {}.", prompt, asked), {}, answer};
}

PromptRecord RowGenerator::one_company() {
    Names used;
    const Company made = company(used);
    return {"company",
            fmt::format("Gather a company of {} travelers and tell about them.", made.names.size()),
            {},
            told(made, "The company")};
}

PromptRecord RowGenerator::chronicle() {
    const int64_t companies = between(4, 9);
    Names used;
    std::string answer;
    for (int64_t i = 0; i < companies; ++i) {
        answer += told(company(used), i == 0 ? "The company" : "The next company");
        answer += "\n" + fmt::format("{}", fmt::join(some(m_sources.words.interludes, 1 + below(2)), " "));
        if (i + 1 < companies) answer += "\n\n";
    }
    return {"chronicle", fmt::format("Write a chronicle of {} companies.", companies), {}, answer};
}

PromptRecord RowGenerator::chain_of_key() {
    const auto words = some(m_sources.words.keys, static_cast<size_t>(between(8, 40)) + 1);
    std::vector<std::string> keys;
    for (size_t i = 0; i + 1 < words.size(); ++i)
        keys.push_back(words[i] + "-" + words[i + 1]);
    const std::string answer = fmt::format("{}", fmt::join(keys, "\n"));
    shuffle(keys);
    return {
        "chain_of_key",
        fmt::format(
            "Here are some keys:\n{}\nMake a chain. Each key starts with the last word of the key before it. "
            "Begin with {}.",
            fmt::join(keys, "\n"), words.front()),
        {},
        answer};
}

PromptRecord RowGenerator::ledger() {
    const RowWords& words = m_sources.words;
    const auto names = some(words.names, static_cast<size_t>(between(5, 18)));
    const bool list = below(60) < 26;
    std::vector<std::string> facts, answers;
    for (const std::string& name : names) {
        const std::string &color = words.colors[below(words.colors.size())],
                          &item = words.items[below(words.items.size())],
                          &place = words.places[below(words.places.size())];
        const int64_t coins = between(2, 20);
        facts.push_back(
            fmt::format("{} has a {} {} in the {} and {} coins.", name, color, item, place, coins));
        answers.push_back(list ? fmt::format("{}: {} {}, {}, {}", name, color, item, place, coins)
                               : facts.back());
    }
    std::vector<size_t> order;
    for (size_t i = 0; i < names.size(); ++i)
        order.push_back(i);
    shuffle(order);
    order.resize(static_cast<size_t>(between(4, std::ssize(names))));
    std::vector<std::string> asked, told;
    for (const size_t i : order) {
        asked.push_back(names[i]);
        told.push_back(answers[i]);
    }
    return {"ledger",
            fmt::format("These are the facts:\n{}\n{} in this order: {}.", fmt::join(facts, "\n"),
                        list ? "Write a list" : "Tell about the children", fmt::join(asked, ", ")),
            {},
            fmt::format("{}", fmt::join(told, "\n"))};
}

PromptRecord RowGenerator::table() {
    const RowWords& words = m_sources.words;
    std::vector<std::string> columns =
        some({"price", "place", "color", "owner"}, static_cast<size_t>(between(2, 4)));
    columns.insert(columns.begin(), "item");
    const auto rows = static_cast<size_t>(between(4, 12));
    const auto items = some(words.items, rows), owners = some(words.names, rows);
    const auto cell = [&](const std::string& column, size_t row) {
        if (column == "item") return items[row];
        if (column == "owner") return owners[row];
        if (column == "price") return std::to_string(between(2, 99));
        const auto& list = column == "place" ? words.places : words.colors;
        return list[below(list.size())];
    };
    std::string prompt = "<table>\n<tr>";
    for (const std::string& column : columns)
        prompt += fmt::format("<th>{}</th>", column);
    const auto asked = some(columns, std::min(columns.size(), 2 + below(2)));
    std::string answer = fmt::format(" {}", fmt::join(asked, "\t "));
    for (size_t row = 0; row < rows; ++row) {
        prompt += "</tr>\n<tr>";
        std::vector<std::string> cells;
        for (const std::string& column : columns) {
            cells.push_back(cell(column, row));
            prompt += fmt::format("<td> {}</td>", cells.back());
        }
        answer += "\n";
        for (size_t i = 0; i < asked.size(); ++i) {
            const auto at = static_cast<size_t>(std::ranges::find(columns, asked[i]) - columns.begin());
            answer += fmt::format("{} {}", i > 0 ? "\t" : "", cells[at]);
        }
    }
    prompt += fmt::format("</tr>\n</table>\nWrite these columns with tabs between them: {}.",
                          fmt::join(asked, ", "));
    return {"table", prompt, {}, answer};
}

PromptRecord RowGenerator::retell() {
    if (m_sources.stories.empty())
        throw Error(making_rows, "retell",
                    fmt::format("no story of {} bytes or more is there", shortest_story),
                    "give stories to tell again");
    const std::string& story = m_sources.stories[below(m_sources.stories.size())];
    const std::string answer = cut_to(story, story_bytes);
    if (story.size() > beginning_bytes && below(3) == 0)
        return {"retell",
                "Repeat this beginning of a story and then go on:\n" + cut_to(story, beginning_bytes),
                {},
                answer};
    return {"retell", "Tell this story again, word for word:\n" + answer, {}, answer};
}

PromptRecord RowGenerator::make(std::string_view kind) {
    using Make = PromptRecord (RowGenerator::*)();
    constexpr std::pair<std::string_view, Make> makers[] = {
        {"roll_call", &RowGenerator::roll_call}, {"company", &RowGenerator::one_company},
        {"chronicle", &RowGenerator::chronicle}, {"chain_of_key", &RowGenerator::chain_of_key},
        {"ledger", &RowGenerator::ledger},       {"table", &RowGenerator::table},
        {"retell", &RowGenerator::retell}};
    const auto* const maker = std::ranges::find(makers, kind, &std::pair<std::string_view, Make>::first);
    RL_ASSERT(maker != std::end(makers));
    for (int tries = 0; tries < most_tries; ++tries) {
        PromptRecord row = (this->*maker->second)();
        if (!m_rows.contains({row.prompt, row.response})) return row;
    }
    throw Error(making_rows, std::string(kind), "every row that can be made is held out",
                "give more stories");
}

} // namespace refreshlab
