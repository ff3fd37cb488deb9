#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace refreshlab::test {

struct Outcome {
    int status = -1; ///< exit status; 128 + signal when it died of one
    std::string out, err;
};

/// The program's code with these arguments, in a process of its own, in the repository's folder and without a display.
[[nodiscard]] Outcome refreshlab_cli(const std::vector<std::string>& arguments);

/// The built program itself, where its start is what is tested.
/// \param prepare  runs in the child before the program takes its place
[[nodiscard]] Outcome refreshlab_program(const std::vector<std::string>& arguments,
                                         const std::function<void()>& prepare = {});

/// The same with stderr on a terminal so many columns wide; `err` is all that was written to it, line ends as "\r\n". The
/// test is skipped where the machine has no pseudo-terminal to give.
/// \param text_too  stdout is the same terminal, and `out` stays empty
[[nodiscard]] Outcome refreshlab_on_terminal(const std::vector<std::string>& arguments, int columns,
                                             bool text_too = false);

/// The program refuses these arguments: bad input, in one line that has this part.
void refused_with(const std::vector<std::string>& arguments, const std::string& part);

/// What a terminal would obey, newlines aside: none of it may be in what the program says.
[[nodiscard]] bool has_controls(const std::string& text);

/// An empty folder under the build folder for one test; removed when the object goes.
class Scratch {
public:
    explicit Scratch(const std::string& name);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    [[nodiscard]] std::string operator/(const std::string& file) const { return (m_folder / file).string(); }

private:
    std::filesystem::path m_folder;
};

/// A CSV file: header and rows, RFC 4180.
struct Table {
    std::vector<std::string> header;
    std::vector<std::vector<std::string>> rows;
    [[nodiscard]] const std::string& at(size_t row, const std::string& column) const;
};
[[nodiscard]] Table read_csv(const std::string& path);

/// Attributes of a chronicle that agree with the almanac, and how many there are.
struct Score {
    int right = 0, total = 0;
};
[[nodiscard]] Score score_chronicle(const std::string& text);

} // namespace refreshlab::test
