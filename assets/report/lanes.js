"use strict";
// What happened beside the steps, in rows above the plots: refreshes with their letters, those prevented, drafts cut, changes by hand,
// notes. A row is there where it has marks.
(() => {
    const { svg } = report;
    const badgeHeight = 14, rowHeight = 20;

    /** Marks closer than a badge's width become one badge with their number. */
    function merged(marks, x) {
        const groups = [];
        for (const mark of marks) {
            const at = x(mark.step), last = groups.at(-1);
            if (last && at - last.to < badgeHeight + 4 && at - last.from < 60) {
                last.marks.push(mark);
                last.to = at;
            } else {
                groups.push({ marks: [mark], from: at, to: at });
            }
        }
        return groups;
    }

    function badge(view, group, y) {
        const first = group.marks[0];
        const same = group.marks.every((mark) => mark.letter === first.letter);
        const many = group.marks.length > 1 ? String(group.marks.length) : "";
        const words = many + (same ? first.letter : "+");
        const width = Math.max(badgeHeight, 7 * words.length + 6), x = (group.from + group.to) / 2;
        const title = many ? `${many} from step ${first.step} to ${group.marks.at(-1).step}` : `step ${first.step}: ${first.reason}`;
        return svg("g", {
            class: `badge ${first.lane ?? ""}`, "--hue": `var(--${first.colour}-tag)`,
            onclick: (event) => {
                event.stopPropagation();
                view.select(first.step, { show: true });
            },
        }, svg("title", {}, title),
            svg("rect", { x: x - width / 2, y: y - badgeHeight / 2, width, height: badgeHeight, rx: 3 }),
            svg("text", { x, y: y + 4, "text-anchor": "middle" }, words));
    }

    function tick(mark, x, y) {
        return svg("path", { class: `tick ${mark.lane}`, "--hue": `var(--${mark.colour})`, d: `M${x},${y - 5}V${y + 5}` },
            svg("title", {}, `step ${mark.step}: ${mark.reason}`));
    }

    /** Rows of the run that have marks; notes come last. */
    report.laneRows = (run) => run.lanes.filter(({ lane }) =>
        lane === "note" ? run.notes.length : run.marks.some((mark) => mark.lane === lane));
    report.lanesHeight = (run) => report.laneRows(run).length * rowHeight;

    /** \param x  pixels of a step  \param inSight  whether a step is shown */
    report.drawLanes = (view, left, width, x) => {
        const run = view.run, parts = [];
        report.laneRows(run).forEach(({ lane, brief }, row) => {
            const y = row * rowHeight + rowHeight / 2;
            parts.push(svg("text", { class: "axis", x: left - 8, y: y + 4, "text-anchor": "end" }, brief),
                svg("path", { class: "grid", d: `M${left},${y}h${width}` }));
            if (lane === "note") {
                const notes = run.notes.map((note, i) => ({ ...note, step: note.first, letter: String(i + 1), reason: note.text || "bookmark" }))
                    .filter((note) => note.last >= view.first && note.first <= view.last);
                for (const note of notes)
                    parts.push(svg("path", {
                        class: "note-range", "--hue": `var(--${note.colour})`,
                        d: `M${Math.max(x(note.first), left)},${y}H${Math.min(Math.max(x(note.last), x(note.first) + 0.1), left + width)}`,
                    }));
                for (const note of notes.filter((one) => one.first >= view.first))
                    parts.push(badge(view, { marks: [{ ...note, lane }], from: x(note.first), to: x(note.first) }, y));
                return;
            }
            const marks = run.marks.filter((mark) => mark.lane === lane && mark.step >= view.first && mark.step <= view.last);
            if (lane === "refresh" || lane === "cut")
                for (const group of merged(marks, x)) parts.push(badge(view, group, y));
            else
                for (const mark of marks) parts.push(tick(mark, x(mark.step), y));
        });
        return parts;
    };
})();
