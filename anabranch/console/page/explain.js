// Why an entry, a group or a key is as it is, in sentences; and the log of a key.

import { ApiError, get } from "./api.js";
import { clock, counted, el, find, shortKey, timeOf } from "./dom.js";
import { show } from "./narrow.js";
import * as panels from "./panels.js";
import { on, shownViews, state } from "./store.js";

let asked = null; // {kind, region, key, id | group}
let answer = null;
let error = "";
let request = null;

const TITLES = {
  entry: (what) => `Entry ${what.id} in ${what.region}`,
  group: (what) => `Group ${what.group} in ${what.region}`,
  log: (what) => `Log of ${shortKey(what.key)} in ${what.region}`,
};

async function ask(what) {
  asked = what;
  answer = null;
  error = "";
  request?.abort();
  request = new AbortController();
  panels.open("explain");
  show("side");
  const { kind, ...parameters } = what;
  try {
    answer = await get(kind === "entry" ? "explain" : kind, parameters, request.signal);
  } catch (failure) {
    if (failure.name === "AbortError") return;
    if (!(failure instanceof ApiError)) throw failure;
    error = failure.message;
  }
  if (asked === what) render();
}

export const entry = (region, id) => ask({ kind: "entry", region, key: state.key, id });
export const group = (region, name) => ask({ kind: "group", region, key: state.key, group: name });
export const log = (region) => ask({ kind: "log", region, key: state.key });

function sentence(text) {
  const depth = Math.floor(/^ */.exec(text)[0].length / 2);
  return el("li", { class: `depth-${Math.min(depth, 3)}` }, text.trim());
}

function event(one) {
  return el("li", { "data-kind": one.kind }, el("time", {}, clock(one.at_ms)), " ", one.text);
}

function regionSwitch() {
  const regions = (state.overview?.regions ?? []).map((region) => region.name);
  return el("div", { role: "group", class: "chips", "aria-label": "Region that is asked" }, regions.map((name) => el("button", {
    type: "button", class: "chip", "aria-pressed": String(name === asked.region), "data-ask": name,
    onclick: () => ask({ ...asked, region: name }),
  }, name)));
}

function render() {
  if (!panels.isOpen("explain")) return;
  const panel = find("panel");
  if (!asked) {
    panel.replaceChildren(el("p", { class: "note" }, "Select an entry or a group: here stands why it is there, or why not, from the logs of all regions."));
    return;
  }
  const parts = [el("h3", {}, TITLES[asked.kind](asked)), el("p", { class: "note" }, `key ${shortKey(asked.key)}`, asked.id && timeOf(asked.id) ? [", ", el("time", {}, timeOf(asked.id))] : null), regionSwitch()];
  if (error) parts.push(el("p", { class: "problem" }, error));
  else if (!answer) parts.push(el("p", { class: "note", role: "status" }, "reading the logs of the regions …"));
  if (answer?.lines) parts.push(el("ul", { class: "sentences", role: "status" }, answer.lines.map(sentence)));
  if (answer?.events) {
    parts.push(el("ol", { class: "events" }, answer.events.map(event)));
    if (!answer.events.length) parts.push(el("p", { class: "note" }, "The log that was read holds no event of it."));
    if (answer.left_out) parts.push(el("p", { class: "note" }, `${counted(answer.left_out, "older event")} left out.`));
    if (answer.is_whole === false) parts.push(el("p", { class: "note" }, "The log does not go back to the beginning."));
  }
  panel.replaceChildren(...parts);
}

export function register() {
  panels.register({ id: "explain", title: "Explain", mount: render });
}

export function start() {
  on(["key"], () => {
    if (asked && asked.key !== state.key) {
      asked = null;
      render();
    }
    if (state.key && asked?.kind === "log") log(shownViews()[0]);
  });
}
