#include "tests/support/share.h"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace refreshlab::test {

ShareOfRun share_of_run() {
    const char* text = std::getenv("REFRESHLAB_SHARE");
    if (text == nullptr || *text == 0) return {};
    long long share = 0, of = 0;
    char rest = 0;
    if (std::sscanf(text, "%lld/%lld%c", &share, &of, &rest) != 2 || of < 1 || share < 0 || share >= of)
        throw std::invalid_argument("REFRESHLAB_SHARE: K/N with 0 <= K < N, not " + std::string(text));
    return {share, of};
}

bool has_turn(int64_t turn, const std::string& what) {
    const ShareOfRun run = share_of_run();
    const bool takes = turn % run.of == run.share;
    if (!takes)
        std::printf("%s: in share %lld of %lld\n", what.c_str(), static_cast<long long>(turn % run.of),
                    static_cast<long long>(run.of));
    return takes;
}

Share::Share(std::string what)
    : m_what(std::move(what))
    , m_run(share_of_run()) {}

Share::~Share() {
    if (m_run.of > 1)
        std::printf("share %lld of %lld of %s: %lld of %lld\n", static_cast<long long>(m_run.share),
                    static_cast<long long>(m_run.of), m_what.c_str(), static_cast<long long>(m_taken),
                    static_cast<long long>(m_asked));
}

bool Share::takes() {
    const bool taken = m_asked++ % m_run.of == m_run.share;
    m_taken += taken ? 1 : 0;
    return taken;
}

} // namespace refreshlab::test
