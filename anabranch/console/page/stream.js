// The selected stream: for each region a view, with a lane for every region log and beside them the
// river that readers of the region see. All views share the rows, so differences stand side by side.

import { barsOf, WORDS } from "./bars.js";
import { clock, counted, el, find, own, shortKey, timeOf } from "./dom.js";
import * as explain from "./explain.js";
import { hue, nameOf, on, set, shownViews, state } from "./store.js";

const GROUPS_SHOWN = 3;
let current = null; // the entry that the keyboard is on: {dot, view}
let known = new Map(); // dot → [signature, <tr>] of the rows that are shown
let knownKey = "";

export const facts = () => state.past ?? state.stream;

// The groups whose bars are shown.
export function groupsShown() {
  const names = new Set((facts()?.regions ?? []).flatMap((region) => region.groups.map((group) => group.name)));
  const all = [...names].sort();
  return state.groups === null ? all.slice(0, GROUPS_SHOWN) : all.filter((name) => state.groups.includes(name));
}

function lanesOf(shown) {
  return Object.keys(shown.names).map(Number).sort((a, b) => a - b);
}

function pairs(row) {
  const made = [];
  for (let n = 0; n < row.fields.length; n += 2) {
    made.push(el("span", { class: "pair" }, el("span", { class: "field" }, row.fields[n]), "=", el("span", { class: "value" }, row.fields[n + 1] ?? "")));
  }
  if (row.left_out) made.push(el("span", { class: "pair" }, "…"));
  return made;
}

function laneCell(row, lane, view, bars) {
  const here = row.in[view.name]?.state ?? "unknown";
  const isMine = row.dot[0] === lane;
  return el("td", { class: `lane hue-${hue(lane)}`, "aria-hidden": true },
    el("span", { class: "rail" }),
    isMine ? el("span", { class: `dot ${here}`, title: `${nameOf(lane)} ${row.dot[1]}: ${here}` }) : null,
    bars.map(([group, status, consumer], n) => el("span", {
      class: `span slot-${n} ${status}`, title: `group ${group}: ${WORDS[status]}${consumer ? ` for ${consumer}` : ""}`,
    })));
}

// What the bars do not say: the consumer of a pending entry, and acknowledgements that wait.
function badges(row, view, isAlone) {
  const groups = row.in[view.name]?.groups ?? {};
  const shown = groupsShown();
  return shown.filter((name) => own(groups, name)).flatMap((name) => {
    const [status, consumer] = groups[name];
    const text = isAlone
      ? { done: "acked here", pending: `pending ${consumer}`, dropped: "dropped" }[status]
      : { done: "✓ here", pending: `→ ${consumer}`, dropped: "dropped" }[status];
    if (!text) return [];
    const title = `group ${name}: ${WORDS[status]}${consumer ? ` for ${consumer}` : ""}`;
    return [el("span", { class: `badge ${status}`, title }, shown.length > 1 ? `${name} ${text}` : text)];
  });
}

// Whether no region has an entry any more.
function isGone(row) {
  return Object.values(row.in).every((one) => one.state === "removed");
}

// Who removed an entry: short beside other views, in full in a view of its own.
function remover(by, isAlone) {
  if (!by) return "removed";
  return isAlone ? `removed by ${by}` : `✕ ${by.replace(/ \(.*\)$/, "")}`;
}

function riverCell(row, view, isAlone) {
  const here = row.in[view.name] ?? { state: "unknown" };
  const origin = nameOf(row.dot[0]);
  const body = {
    present: () => [el("span", { class: "fields" }, pairs(row)), ...badges(row, view, isAlone)],
    removed: () => [el("s", {}, el("span", { class: "fields" }, pairs(row))),
      el("span", { class: "why", title: here.by ?? "" }, remover(here.by, isAlone))],
    absent: () => [el("span", { class: "why" }, isAlone ? `not here yet: ${origin} has it` : "not here yet")],
    unknown: () => [el("span", { class: "unsure" }, "not known")],
  }[here.state]();
  const dot = row.dot.join(":");
  const isCurrent = current?.dot === dot && current.view === view.name;
  return el("td", { class: `river ${here.state} hue-${hue(row.dot[0])}` },
    el("button", {
      type: "button", class: "entry", tabindex: isCurrent ? 0 : -1, "data-dot": dot, "data-view": view.name, "data-id": row.id,
      onclick: () => { current = { dot, view: view.name }; explain.entry(view.name, row.id); },
      onfocus: () => { current = { dot, view: view.name }; },
    }, el("span", { class: "unseen" }, `${row.id} of ${origin}, ${here.state === "absent" ? "not" : here.state} in ${view.name}: `), ...body));
}

