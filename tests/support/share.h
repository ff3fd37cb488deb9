#pragma once

#include <cstdint>
#include <string>

namespace refreshlab::test {

/// The share of this run of the suites: K of N, from 0; 0 of 1 is everything. Throws std::invalid_argument: a REFRESHLAB_SHARE that is none.
struct ShareOfRun {
    int64_t share = 0, of = 1;
};
[[nodiscard]] ShareOfRun share_of_run();

/// Whether a long case that cannot be cut into parts is in this run's share: such cases take turns, from 0. It says so where it is not.
[[nodiscard]] bool has_turn(int64_t turn, const std::string& what);

/// A comparison of everything with everything takes minutes, and each change of the code needs only part of it: a run of the
/// suites takes one share, another for every commit, so that in time all are taken. REFRESHLAB_SHARE="K/N" in the environment
/// (scripts/test.sh) is share K, from 0, of N; without it, everything.
///
///     Share share("every policy in every mode");
///     for (...)
///         if (share.takes()) compare(...);
class Share {
public:
    /// \param what  the parts, in words; said in the suite's output with how many were taken, and which share
    explicit Share(std::string what);
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// Whether the next part is in the share: of parts asked in a row each N-th.
    [[nodiscard]] bool takes();

private:
    std::string m_what;
    ShareOfRun m_run;
    int64_t m_asked = 0, m_taken = 0;
};

} // namespace refreshlab::test
