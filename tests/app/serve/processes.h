#pragma once

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

/// Programs that a case starts, and a folder for their files.
namespace refreshlab::test {

class Folder {
public:
    Folder() {
        std::string name = RL_BUILD_DIR "/serve_XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        m_path = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(m_path, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return m_path; }
    [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return m_path / name; }

private:
    std::filesystem::path m_path;
};

/// A program of ours with its stdout in a pipe.
class Process {
public:
    explicit Process(std::vector<std::string> words) {
        std::vector<char*> argv;
        for (std::string& word : words)
            argv.push_back(word.data());
        argv.push_back(nullptr);
        int text[2];
        REQUIRE(pipe2(text, O_CLOEXEC) == 0);
        m_child = fork();
        if (m_child == 0) {
            dup2(text[1], STDOUT_FILENO);
            if (chdir(RL_SOURCE_DIR) != 0) _exit(126);
            execv(argv[0], argv.data());
            _exit(127);
        }
        close(text[1]);
        m_out = fdopen(text[0], "r");
    }
    ~Process() {
        if (m_child > 0) static_cast<void>(end(SIGKILL));
        std::fclose(m_out);
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    [[nodiscard]] std::string line() {
        char text[65536] = {};
        return std::fgets(text, sizeof text, m_out) == nullptr ? std::string() : std::string(text);
    }
    [[nodiscard]] pid_t id() const { return m_child; }
    /// Its exit status, once it has ended by itself.
    [[nodiscard]] std::optional<int> ended() {
        int status = 0;
        if (m_child <= 0 || waitpid(m_child, &status, WNOHANG) != m_child) return {};
        m_child = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    /// Exit status; 128 + signal where it died of one. \param number  sent first; 0: none
    int end(int number) {
        if (number != 0) kill(m_child, number);
        int status = 0;
        waitpid(m_child, &status, 0);
        m_child = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

private:
    pid_t m_child = -1;
    FILE* m_out = nullptr;
};

/// `refreshlab serve`, once it listens. \param before  what a shell does first: its limits are the server's; empty: no shell
class Server : public Process {
public:
    explicit Server(const std::vector<std::string>& options, const std::string& before = {})
        : Process(words(options, before)) {
        const std::string said = line();
        const std::string start = "listening on ";
        REQUIRE(said.starts_with(start));
        address = said.substr(start.size(), said.size() - start.size() - 1);
    }
    std::string address;

private:
    static std::vector<std::string> words(const std::vector<std::string>& options,
                                          const std::string& before) {
        std::vector<std::string> all;
        if (!before.empty()) all = {"/bin/sh", "-c", before + "; exec \"$0\" \"$@\""};
        all.insert(all.end(), {RL_BUILD_DIR "/refreshlab", "serve"});
        all.insert(all.end(), options.begin(), options.end());
        return all;
    }
};

inline std::filesystem::path only_file(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.path().extension() == ".rlt") files.push_back(entry.path());
    REQUIRE(files.size() == 1);
    return files.front();
}

} // namespace refreshlab::test
