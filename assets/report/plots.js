"use strict";
// Signals over steps: a plot each, one below the other, on one axis of steps. A drag zooms, a click keeps a step, keys do both.
(() => {
    const { make, svg } = report;
    const left = 68, right = 10, plotHeight = 116, top = 8, bottom = 8, axisHeight = 30;

    /** Values in sight, the thresholds there, and some room; the usual minimum stays where nothing is below it. */
    function rangeOf(signal, view) {
        let low = Infinity, high = -Infinity;
        for (let t = view.first; t <= view.last; ++t) {
            const value = signal.values[t - 1];
            if (!report.finite(value)) continue;
            low = Math.min(low, value);
            high = Math.max(high, value);
        }
        if (low > high) [low, high] = signal.usual;
        const extent = Math.max(high - low, 1e-9);
        for (const [first, last, value] of signal.thresholds)
            if (last >= view.first && first <= view.last && value < high + 3 * extent && value > low - 3 * extent) {
                low = Math.min(low, value);
                high = Math.max(high, value);
            }
        if (low >= signal.usual[0] && low - signal.usual[0] < 0.6 * (high - signal.usual[0])) low = signal.usual[0];
        if (high - low < 1e-12) high = low + Math.max(1e-6, Math.abs(low) * 0.1);
        const room = 0.05 * (high - low);
        return [low === signal.usual[0] ? low : low - room, high + room];
    }

    /** Points [step, value] of a curve, null where it breaks. Where a pixel has many steps, their least and largest. */
    function pointsOf(values, view, width) {
        const points = [], crowd = Math.max(1, Math.floor((view.last - view.first + 1) / width));
        for (let t = view.first; t <= view.last; t += crowd) {
            let low = null, high = null;
            for (let i = t; i < Math.min(t + crowd, view.last + 1); ++i) {
                if (!report.finite(values[i - 1])) continue;
                if (low === null || values[i - 1] < values[low - 1]) low = i;
                if (high === null || values[i - 1] > values[high - 1]) high = i;
            }
            if (low === null) points.push(null);
            else for (const i of new Set([Math.min(low, high), Math.max(low, high)])) points.push([i, values[i - 1]]);
        }
        return points;
    }

    /** The path of a curve, and the points that have nothing on either side: no line shows them. */
    function curveOf(values, view, x, y, width) {
        const points = pointsOf(values, view, width), alone = [];
        let path = "";
        points.forEach((point, i) => {
            if (!point) return;
            const begins = !points[i - 1];
            if (begins && !points[i + 1]) alone.push(point);
            else path += `${begins ? "M" : "L"}${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`;
        });
        return { path, alone };
    }

    function drawPlot(view, signal, width, x) {
        const run = view.run, [low, high] = rangeOf(signal, view);
        const inner = plotHeight - top - bottom;
        const y = (value) => top + inner * (1 - (value - low) / (high - low));
        const hue = { "--hue": `var(--${signal.colour})` };
        const parts = [svg("rect", { class: "frame", x: left, y: top, width, height: inner })];
        for (const note of run.notes)
            if (note.last >= view.first && note.first <= view.last) {
                const from = Math.max(x(note.first - 0.5), left), to = Math.min(x(Math.min(note.last, run.steps) + 0.5), left + width);
                if (to > from)
                    parts.push(svg("rect", { class: "note-shade", "--hue": `var(--${note.colour})`, x: from, y: top, width: to - from, height: inner }));
            }
        for (const value of report.ticks(low, high, 4))
            parts.push(svg("path", { class: "grid", d: `M${left},${y(value)}h${width}` }),
                svg("text", { class: "axis", x: left - 8, y: y(value) + 4, "text-anchor": "end" }, report.number(Number(value.toPrecision(12)))));
        for (const mark of run.marks)
            if (mark.lane === "refresh" && mark.step >= view.first && mark.step <= view.last)
                parts.push(svg("path", { class: "refresh-line", "--hue": `var(--${mark.colour})`, d: `M${x(mark.step)},${top}v${inner}` }));
        for (const [first, last, value] of signal.thresholds) {
            if (last < view.first || first > view.last || value < low || value > high) continue;
            const from = Math.max(x(first - 0.5), left), to = Math.min(x(last + 0.5), left + width);
            parts.push(svg("path", { class: "threshold", ...hue, d: `M${from},${y(value)}H${to}` },
                svg("title", {}, `threshold ${report.withUnit(value, signal.unit)}`)));
        }
        const { path, alone } = curveOf(signal.values, view, x, y, width);
        parts.push(svg("path", { class: "curve", ...hue, d: path || "M0,0" }));
        for (const [t, value] of alone) parts.push(svg("circle", { class: "alone", ...hue, cx: x(t), cy: y(value), r: 2 }));
        return parts;
    }

    function stepAxis(view, width, x) {
        const ticks = report.ticks(view.first, view.last, Math.max(2, Math.floor(width / 80))).filter(Number.isInteger);
        return [...ticks.map((t) => svg("text", {
            class: "axis", x: Math.min(x(t), left + width), y: 14, "text-anchor": x(t) > left + width - 16 ? "end" : "middle",
        }, String(t))),
            svg("text", { class: "axis", x: left + width, y: 27, "text-anchor": "end" }, "step")];
    }

    report.plotsSection = (view) => {
        const run = view.run;
        const shown = view.plotted;
        const stack = make("div", {
            class: "plots", tabindex: "0", role: "group",
            "aria-label": "Plots of signals over steps. Arrows move the kept step, plus and minus zoom, zero shows the whole run.",
        });
        let width = 600;
        const x = (t) => left + ((t - view.first + 0.5) / (view.last - view.first + 1)) * width;
        const stepAt = (pixel) => view.first + Math.floor(((pixel - left) / width) * (view.last - view.first + 1));
        const within = (t) => Math.min(Math.max(t, view.first), view.last);

        const cursors = []; // of every drawing: hovered step, kept step, dragged range
        function drawing(height, className, parts) {
            const whole = left + width + right;
            const hover = svg("path", { class: "hover" }), kept = svg("path", { class: "kept" });
            const drag = svg("rect", { class: "drag", y: 0, height, width: 0 });
            cursors.push({ hover, kept, drag, height });
            const lines = [drag, kept, hover]; // over curves, behind letters
            return svg("svg", { class: className, viewBox: `0 0 ${whole} ${height}`, "aria-hidden": "true" },
                ...(className === "lanes" ? [...lines, ...parts] : [...parts, ...lines]));
        }
        function line(path, t, height) {
            path.setAttribute("d", t !== null && t >= view.first && t <= view.last ? `M${x(t)},0V${height}` : "");
        }
        const markKept = () => cursors.forEach(({ kept, height }) => line(kept, view.step, height));
        const markHover = (t) => cursors.forEach(({ hover, height }) => line(hover, t, height));

        function draw() {
            width = Math.max(120, (stack.clientWidth || 700) - left - right);
            cursors.length = 0;
            const children = [];
            if (report.laneRows(run).length)
                children.push(drawing(report.lanesHeight(run), "lanes", report.drawLanes(view, left, width, x)));
            for (const signal of run.signals) {
                if (!shown.has(signal.name)) continue;
                const unit = signal.unit ? ` (${signal.unit})` : "";
                children.push(make("div", { class: "plot-head", title: signal.help, "--hue": `var(--${signal.colour})` },
                    make("i", { class: "swatch" }), signal.label + unit, make("b", { "data-signal": signal.name })),
                    drawing(plotHeight, "plot", drawPlot(view, signal, width, x)));
            }
            children.push(drawing(axisHeight, "step-axis", stepAxis(view, width, x)));
            stack.replaceChildren(...children);
            markKept();
            readOut();
            range.textContent = view.first === 1 && view.last >= run.steps
                ? `steps 1 to ${run.steps}` : `steps ${view.first} to ${view.last} of ${run.steps}`;
        }
        /** The kept step's values stand beside the names. */
        function readOut() {
            for (const element of stack.querySelectorAll("[data-signal]")) {
                const signal = run.signals.find((one) => one.name === element.dataset.signal);
                element.textContent = view.step ? report.withUnit(report.valueAt(signal, view.step), signal.unit) : "";
            }
        }

        // Mouse, pen and finger.
        let begun = null, last = null;
        const pixelOf = (event) => {
            const box = stack.getBoundingClientRect();
            return ((event.clientX - box.left) / box.width) * (left + width + right);
        };
        const showDrag = (from, to) => cursors.forEach(({ drag }) => {
            drag.setAttribute("x", Math.min(from, to));
            drag.setAttribute("width", Math.abs(to - from));
        });
        stack.addEventListener("pointerdown", (event) => {
            if (event.button !== 0 || event.target.closest(".badge")) return;
            begun = { pixel: pixelOf(event) };
            try { // a drag may leave the plots
                stack.setPointerCapture(event.pointerId);
            } catch { /* the pointer is gone already */ }
        });
        stack.addEventListener("pointermove", (event) => {
            const pixel = pixelOf(event);
            last = within(stepAt(pixel));
            if (begun && Math.abs(pixel - begun.pixel) > 4) {
                begun.dragged = true;
                report.hideTip();
                showDrag(Math.max(begun.pixel, left), Math.max(pixel, left));
                return;
            }
            if (event.pointerType === "touch" || run.steps === 0) return;
            markHover(last);
            report.showTip(report.stepCard(run, last, { names: shown, candidates: false }), event.clientX, event.clientY);
        });
        stack.addEventListener("pointerup", (event) => {
            if (!begun) return;
            const { pixel, dragged } = begun;
            begun = null;
            showDrag(0, 0);
            if (dragged) view.zoom(within(stepAt(Math.min(pixel, pixelOf(event)))), within(stepAt(Math.max(pixel, pixelOf(event)))));
            else if (run.steps > 0) view.select(within(stepAt(pixel)), { show: true });
        });
        stack.addEventListener("pointercancel", () => {
            begun = null;
            showDrag(0, 0);
        });
        stack.addEventListener("pointerleave", () => {
            markHover(null);
            report.hideTip();
        });
        stack.addEventListener("dblclick", () => view.zoom(1, run.steps));
        const scaled = (factor) => {
            const middle = view.step && view.step >= view.first && view.step <= view.last ? view.step : (view.first + view.last) / 2;
            const half = ((view.last - view.first) / 2) * factor;
            view.zoom(middle - half, middle + half);
        };
        stack.addEventListener("keydown", (event) => {
            const move = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
            if (move !== undefined) view.select(Math.max(1, (view.step ?? 0) + move), { show: true });
            else if (event.key === "Home") view.select(1, { show: true });
            else if (event.key === "End") view.select(run.steps, { show: true });
            else if (event.key === "+" || event.key === "=") scaled(0.5);
            else if (event.key === "-") scaled(2);
            else if (event.key === "0" || event.key === "Escape") view.zoom(1, run.steps);
            else return;
            event.preventDefault();
        });

        const choice = make("details", { class: "choice" }, make("summary", {}, "Signals"),
            make("div", { class: "checks" }, ...run.signals.map((signal) => make("label", { title: signal.help },
                make("input", {
                    type: "checkbox", checked: shown.has(signal.name),
                    onchange: (event) => {
                        if (event.target.checked) shown.add(signal.name);
                        else shown.delete(signal.name);
                        draw();
                    },
                }), make("i", { class: "swatch", "--hue": `var(--${signal.colour})` }), signal.label))));
        const button = (words, label, action) => make("button", { type: "button", "aria-label": label, onclick: action }, words);
        const range = make("span", { class: "range" });
        const controls = make("div", { class: "controls" }, choice, button("−", "Show more steps", () => scaled(2)),
            button("+", "Show fewer steps", () => scaled(0.5)), button("Whole run", "Show the whole run", () => view.zoom(1, run.steps)), range,
            make("span", { class: "hint" }, "drag to zoom, double-click for the whole run"));
        view.listen((what) => {
            if (what.range) draw();
            else if (what.step) {
                markKept();
                readOut();
            }
        });
        new ResizeObserver(() => {
            if (Math.abs(stack.clientWidth - left - right - width) > 1 && stack.clientWidth > 0) draw();
        }).observe(stack);
        report.later.push(draw); // when it is in the page and has a width
        return make("section", {}, make("h2", {}, "Signals"), controls, stack);
    };
    report.later = [];
})();