function head(view, shown) {
  const lanes = lanesOf(shown);
  const count = (wanted) => shown.rows.filter((row) => row.in[view.name]?.state === wanted).length;
  const [absent, removed] = [count("absent"), count("removed")];
  const parts = [
    view.exists ? counted(view.length, "entry", "entries") : "no such key",
    absent ? `${absent} not here yet` : null,
    removed ? `${removed} removed` : null,
  ].filter(Boolean);
  return el("th", { scope: "colgroup", colspan: lanes.length + 1, class: `viewhead hue-${hue(view.region_id)}` },
    el("span", { class: "viewname" }, view.name), " ",
    el("span", { class: "note", title: view.error }, view.error ? "does not answer" : parts.join(" · ")));
}

function headings(shown, views) {
  const lanes = lanesOf(shown);
  const second = views.flatMap((view) => [
    ...lanes.map((lane) => el("th", { scope: "col", class: `lane hue-${hue(lane)}`, title: `region log of ${nameOf(lane)}` }, nameOf(lane))),
    el("th", { scope: "col", class: "river" }, `the river that ${view.name} reads`),
  ]);
  const first = el("th", { scope: "col", rowspan: 2, class: "id" }, "entry, newest first");
  return el("thead", {}, el("tr", {}, first, views.map((view) => head(view, shown))), el("tr", { class: "lanes" }, second));
}

function rowOf(row, index, views, lanes, bars) {
  const signature = JSON.stringify([row, views.map((view) => [view.name, [...bars.get(view.name)[index]]])]);
  const at = row.dot.join(":");
  const former = known.get(at);
  if (former && former[0] === signature) return [at, former];
  const cells = views.flatMap((view) => [
    ...lanes.map((lane) => laneCell(row, lane, view, bars.get(view.name)[index].get(lane))),
    riverCell(row, view, views.length === 1),
  ]);
  const time = timeOf(row.id);
  const id = el("th", { scope: "row", class: `id hue-${hue(row.dot[0])}`, title: time ? `${row.id}: ${time}` : row.id },
    el(isGone(row) ? "s" : "span", {}, el("code", {}, row.id)), time ? el("time", {}, time) : null);
  const isFresh = known.size > 0 && !former;
  return [at, [signature, el("tr", { class: isFresh ? "fresh" : former ? "changed" : null, "data-row": at }, id, cells)]];
}

function table(shown, views) {
  const visible = state.ghosts ? shown.rows : shown.rows.filter((row) => !isGone(row));
  const lanes = lanesOf(shown);
  const groups = groupsShown();
  const bars = new Map(views.map((view) => [view.name, barsOf(visible, view.name, lanes, groups)]));
  const shape = JSON.stringify([shown.key, Boolean(state.past), views.map((view) => view.name), lanes, groups]);
  const former = shape === knownKey ? find("table").querySelector("table") : null;
  if (!former) known = new Map();
  knownKey = shape;
  const rows = visible.map((row, index) => rowOf(row, index, views, lanes, bars));
  known = new Map(rows);
  if (former) {
    former.tHead.replaceWith(headings(shown, views));
    arrange(former.tBodies[0], rows.map(([, [, row]]) => row));
    return former;
  }
  const columns = views.flatMap(() => [...lanes.map(() => el("col", { class: "lanecol" })), el("col", { class: "rivercol" })]);
  return el("table", { class: `river-table views-${Math.min(views.length, 4)}` },
    el("caption", { class: "unseen" }, `Entries of ${shortKey(shown.key)}, newest first`),
    el("colgroup", {}, el("col", { class: "idcol" }), columns), headings(shown, views),
    el("tbody", {}, rows.map(([, [, row]]) => row)));
}

// Brings the rows into their order. A row that stays is not moved, so it keeps its focus.
function arrange(body, rows) {
  const wanted = new Set(rows);
  for (const row of [...body.children]) if (!wanted.has(row)) row.remove();
  rows.forEach((row, index) => {
    if (body.children[index] !== row) body.insertBefore(row, body.children[index] ?? null);
  });
}

function viewButtons() {
  const shown = shownViews();
  const regions = state.overview?.regions ?? [];
  return regions.map((region) => el("button", {
    type: "button", class: `chip hue-${hue(region.region_id)}`, "data-view": region.name,
    "aria-pressed": String(shown.includes(region.name)),
    title: `show the stream as ${region.name} has it`,
    onclick: () => {
      const isOn = shown.includes(region.name);
      // On a narrow page there is room for one view.
      if (window.innerWidth < 800) return set({ views: [region.name] });
      const next = isOn ? shown.filter((name) => name !== region.name) : [...shown, region.name];
      set({ views: next.length ? next : [region.name] });
    },
  }, region.name));
}

