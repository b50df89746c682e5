// How to read the page, and three things to try.

import { el } from "./dom.js";
import * as panels from "./panels.js";
import { propose } from "./prompt.js";
import { state } from "./store.js";

function legend() {
  const rows = [
    [el("span", { class: "dot present hue-0" }), "an entry that the region has"],
    [el("span", { class: "dot removed hue-0" }), "an entry that the region has removed"],
    [el("span", { class: "dot absent hue-0" }), "an entry that has not arrived in the region"],
    [el("span", { class: "span acked" }), "acknowledged in a group: every region knows it"],
    [el("span", { class: "span done" }), "acknowledged in this region, not announced yet"],
    [el("span", { class: "span pending" }), "handed out to a consumer, pending"],
  ];
  return el("ul", { class: "legend" }, rows.map(([mark, text]) => el("li", {}, el("span", { class: "mark", "aria-hidden": true }, mark), text)));
}

function step(region, command) {
  const index = state.overview?.regions[region];
  return el("li", {}, el("button", { type: "button", class: "step", onclick: () => propose(index?.name, command) }, el("b", {}, index?.name ?? "?"), " ", el("code", {}, command)));
}

function experiment(title, steps, rule) {
  return el("details", {}, el("summary", {}, title), el("ol", {}, steps), el("p", {}, rule));
}

function mount(panel) {
  const [one, other] = (state.overview?.regions ?? []).map((region) => region.name);
  const cut = el("li", {}, `Cut the link ${one ?? "us"} – ${other ?? "eu"}, and those to other regions, by a click in the map.`);
  const heal = () => el("li", {}, "Heal the links, and see both views become one.");
  panel.replaceChildren(
    el("h3", {}, "How to read this page"),
    el("p", {}, "Each region adds entries to its own log: a lane. Each region reads all lanes as one stream, ordered by ID: its river. Regions write without waiting for each other, so what they have can differ, until their effects have arrived everywhere."),
    legend(),
    el("p", {}, "Select an entry to hear why it is there, or why not. Select a group for its story. A click in a box below puts the command into the command line; Enter runs it."),
    el("h3", {}, "Three things to try"),
    experiment("Observed-remove: an add survives a delete that had not seen it", [
      step(0, "XADD demo * step 1"), cut.cloneNode(true), step(0, "DEL demo"), step(1, "XADD demo * step 2"), heal(),
    ], "DEL removed only what its region had seen. The entry that was added meanwhile stays, in every region. Explain it."),
    experiment("Delete-wins: a group does not survive a concurrent destroy", [
      step(0, "XGROUP CREATE demo workers 0 MKSTREAM"), step(0, "XADD demo * job 1"), cut.cloneNode(true),
      step(0, "XGROUP DESTROY demo workers"), step(1, "XGROUP CREATE demo workers2 0"), step(1, "XREADGROUP GROUP workers ann COUNT 1 STREAMS demo >"), heal(),
    ], "A group lives only if its creator had seen every destroy of that name. Until every region has the destroy, a tombstone keeps older creates buried."),
    experiment("Contiguous acknowledgement: only runs without a gap are announced", [
      step(0, "XGROUP CREATE demo team 0 MKSTREAM"), step(0, "XADD demo * job a"), step(0, "XADD demo * job b"),
      step(0, "XREADGROUP GROUP team ann STREAMS demo >"), step(0, "XACK demo team ID-of-b"), step(0, "XACK demo team ID-of-a"),
    ], "After the first XACK the bar of b is hollow: a lies before it and is pending, so no other region hears of b. The second XACK closes the gap, and one announcement carries both."),
    el("p", { class: "note" }, "Keys: / filters the keys, : goes to the command line, the arrow keys move between entries, Enter explains one."));
}

export function register() {
  panels.register({ id: "guide", title: "Guide", mount });
}
