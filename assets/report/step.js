"use strict";
// What is known of one step: token read and chosen, signals, candidates, what happened there. The card beside the text has all of it,
// the tooltip what is looked at.
(() => {
    const { make } = report;

    /** A token in quotes that no line break parts. */
    const label = (run, id) => (run.candidates.labels[id] ?? (id === undefined ? "none" : `token ${id}`)).replaceAll(" ", "\u00a0");

    /** A signal's value as it belongs to step t; beside token y_n one about a token is that of y_n itself. */
    report.valueAt = (signal, step, token = null) => {
        const from = token !== null && signal.about === "token" ? token : step;
        return from >= 1 ? signal.values[from - 1] ?? null : null;
    };

    function title(run, step) {
        const ids = run.text.ids, chosen = ids[step];
        const chose = chosen === undefined ? ", the last" : `, chose ${label(run, chosen)}`;
        return step === 0 ? `Prefill${chose}` : `Step ${step}: read ${label(run, ids[step - 1])}${chose}`;
    }

    function signalRows(run, step, token, names) {
        const rows = [];
        for (const signal of run.signals) {
            if (names && !names.has(signal.name)) continue;
            const value = report.valueAt(signal, step, token);
            if (value === null) continue;
            const words = signal.verdicts && report.finite(value)
                ? signal.verdicts[value >= 0.5 ? 0 : 1] : report.withUnit(value, signal.unit);
            rows.push(make("tr", {},
                make("th", { scope: "row" }, make("i", { class: "swatch", "--hue": `var(--${signal.colour})` }),
                    signal.label),
                make("td", {}, words)));
        }
        return rows.length ? make("table", { class: "values" }, make("tbody", {}, ...rows)) : null;
    }

    function candidateRows(run, step) {
        const row = step >= 1 ? run.candidates.rows[step - 1] ?? [] : [];
        if (!row.length) return null;
        const chosen = run.text.ids[step], items = [];
        for (let i = 0; i < row.length; i += 2) {
            const share = report.finite(row[i + 1]) ? row[i + 1] : 0;
            items.push(make("li", { class: row[i] === chosen ? "chosen" : null, "--share": share },
                make("span", {}, label(run, row[i])), make("b", {}, report.number(row[i + 1]))));
        }
        return make("div", {}, make("h4", {}, "Candidates for the next token"),
            make("ol", { class: "candidates" }, ...items));
    }

    function happened(run, step) {
        const lines = [];
        for (const mark of run.marks)
            if (mark.step === step) {
                const spliced = mark.spliced === null ? "" : `, ${mark.spliced} entries`;
                const what = mark.lane === "refresh" ? `Refresh: ${mark.reason}${spliced}` : mark.reason;
                lines.push(make("p", { class: "happened", "--hue": `var(--${mark.colour})` }, what));
            }
        run.notes.forEach((note, i) => {
            if (step >= note.first && step <= note.last)
                lines.push(make("p", { class: "happened", "--hue": `var(--${note.colour})` },
                    `Note ${i + 1}: ${note.text || "bookmark"}`));
        });
        return lines;
    }

    /**
     * @param token       y_token is looked at: 1 and up; null: the step
     * @param names       of the signals that are told; null: all
     * @param candidates  with those of the next token
     */
    report.stepCard = (run, step, { token = null, names = null, candidates = true } = {}) =>
        make("div", {}, make("h3", {}, title(run, step)), ...happened(run, step),
            make("div", { class: "card-columns" }, candidates ? candidateRows(run, step) : null, signalRows(run, step, token, names)));

    // One tooltip for the page.
    const tip = make("div", { id: "tip", role: "tooltip", hidden: true });
    document.body.append(tip);

    report.showTip = (content, x, y) => {
        tip.replaceChildren(content);
        tip.hidden = false;
        const gap = 16, box = tip.getBoundingClientRect();
        const left = x + gap + box.width < innerWidth ? x + gap : Math.max(4, x - gap - box.width);
        const top = Math.min(y + gap, innerHeight - box.height - 4);
        tip.style.left = `${left}px`;
        tip.style.top = `${Math.max(4, top)}px`;
    };
    report.hideTip = () => { tip.hidden = true; };
})();
