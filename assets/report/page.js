"use strict";
// The page's sections, run after run; at last what the page found of itself, for tests.
(() => {
    const { make, data } = report;

    function table(className, head, rows) {
        return make("div", { class: "wide" }, make("table", { class: className },
            make("thead", {}, make("tr", {}, ...head.map((name) => make("th", { scope: "col" }, name)))),
            make("tbody", {}, ...rows)));
    }
    const pairs = (rows, className = "pairs") => make("dl", { class: className },
        ...rows.map(([label, value]) => make("div", {}, make("dt", {}, label), make("dd", {}, value))));

    /** A text to be copied. The words of a command line are not parted: a line may end before an option, not within it. */
    function code(text, words = false) {
        const parts = words ? text.split(/( )/).map((word) => (word.length > 1 && word.length < 40 ? make("span", { class: "word" }, word) : word)) : [text];
        const pre = make("pre", { class: "code" }, ...parts);
        const copy = make("button", {
            type: "button", class: "copy",
            onclick: async () => {
                try {
                    await navigator.clipboard.writeText(text);
                    copy.textContent = "Copied";
                } catch { // no clipboard here: it is marked, to be copied by hand
                    getSelection().selectAllChildren(pre);
                }
            },
        }, "Copy");
        return make("div", { class: "copied" }, pre, copy);
    }

    function again(run) {
        const { line, files, lacks, replay } = run.again;
        const parts = [code(line, true)];
        if (lacks) parts.unshift(make("p", { class: "warning" }, `${lacks} The command alone makes another run.`));
        for (const file of files)
            parts.push(make("details", {}, make("summary", {}, `with ${file.name} beside it`), code(file.text)));
        parts.push(make("p", {}, "With the trace at hand, compared bit by bit:"), code(replay, true));
        return make("details", { class: "again", open: true }, make("summary", {}, "The command that makes this run again"), ...parts);
    }

    function nameOf(run) {
        const branch = run.parent ? ` (branch at step ${run.fork_step + 1})` : "";
        return run.name || `Run ${data.runs.indexOf(run) + 1}: ${run.changed || "goes on"}${branch}`;
    }

    function lineage(run) {
        if (!run.parent) return null;
        const at = data.runs.findIndex((other) => other.id === run.parent);
        const whose = at >= 0 ? make("a", { href: `#run${at + 1}` }, nameOf(data.runs[at])) : `run ${run.parent}, which is not in this report`;
        return make("p", { class: "lineage" }, run.fork_step > 0 ? `Branch: steps 1 to ${run.fork_step} are shared with ` : "Branch from the first token of ", whose,
            run.fork_step > 0 ? `; its own begin with step ${run.fork_step + 1}.` : ".");
    }

    function head(run) {
        return make("section", { class: "head" }, lineage(run), pairs(run.facts),
            make("details", { open: run.prompt.length < 600 }, make("summary", {}, "Prompt"), make("blockquote", {}, run.prompt),
                run.rendered_prompt !== run.prompt
                    ? make("details", {}, make("summary", {}, "as the model reads it"), make("pre", { class: "code" }, run.rendered_prompt)) : null),
            again(run));
    }

    function toStep(view, step) {
        return make("button", { type: "button", class: "link", onclick: () => view.select(step, { show: true }) }, String(step));
    }

    function notes(view) {
        const run = view.run;
        if (!run.notes.length) return null;
        return make("section", {}, make("h2", {}, "Notes"), make("ol", { class: "notes" }, ...run.notes.map((note) => {
            const place = note.first === note.last ? `step ${note.first}` : `steps ${note.first} to ${note.last}`;
            const by = note.run ? `, of run ${note.run.slice(0, 6)}` : "";
            return make("li", { "--hue": `var(--${note.colour})` },
                make("button", { type: "button", class: "link", onclick: () => view.select(note.first, { show: true }) }, place),
                make("span", { class: "made" }, ` ${note.made_at}${by}`), make("p", {}, note.text || "bookmark"));
        })));
    }

    function events(view) {
        const marks = view.run.marks;
        if (!marks.length) return null;
        const kinds = Object.fromEntries(view.run.lanes.map(({ lane, one }) => [lane, one]));
        const rows = marks.map((mark) => make("tr", { class: mark.lane },
            make("td", {}, toStep(view, mark.step)),
            make("td", {}, make("i", { class: "swatch", "--hue": `var(--${mark.colour})` }), kinds[mark.lane]),
            make("td", { class: "words" }, mark.reason), make("td", {}, mark.value), make("td", {}, mark.threshold),
            make("td", {}, report.number(mark.spliced)), make("td", {}, report.number(mark.ms)),
            make("td", { class: "words" }, mark.before === mark.after ? mark.after : `${mark.before} → ${mark.after}`)));
        return make("section", {}, make("h2", {}, "Refreshes and events"),
            table("events", ["Step", "What", "Why", "Value", "Threshold", "Spliced", "Time (ms)", "Token chosen"], rows));
    }

    function figures(run) {
        if (!run.figures.length && !run.no_landscape) return null;
        const parts = run.figures.map((figure) => {
            if (figure.why) return make("p", { class: "hint" }, `${figure.title}: ${figure.why}`);
            const source = (svg) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
            return make("figure", {}, make("picture", {},
                make("source", { srcset: source(figure.dark), media: "screen and (prefers-color-scheme: dark)" }),
                make("img", { src: source(figure.light), alt: figure.title })), make("figcaption", {}, figure.title));
        });
        if (run.no_landscape) parts.push(make("p", { class: "hint" }, run.no_landscape));
        return make("section", {}, make("h2", {}, "Landscape"), make("div", { class: "figures" }, ...parts));
    }

    function settings(run) {
        const words = (setting) => `${setting.value}${setting.unit && setting.value !== "none" ? ` ${setting.unit}` : ""}`;
        const rows = run.settings.map((setting) => make("tr", { class: setting.differs ? "differs" : null },
            make("td", {}, setting.label), make("td", {}, words(setting)), make("td", {}, make("code", {}, setting.key))));
        return make("section", {}, make("h2", {}, "Settings"),
            make("details", {}, make("summary", {}, "All settings; bold ones differ from the defaults"), table("settings", ["Setting", "Value", "Key"], rows)),
            make("details", {}, make("summary", {}, "Configuration as JSON"), code(run.config)));
    }

    const views = data.runs.map((run, i) => new report.View(run, i + 1));
    const several = views.length > 1;
    const sections = views.map((view) => {
        const run = view.run;
        return make("article", { id: `run${view.index}`, "aria-label": nameOf(run) },
            several ? make("h1", { class: "run-name" }, nameOf(run)) : null, head(run), report.textSection(view), report.plotsSection(view), notes(view),
            events(view), figures(run), make("section", {}, make("h2", {}, "Numbers"), pairs(run.summary.filter(([, value]) => value !== "-"), "pairs numbers")), settings(run));
    });
    const models = [...new Set(data.runs.map((run) => run.models))].join("; ");
    const list = several ? make("nav", { "aria-label": "Runs" }, ...views.map((view) => make("a", { href: `#run${view.index}` }, nameOf(view.run)))) : null;
    document.getElementById("report").append(
        make("header", {}, make("p", { class: "kind" }, "RefreshLab report"), make("h1", {}, several || !data.runs[0].name ? models : `${data.runs[0].name}: ${models}`),
            make("p", { class: "hint" }, `Trace ${data.trace}, ${several ? `${views.length} runs` : "one run"}`), list),
        ...sections,
        make("footer", {}, make("p", {}, `Made by RefreshLab ${data.version}: `, make("code", {}, data.command_line))));
    for (const draw of report.later) draw();

    /** A link to a step: #run1-step42. */
    function follow() {
        const link = /^#run(\d+)-step(\d+)$/.exec(location.hash), view = link && views[link[1] - 1];
        if (!view || view.step === Number(link[2])) return;
        view.select(Number(link[2]), { show: true });
        sections[link[1] - 1].querySelector(".text-section").scrollIntoView();
    }
    window.addEventListener("hashchange", follow);
    follow();

    // What was drawn, for who checks the page from outside.
    const count = (selector) => document.querySelectorAll(selector).length;
    document.body.append(make("output", { id: "selftest", hidden: true }, JSON.stringify({
        runs: views.length, tokens: count(".token"), curves: count(".curve"), badges: count(".badge"), notes: count(".notes li"),
        events: count(".events tbody tr"), figures: count("figure img"), thresholds: count(".threshold"),
        overflows: document.documentElement.scrollWidth > innerWidth, errors: report.errors,
    })));
})();
