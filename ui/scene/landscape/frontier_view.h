#pragma once

#include "ui/scene/axes/auto_range.h"
#include "ui/scene/landscape/landscape_view.h"

#include <optional>

namespace refreshlab::ui {

/// Which part of loss against refreshes is in sight: what fits the present policy until a person zooms or pans, and from then on what
/// that person chose. A plot is linked to `refreshes` and `loss`, and writes into them between begin_frame() and end_frame().
class FrontierView {
public:
    ValueRange refreshes, loss;

    [[nodiscard]] bool fitted() const { return m_fitted; }
    /// What a person chose; nothing while it shows what fits.
    [[nodiscard]] std::optional<FrontierRange> own() const {
        return m_fitted ? std::nullopt : std::optional(FrontierRange{refreshes, loss});
    }
    void fit() { m_fitted = true; } ///< from the next frame on
    /// \param fit_refreshes, fit_loss  what a fitted view shows
    void begin_frame(ValueRange fit_refreshes, ValueRange fit_loss) {
        if (m_fitted) {
            refreshes = fit_refreshes;
            loss = fit_loss;
        }
        m_set_refreshes = refreshes;
        m_set_loss = loss;
    }
    /// What the plot has written is a person's doing. \param wants_fit  a double click: what the plot made of it does not count
    void end_frame(bool wants_fit) {
        if (wants_fit)
            fit();
        else if (refreshes != m_set_refreshes || loss != m_set_loss)
            m_fitted = false;
    }
    /// The button goes down. take_back() undoes the pixel or two by which a click moves a plot.
    void press() { m_pressed = {refreshes, loss, m_fitted}; }
    void take_back() {
        refreshes = m_pressed.refreshes;
        loss = m_pressed.loss;
        m_fitted = m_pressed.fitted;
    }

private:
    struct State {
        ValueRange refreshes, loss;
        bool fitted = true;
    };
    bool m_fitted = true;
    ValueRange m_set_refreshes, m_set_loss;
    State m_pressed;
};

} // namespace refreshlab::ui
