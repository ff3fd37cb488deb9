#include "ui/scene/policy/empty_hint.h"

namespace refreshlab::ui {

EmptyHint empty_hint(const Signal& signal, const Recording* recording, bool live, Mode mode,
                     const Drafts& drafts) {
    if (recording && !live) return {"Not measured in this run"};
    if (signal.cost == SignalCost::teacher_pass) {
        if (mode != Mode::overfill)
            return {"Needs a student that decodes from the teacher's cache (mode OverFill)"};
        if (drafts.value("shadow") == "true") return {"Shadow mode is on: values come with the next step"};
        return {"Known where the teacher reads: at probes, at refreshes, or at every step in shadow mode",
                "shadow", "Turn shadow mode on"};
    }
    if (signal.cost == SignalCost::mc_rows) {
        if (drafts.value("mc.measure") == "true") return {"MC dropout is on: values come with its next pass"};
        return {"MC dropout is not measured", "mc.measure", "Measure MC dropout"};
    }
    if (signal.attention) {
        if (drafts.value("capture.attention_entropy") == "true")
            return {"Attention entropy is on: values come with the next step"};
        return {"Attention entropy is not measured", "capture.attention_entropy",
                "Measure attention entropy"};
    }
    return {recording && recording->end() ? "The run ended before there was a value" : "No value yet"};
}

} // namespace refreshlab::ui
