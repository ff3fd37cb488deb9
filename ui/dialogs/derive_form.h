#pragma once

#include "engine/control/derive/derive_spec.h"
#include "ui/context/context.h"

#include <string>

namespace refreshlab::ui {

/// The controls of a derived student: one for each part of a DeriveSpec. No model is read for them.
class DeriveForm {
public:
    /// Begins with the derivation that stands in the student's field, else with 3 bits in groups of 32.
    void open(const std::string& student);
    /// Controls, what the derivation is in words, what is wrong with it. \return true when it was taken: then spec() is fit
    bool draw(const UiContext& ctx);
    [[nodiscard]] const DeriveSpec& spec() const { return m_spec; }

private:
    void draw_rounding(float column);
    void draw_ffn(float column);
    void draw_skips(float column);
    void draw_noise(float column);
    void read_lists();

    DeriveSpec m_spec;
    std::string m_skip_attention, m_skip_mlp, m_seed; ///< as typed
    std::string m_fault;                              ///< of what was typed
};

} // namespace refreshlab::ui
