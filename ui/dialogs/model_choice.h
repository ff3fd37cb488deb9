#pragma once

#include "engine/fetch/known_models.h"
#include "ui/dialogs/derive_form.h"
#include "ui/dialogs/link_offers.h"
#include "ui/dialogs/new_run.h"
#include "ui/draw/path_picker.h"
#include "ui/state/shell_state.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace refreshlab::ui {

/// The fields in which a model is named: a path to type, the models that the program knows, browsing, and published models,
/// which are fetched where they are not there yet. Where the engine is a server's, the models that the server offers are listed
/// instead: paths are its own.
class ModelChoice {
public:
    explicit ModelChoice(ShellState& state);
    /// One field, as wide as there is room. \param id  "##teacher"
    /// \param derives  the student's: it may be made of the teacher's weights
    void draw(const char* id, std::string& path, bool derives = false);
    /// A path that the engine may have: any of this machine; of a server one that it offers.
    [[nodiscard]] bool is_offered(const std::string& path) const;

private:
    [[nodiscard]] bool remote() const { return m_state.ctx.status->link.has_value(); }
    void look_at_offers();
    void draw_list(const char* id, std::string& path);
    void draw_browser(const char* id, std::string& path);
    void draw_published(const char* id, std::string& path);
    void draw_fetching(const char* id, std::string& path);
    void draw_derive(std::string& path);
    void fetch(const char* id, size_t published);

    ShellState& m_state;
    std::vector<KnownModel> m_known;
    OffersOfServer m_offers;
    std::string m_offers_problem;
    std::unique_ptr<PathPicker> m_picker; ///< of the field m_browsing
    std::string m_browsing;
    DeriveForm m_derive;
    std::shared_ptr<WorkOutcome> m_fetch; ///< for the field m_fetching
    std::string m_fetching, m_fetched_path, m_fault;
};

} // namespace refreshlab::ui
