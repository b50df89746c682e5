// The groups of the selected stream, in each region whose view is shown: what was handed out, what
// is pending, what every region knows to be acknowledged, and what still waits for that.

import { WORDS } from "./bars.js";
import { counted, el, find, timeOf } from "./dom.js";
import * as explain from "./explain.js";
import { nameOf, on, set, shownViews, state } from "./store.js";
import { facts, groupsShown } from "./stream.js";

function vector(counters) {
  return Object.entries(counters).map(([origin, counter]) => `${nameOf(origin)} ${counter}`).join(", ") || "nothing";
}

const place = (start) => (typeof start === "string" ? start : `$ (after ${vector(start)})`);

function spans(listed) {
  return listed.map(([origin, first, last]) => `${nameOf(origin)} ${first}–${last}`).join(", ") || "nothing";
}

function oldest(one) {
  const time = timeOf(one.id);
  return `${one.id}${time ? ` (${time})` : ""} for ${one.consumer}, ${counted(one.deliveries, "delivery", "deliveries")}`;
}

function waiting(group) {
  return group.waits.map((wait) => el("p", { class: "waits" },
    `${counted(wait.waiting, "entry", "entries")} of ${nameOf(wait.region_id)} acknowledged here and not announced: `,
    el("code", {}, wait.id), ` before ${wait.waiting === 1 ? "it" : "them"} is ${WORDS[wait.status]}${wait.consumer ? ` for ${wait.consumer}` : ""}.`));
}

function cell(view, name) {
  const group = view.groups.find((one) => one.name === name);
  if (!group) return el("td", { class: "note" }, view.error ? "not known" : "no such group here");
  const rows = [
    ["begins", group.creates.map((create) => place(create.start)).join(" and ") + (group.floor === null ? "" : `; floor here ${place(group.floor)}`)],
    ["acked by all", spans(group.acked)],
    ["handed out", group.given === null ? null : spans(group.given)],
    ["pending", group.pending ? group.consumers.filter((one) => one.pending).map((one) => `${one.name} ${one.pending}`).join(", ") : "nothing"],
    ["oldest pending", group.oldest_pending.length ? oldest(group.oldest_pending[0]) : null],
    ["to deliver", group.lag === null ? null : String(group.lag)],
  ];
  return el("td", {}, el("dl", {}, rows.filter(([, text]) => text !== null).flatMap(([term, text]) => [el("dt", {}, term), el("dd", {}, text)])), waiting(group));
}

function toggleOf(name) {
  const shown = groupsShown();
  const isOn = shown.includes(name);
  return el("button", {
    type: "button", class: "chip", "aria-pressed": String(isOn), "data-group-bars": name, title: "show the bars of this group beside the lanes",
    onclick: () => set({ groups: isOn ? shown.filter((one) => one !== name) : [...shown, name] }),
  }, "bars");
}

function tombstones(views) {
  const lines = views.flatMap((view) => view.tombstones.map((one) => el("li", {},
    `${view.name} keeps a tombstone of ${one.group === "*" ? "all groups" : `group ${one.group}`}: it buries creates that had not seen ${vector(one.vector)}`)));
  return lines.length ? el("ul", { class: "tombstones" }, lines) : null;
}

function render() {
  const shown = facts();
  if (!shown) return find("groups").replaceChildren();
  const wanted = state.past ? [state.past.regions[0].name] : shownViews();
  const views = shown.regions.filter((view) => wanted.includes(view.name));
  const names = [...new Set(views.flatMap((view) => view.groups.map((group) => group.name)))].sort();
  const buried = tombstones(views);
  if (!names.length && !buried) return find("groups").replaceChildren();
  const focused = find("groups").contains(document.activeElement) ? { ...document.activeElement.dataset } : null;
  const rows = names.map((name) => el("tr", {},
    el("th", { scope: "row" },
      el("button", { type: "button", class: "plain", "data-group": name, title: "the story of this group", onclick: () => explain.group(views[0].name, name) }, name), toggleOf(name)),
    views.map((view) => cell(view, name))));
  const heads = el("tr", {}, el("th", { scope: "col" }, "group"), views.map((view) => el("th", { scope: "col" }, `in ${view.name}`)));
  find("groups").replaceChildren(
    el("h3", {}, "Groups"),
    names.length ? el("div", { class: "scroll" }, el("table", {}, el("thead", {}, heads), el("tbody", {}, rows))) : "",
    buried ?? "");
  if (focused?.group) find("groups").querySelector(`[data-group="${CSS.escape(focused.group)}"]`)?.focus();
  if (focused?.groupBars) find("groups").querySelector(`[data-group-bars="${CSS.escape(focused.groupBars)}"]`)?.focus();
}

export function start() {
  on(["stream", "past", "views", "groups", "overview"], render);
}
