#pragma once

#include "engine/record/recording/recording.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab {

/// Keeps what a window decodes while it grows, so that a kill at any moment loses the last third of a second at most. A root run has a
/// file with its branches: "runs-1.rlt", then "runs-2.rlt". They are traces as TraceStore writes them, whole whenever they are read.
///
/// Limit    the files together. Beyond it the oldest go; where the newest alone is larger, nothing is added to it any more. Both are
///          said in news().
/// Threads  all methods: one thread, which never waits for a file. A thread of its own makes, writes, measures and removes the files.
/// Cost     of a step: none. Of watch(): a lock held for moments. The files are written four times a second at most, since a
///          round per step would cost a small model several percent of its decode.
class RunKeeper {
public:
    /// \param folder  is there; \param limit_bytes  of all files; 0: nothing is kept
    RunKeeper(std::filesystem::path folder, int64_t limit_bytes);
    ~RunKeeper(); ///< all that was watched is in the files, as far as the limit goes
    RunKeeper(const RunKeeper&) = delete;
    RunKeeper& operator=(const RunKeeper&) = delete;

    /// Called again and again: what the engine has now. A recording without steps is not kept yet.
    void watch(const std::shared_ptr<const Recording>& live);
    void set_limit(int64_t limit_bytes);
    /// Writes this text to folder/NAME, through a temporary file; a later text of the same name takes the place of one that waits.
    void write(const std::string& name, std::string text);
    /// Waits until all that was asked for is in the files. For suites.
    void flush();

    /// Which file of the folder has a run, by the run's id.
    [[nodiscard]] std::map<std::string, std::string, std::less<>> files() const;
    [[nodiscard]] int64_t bytes() const; ///< of the files, a moment ago
    /// What a person is to be told, a line each; each once.
    [[nodiscard]] std::vector<std::string> news();

private:
    struct Impl;
    std::unique_ptr<Impl> m_impl;
};

} // namespace refreshlab
