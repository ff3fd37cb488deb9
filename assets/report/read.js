"use strict";
// What all parts of the page share: the data, elements, numbers as words, and the view of one run.
// Texts of a trace become text nodes and nothing else: no part of the page reads them as markup.

const report = { errors: [] };
window.addEventListener("error", (event) => report.errors.push(event.message));
report.data = JSON.parse(document.getElementById("data").textContent);

/** Attributes and listeners onto an element: {class: "a", onclick: f, "aria-label": "b"}. */
function furnish(element, settings, children) {
    for (const [name, value] of Object.entries(settings)) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (name.startsWith("--")) element.style.setProperty(name, value);
        else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
}

report.make = (tag, settings = {}, ...children) =>
    furnish(document.createElement(tag), settings, children);
report.svg = (tag, settings = {}, ...children) =>
    furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), settings, children);

/** Three significant digits; "-" where nothing was measured. */
report.number = (value) => {
    if (value === null || value === undefined) return "-";
    if (typeof value === "string") return value; // nan, inf, -inf
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size < 0.0009995 || size >= 999999.5) return value.toExponential(2).replace(/\.?0+e/, "e");
    const digits = Math.max(0, 2 - Math.floor(Math.log10(size)));
    const text = value.toFixed(Math.min(digits, 20));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};

report.withUnit = (value, unit) =>
    unit && typeof value === "number" ? `${report.number(value)} ${unit}` : report.number(value);

report.finite = (value) => typeof value === "number";

/** Round numbers within [low, high], 1, 2 or 5 times a power of ten apart, at most so many. */
report.ticks = (low, high, most) => {
    if (!(high > low)) return [];
    let power = 10 ** Math.floor(Math.log10((high - low) / most));
    for (;;) {
        for (const digit of [1, 2, 5]) {
            const step = digit * power;
            const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
            if (last - first + 1 <= most)
                return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => (first + i) * step);
        }
        power *= 10;
    }
};

/** What a person looks at in one run: a step, and the steps that the plots show. Its listeners are told which of them changed. */
report.View = class {
    constructor(run, index) {
        this.run = run;
        this.index = index; // of the section, from 1
        this.step = null; // 0: the prefill
        this.first = 1;
        this.last = Math.max(run.steps, 1);
        this.plotted = new Set(run.signals.filter((signal) => signal.plotted).map((signal) => signal.name));
        if (!this.plotted.size && run.signals.length) this.plotted.add(run.signals[0].name);
        this.listeners = [];
    }
    listen(listener) {
        this.listeners.push(listener);
    }
    tell(what) {
        for (const listener of this.listeners) listener(what);
    }
    select(step, options = {}) {
        if (step !== null) step = Math.min(Math.max(step, 0), this.run.steps);
        this.step = step;
        if (step !== null && step > 0 && (step < this.first || step > this.last)) {
            const half = Math.floor((this.last - this.first) / 2);
            this.zoom(step - half, step + half);
        }
        this.tell({ step: true, show: options.show === true });
        try { // a link to this step; some browsers keep files without history
            history.replaceState(null, "", step === null ? " " : `#run${this.index}-step${step}`);
        } catch { /* the page works without */ }
    }
    zoom(first, last) {
        const steps = Math.max(this.run.steps, 1), least = Math.min(4, steps);
        let from = Math.round(Math.min(first, last)), to = Math.round(Math.max(first, last));
        if (to - from + 1 < least) to = from + least - 1;
        if (to - from + 1 > steps) [from, to] = [1, steps];
        const shift = Math.max(0, 1 - from) - Math.max(0, to - steps);
        this.first = from + shift;
        this.last = to + shift;
        this.tell({ range: true });
    }
};