function ghostButton(shown) {
  const count = shown.rows.filter(isGone).length;
  return el("button", {
    type: "button", class: "chip", id: "ghosts", "aria-pressed": String(state.ghosts), title: "show entries that every region has removed",
    onclick: () => set({ ghosts: !state.ghosts }),
  }, `Removed entries${count ? ` (${count})` : ""}`);
}

function paging(shown) {
  const last = shown.rows.at(-1);
  return [
    el("button", { type: "button", id: "newest", disabled: !state.before, onclick: () => set({ before: "" }) }, "Newest"),
    el("button", { type: "button", id: "older", disabled: !shown.has_older || !last || Boolean(state.past), onclick: () => set({ before: last.id }) }, "Older"),
    ghostButton(shown),
    el("span", { class: "note" }, !shown.rows.length ? "" : state.before ? `entries below ${state.before}` : `the newest ${shown.rows.length}`,
      shown.regions.some((region) => region.log_since_ms) ? ` · removals since ${clock(Math.max(...shown.regions.map((region) => region.log_since_ms ?? 0)))}, as far as the logs were read` : ""),
  ];
}

const entryOf = ({ dot, view }) => document.querySelector(`.entry[data-dot="${CSS.escape(dot)}"][data-view="${CSS.escape(view)}"]`);

// Tab leads to the entry at which the reader was last, or to the newest one.
function tabStop(body) {
  const stop = (current && entryOf(current)) ?? body.querySelector(".entry");
  body.querySelectorAll('.entry[tabindex="0"]').forEach((entry) => entry.setAttribute("tabindex", "-1"));
  stop?.setAttribute("tabindex", "0");
}

function restoreFocus(focused) {
  if (!focused) return;
  const wanted = entryOf(focused);
  if (wanted && wanted !== document.activeElement) wanted.focus({ preventScroll: true });
}

// Draws buttons anew; the focus stays on the one that it was on, or near it if that is disabled now.
function redraw(box, children) {
  const focused = box.contains(document.activeElement) ? document.activeElement : null;
  box.replaceChildren(...children);
  if (!focused) return;
  const again = [...box.querySelectorAll("button:not(:disabled)")];
  const isSame = ({ id, dataset }) => id === focused.id && dataset.view === focused.dataset.view;
  (again.find(isSame) ?? again[0])?.focus({ preventScroll: true });
}

function render() {
  const shown = facts();
  redraw(find("views"), viewButtons());
  find("stream-title").textContent = shortKey(state.key) || "No stream selected";
  find("log").disabled = find("travel").disabled = !state.key;
  if (!shown) {
    known = new Map();
    find("table").replaceChildren(...(state.key ? [el("p", { class: "note" }, "reading …")] : []));
    find("paging").replaceChildren();
    return;
  }
  const wanted = state.past ? [state.past.regions[0].name] : shownViews();
  const views = shown.regions.filter((view) => wanted.includes(view.name));
  const focused = document.activeElement?.classList.contains("entry") ? { ...document.activeElement.dataset } : null;
  const body = table(shown, views);
  if (body.parentElement !== find("table")) find("table").replaceChildren(body);
  find("table").querySelector(".note.empty")?.remove();
  if (!shown.rows.length) find("table").append(el("p", { class: "note empty" }, "No entries, here or removed, that are known."));
  redraw(find("paging"), paging(shown));
  tabStop(body);
  restoreFocus(focused);
  performance.mark("anabranch-painted");
}

// Arrow keys move between entries, and between views of one entry.
function move(event) {
  const here = event.target.closest?.(".entry");
  if (!here) return;
  const row = here.closest("tr");
  const column = [...row.querySelectorAll(".entry")].indexOf(here);
  const next = {
    ArrowDown: () => row.nextElementSibling?.querySelectorAll(".entry")[column],
    ArrowUp: () => row.previousElementSibling?.querySelectorAll(".entry")[column],
    ArrowRight: () => row.querySelectorAll(".entry")[column + 1],
    ArrowLeft: () => row.querySelectorAll(".entry")[column - 1],
    Home: () => row.parentElement.firstElementChild.querySelectorAll(".entry")[column],
    End: () => row.parentElement.lastElementChild.querySelectorAll(".entry")[column],
  }[event.key]?.();
  if (!next) return;
  event.preventDefault();
  find("table").querySelectorAll('.entry[tabindex="0"]').forEach((entry) => entry.setAttribute("tabindex", "-1"));
  next.setAttribute("tabindex", "0");
  next.focus();
}

export function start() {
  on(["stream", "past", "views", "key", "overview", "groups", "ghosts"], render);
  find("table").addEventListener("keydown", move);
  window.addEventListener("resize", render);
  find("log").addEventListener("click", () => explain.log(shownViews()[0]));
}
