#include "tests/app/program.h"

#include "engine/base/json_file.h"
#include "engine/text/utf8.h"
#include "tests/app/fork_server.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>

namespace refreshlab::test {

namespace fs = std::filesystem;

namespace {

/// A call's standard streams as files.
class Streams {
public:
    Streams() {
        static int calls = 0;
        const fs::path base =
            fs::path(RL_BUILD_DIR) / ("cli-" + std::to_string(getpid()) + "-" + std::to_string(calls++));
        out = base.string() + ".out";
        err = base.string() + ".err";
    }
    [[nodiscard]] Outcome outcome(int status) const {
        Outcome outcome{status, read_file(out), read_file(err)};
        fs::remove(out);
        fs::remove(err);
        return outcome;
    }
    std::string out, err;
};

} // namespace

Outcome refreshlab_cli(const std::vector<std::string>& arguments) {
    const Streams streams;
    return streams.outcome(run_forked(arguments, streams.out, streams.err));
}

Outcome refreshlab_program(const std::vector<std::string>& arguments, const std::function<void()>& prepare) {
    const Streams streams;
    const std::string program = RL_BUILD_DIR "/refreshlab";
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& a : arguments)
        argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        dup2(open(streams.out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(open(streams.err.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDERR_FILENO);
        unsetenv("DISPLAY");
        unsetenv("WAYLAND_DISPLAY");
        if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
        if (prepare) prepare();
        execv(program.c_str(), argv.data());
        _exit(127);
    }
    int state = 0;
    waitpid(child, &state, 0);
    return streams.outcome(WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state));
}

void refused_with(const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = refreshlab_cli(arguments);
    CAPTURE(outcome.err, outcome.out);
    CHECK(outcome.status == 2);
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
    CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(part));
}

bool has_controls(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        const char32_t c = step.code_point;
        if (step.kind != Utf8Step::Kind::character || (c < 0x20 && c != '\n') || (c >= 0x7F && c < 0xA0))
            return true;
        at += step.length;
    }
    return false;
}

Outcome refreshlab_on_terminal(const std::vector<std::string>& arguments, int columns, bool text_too) {
    const fs::path out = fs::path(RL_BUILD_DIR) / ("terminal-" + std::to_string(getpid()) + ".out");
    const std::string program = RL_BUILD_DIR "/refreshlab";
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const std::string& a : arguments)
        argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = static_cast<unsigned short>(columns);
    int master = -1, terminal = -1;
    if (openpty(&master, &terminal, nullptr, nullptr, &size) != 0)
        SKIP("this machine gives no pseudo-terminal (is /dev/pts mounted?): " << std::strerror(errno));
    const pid_t child = fork();
    if (child == 0) {
        dup2(text_too ? terminal : open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), STDOUT_FILENO);
        dup2(terminal, STDERR_FILENO);
        close(master);
        close(terminal);
        if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
        execv(program.c_str(), argv.data());
        _exit(127);
    }
    close(terminal);
    Outcome outcome;
    char buffer[4096];
    for (ssize_t n = 0;
         (n = read(master, buffer, sizeof buffer)) > 0;) // an error once the other side is closed
        outcome.err.append(buffer, static_cast<size_t>(n));
    close(master);
    int state = 0;
    waitpid(child, &state, 0);
    outcome.status = WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
    if (text_too) return outcome;
    outcome.out = read_file(out);
    fs::remove(out);
    return outcome;
}

Scratch::Scratch(const std::string& name)
    : m_folder(fs::path(RL_BUILD_DIR) / ("scratch-" + name + "-" + std::to_string(getpid()))) {
    fs::remove_all(m_folder);
    fs::create_directories(m_folder);
}

Scratch::~Scratch() {
    std::error_code ignored;
    fs::remove_all(m_folder, ignored);
}

const std::string& Table::at(size_t row, const std::string& column) const {
    const auto found = std::find(header.begin(), header.end(), column);
    if (found == header.end()) throw std::out_of_range("no column " + column);
    return rows.at(row).at(static_cast<size_t>(found - header.begin()));
}

Table read_csv(const std::string& path) {
    const std::string text = read_file(path);
    std::vector<std::vector<std::string>> rows(1);
    std::string field;
    bool quoted = false;
    const auto end_field = [&] {
        rows.back().push_back(field);
        field.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
                field += '"';
                ++i;
            } else if (c == '"') {
                quoted = false;
            } else {
                field += c;
            }
        } else if (c == '"') {
            quoted = true;
        } else if (c == ',') {
            end_field();
        } else if (c == '\n') {
            end_field();
            rows.emplace_back();
        } else if (c != '\r') {
            field += c;
        }
    }
    if (rows.back().empty()) rows.pop_back();
    Table table;
    table.header = rows.at(0);
    table.rows.assign(rows.begin() + 1, rows.end());
    return table;
}

Score score_chronicle(const std::string& text) {
    const nlohmann::json almanac = read_json_file(RL_SOURCE_DIR "/assets/prompts/almanac.json");
    const std::map<std::string, std::string> kinds{
        {"Homes", "home"}, {"Colors", "colour"}, {"Animals", "animal"}};
    std::map<std::string, std::string> company; // role -> name
    Score score;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(": ");
        if (colon == std::string::npos) continue;
        const std::string head = line.substr(0, colon);
        const bool names = head.ends_with("company");
        if (!names && !kinds.contains(head)) continue;
        if (names) company.clear();
        std::istringstream items(line.substr(colon + 2));
        for (std::string item; std::getline(items, item, ',');) {
            std::istringstream words(item);
            std::string role, value;
            words >> role >> value;
            if (!value.empty() && value.back() == '.') value.pop_back();
            if (value.empty()) continue; // cut off by the token limit
            if (names) {
                company[role] = value;
            } else if (company.contains(role) && almanac.contains(company[role])) {
                ++score.total;
                score.right += almanac[company[role]][kinds.at(head)] == value ? 1 : 0;
            }
        }
    }
    return score;
}

} // namespace refreshlab::test
