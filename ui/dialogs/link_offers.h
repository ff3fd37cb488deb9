#pragma once

#include "engine/control/engine_link.h"
#include "ui/base/latest_answer.h"
#include "ui/state/shell_state.h"

#include <memory>

namespace refreshlab::ui {

/// What the server of a window offers, for a dialog: it is asked beside the frames, once for each connection.
class OffersOfServer {
public:
    explicit OffersOfServer(ShellState& state);
    /// A server that is slow keeps no frame.
    ~OffersOfServer();
    OffersOfServer(const OffersOfServer&) = delete;
    OffersOfServer& operator=(const OffersOfServer&) = delete;
    /// Null: it has not answered yet.
    [[nodiscard]] const LinkOffers* look();

private:
    struct Question {
        const EngineLink* engine = nullptr;
        bool connected = false;
        bool operator==(const Question&) const = default;
    };
    using Answers = LatestAnswer<Question, LinkOffers>;

    ShellState& m_state;
    std::shared_ptr<Answers> m_answers;
};

} // namespace refreshlab::ui
