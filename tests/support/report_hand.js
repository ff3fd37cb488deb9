"use strict";
// A hand on a report's first run: mouse and keys, and what the page showed after each. It is put behind the page's own script by tests.
(() => {
    const stack = document.querySelector(".plots"), text = document.querySelector(".text"), tip = document.getElementById("tip");
    const run = report.data.runs[0], box = stack.getBoundingClientRect(), left = 68, right = 10;
    /** Where step t is while the whole run is shown. */
    const pixel = (t) => box.left + left + ((t - 0.5) / run.steps) * (box.width - left - right);
    const mouse = (element, type, x, y = box.top + 90, more = {}) => element.dispatchEvent(new PointerEvent(type,
        { bubbles: true, clientX: x, clientY: y, button: 0, pointerId: 1, pointerType: "mouse", ...more }));
    const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
    const range = () => document.querySelector(".range").textContent;
    const kept = () => document.querySelector(".step-card h3")?.textContent ?? "";
    const selected = () => Number(document.querySelector(".token.selected")?.dataset.step ?? -1);
    const found = {};

    mouse(stack, "pointermove", pixel(33));
    found.tip = tip.hidden ? "" : tip.textContent;
    mouse(stack, "pointerleave", 0);
    found.tip_gone = tip.hidden;
    mouse(stack, "pointerdown", pixel(31));
    mouse(stack, "pointermove", pixel(45));
    mouse(stack, "pointermove", pixel(60));
    mouse(stack, "pointerup", pixel(60));
    found.dragged = range();
    key(stack, "0");
    found.whole = range();
    mouse(stack, "pointerdown", pixel(77));
    mouse(stack, "pointerup", pixel(77));
    found.clicked = [selected(), kept(), range()];
    key(stack, "ArrowRight");
    found.arrow = selected();
    key(stack, "+");
    found.plus = range();
    stack.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
    found.double_click = range();
    key(text, "Home");
    found.home = [selected(), kept()];
    key(text, "End");
    found.end = selected();
    document.querySelector(".notes button").click();
    found.note = selected();
    document.querySelector(".events tbody button").click();
    found.event = selected();
    document.querySelector(".badge.note").dispatchEvent(new MouseEvent("click", { bubbles: true }));
    found.badge = selected();
    mouse(document.querySelector('.token[data-step="12"]'), "pointermove", 5, 5);
    found.token_tip = tip.textContent;

    const pick = document.querySelector(".text-section select");
    pick.value = String(run.signals.findIndex((signal) => signal.name === "top1_hit"));
    pick.dispatchEvent(new Event("change"));
    found.verdicts = [document.querySelectorAll(".token.yes").length, document.querySelectorAll(".token.no").length];
    const before = document.querySelectorAll(".curve").length;
    document.querySelector(".choice input:not([checked])").click();
    found.curves_more = document.querySelectorAll(".curve").length - before;
    found.errors = report.errors;
    document.body.append(report.make("output", { id: "hand", hidden: true }, JSON.stringify(found)));
})();
