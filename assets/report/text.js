"use strict";
// The generated text, coloured by a signal. A token has the colour of the step that chose it, or of its own step where the signal is about
// the token itself.
(() => {
    const { make } = report;

    /** What a token shows. A line break is shown and made. */
    function fill(element, pieces) {
        const add = (text) => {
            text.split("\n").forEach((part, i) => {
                if (i > 0) element.append(make("span", { class: "newline", "aria-hidden": "true" }, "↵"), "\n");
                if (part) element.append(part);
            });
        };
        if (typeof pieces === "string") add(pieces);
        else for (let i = 0; i < pieces.length; i += 2)
            if (pieces[i]) element.append(make("span", { class: pieces[i] }, pieces[i + 1]));
            else add(pieces[i + 1]);
    }

    /** Spaces before a word stand between the tokens, so that a line that ends with them does not end in colour. */
    const gapOf = (pieces) => (typeof pieces === "string" && /^ +[^ \n]/.test(pieces) ? pieces.match(/^ +/)[0] : "");

    function legend(signal) {
        if (!signal) return make("span", { class: "legend" }, "no signal was measured");
        if (signal.verdicts) {
            const [yes, no, neither] = signal.verdicts;
            return make("span", { class: "legend" }, make("span", { class: "yes" }, yes),
                make("span", { class: "no" }, no), make("span", { class: "neither" }, `else ${neither}`));
        }
        const unit = signal.unit ? ` ${signal.unit}` : "";
        return make("span", { class: "legend", "--hue": `var(--${signal.colour})`, "--most": `var(--${signal.colour}-most)` },
            report.number(signal.scale[0]), make("i", { class: "scale" }), report.number(signal.scale[1]) + unit);
    }

    function colour(tokens, signal) {
        const [low, high] = signal ? signal.scale : [0, 1];
        tokens.forEach((element, i) => {
            const value = signal ? report.valueAt(signal, i, i + 1) : null;
            const shown = report.finite(value);
            const share = shown ? Math.min(Math.max((value - low) / (high - low), 0), 1) : 0;
            element.classList.toggle("measured", shown && !signal.verdicts);
            element.classList.toggle("yes", Boolean(shown && signal.verdicts && value >= 0.5));
            element.classList.toggle("no", Boolean(shown && signal.verdicts && value < 0.5));
            element.classList.toggle("odd", typeof value === "string");
            if (shown && !signal.verdicts) element.style.setProperty("--share", share.toFixed(4));
            else element.style.removeProperty("--share");
        });
    }

    report.textSection = (view) => {
        const run = view.run;
        const ids = run.text.ids;
        const text = make("div", {
            class: "text", tabindex: "0", role: "group",
            "aria-label": "Generated text. Left and right arrows go from token to token.",
        });
        const noted = new Map();
        run.notes.forEach((note, n) => {
            for (let t = note.first; t <= Math.min(note.last, run.steps); ++t)
                if (!noted.has(t)) noted.set(t, { note, n, begins: t === note.first });
        });
        const refreshed = new Map(run.marks.filter((mark) => mark.lane === "refresh").map((mark) => [mark.step, mark]));
        const tokens = ids.map((_, i) => {
            const step = i; // y_{i+1} was chosen by step i
            const element = make("span", { class: "token", "data-step": step });
            const mark = refreshed.get(step);
            if (mark) {
                element.classList.add("refreshed");
                element.style.setProperty("--mark", `var(--${mark.colour})`);
            }
            const note = noted.get(step);
            if (note) {
                element.classList.add("noted");
                element.style.setProperty("--note", `var(--${note.note.colour})`);
                if (note.begins) element.append(make("sup", {}, String(note.n + 1)));
            }
            if (run.fork_step > 0 && step === run.fork_step + 1) element.classList.add("fork");
            const gap = gapOf(run.text.pieces[i]);
            if (gap) {
                text.append(gap);
                fill(element, run.text.pieces[i].slice(gap.length));
            } else {
                fill(element, run.text.pieces[i]);
            }
            text.append(element);
            return element;
        });

        const pick = make("select", { "aria-label": "Colour the text by" },
            ...run.signals.map((signal, i) => make("option", { value: i }, signal.label)));
        const first = Math.max(0, run.signals.findIndex((signal) => signal.name === "entropy_bits"));
        pick.value = String(first);
        const key = make("span");
        const paint = () => {
            const signal = run.signals[Number(pick.value)] ?? null;
            text.style.setProperty("--hue", signal ? `var(--${signal.colour})` : "0,0,0");
            text.style.setProperty("--most", signal ? `var(--${signal.colour}-most)` : "0");
            colour(tokens, signal);
            key.replaceChildren(legend(signal));
            pick.title = signal ? signal.help : "";
        };
        pick.addEventListener("change", paint);
        paint();

        const stepOf = (event) => {
            const element = event.target.closest(".token");
            return element ? Number(element.dataset.step) : null;
        };
        text.addEventListener("pointermove", (event) => {
            const step = stepOf(event);
            if (step === null || event.pointerType === "touch") report.hideTip();
            else {
                const names = new Set([...view.plotted, run.signals[Number(pick.value)]?.name]);
                report.showTip(report.stepCard(run, step, { token: step + 1, names }), event.clientX, event.clientY);
            }
        });
        text.addEventListener("pointerleave", report.hideTip);
        text.addEventListener("click", (event) => {
            const step = stepOf(event);
            if (step !== null) view.select(step);
        });
        text.addEventListener("keydown", (event) => {
            const by = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
            if (by === undefined) return;
            event.preventDefault();
            view.select(Math.min(Math.max((view.step ?? 0) + by, 0), ids.length - 1), { show: true });
        });

        const card = make("aside", { class: "step-card", "aria-live": "polite" },
            make("p", { class: "hint" }, "Click a token or a plot to keep a step here."));
        let shown = null;
        view.listen((what) => {
            if (!what.step) return;
            shown?.classList.remove("selected");
            shown = view.step === null ? null : tokens[view.step] ?? null;
            shown?.classList.add("selected");
            if (view.step !== null) card.replaceChildren(report.stepCard(run, view.step));
            if (what.show) shown?.scrollIntoView({ block: "nearest" });
        });

        return make("section", { class: "text-section" }, make("h2", {}, "Text"),
            make("div", { class: "controls" }, make("label", {}, "coloured by ", pick), key),
            make("div", { class: "text-and-card" }, text, card));
    };
})();
