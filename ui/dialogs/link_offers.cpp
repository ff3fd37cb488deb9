#include "ui/dialogs/link_offers.h"

#include <future>
#include <utility>

namespace refreshlab::ui {

OffersOfServer::OffersOfServer(ShellState& state)
    : m_state(state)
    , m_answers(std::make_shared<Answers>([](const Question& of) { return of.engine->offers(); })) {}

OffersOfServer::~OffersOfServer() {
    if (m_answers->busy())
        m_state.orphans.push_back(
            std::async(std::launch::async, [answers = std::move(m_answers)]() mutable { answers.reset(); }));
}

const LinkOffers* OffersOfServer::look() {
    const auto& link = m_state.ctx.status->link;
    m_answers->ask({&m_state.ctx.engine, link && link->connected}, false);
    const LinkOffers* const offers = m_answers->answer();
    if (m_answers->busy()) m_state.ctx.host.keep_awake(0.3);
    return m_answers->busy() ? nullptr : offers;
}

} // namespace refreshlab::ui
