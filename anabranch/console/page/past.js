// The stream as it was: a slider over the times at which the key changed in one region.

import { ApiError, get } from "./api.js";
import { clock, counted, el, find } from "./dom.js";
import { on, set, shownViews, state } from "./store.js";

let steps = null; // {steps, left_out, is_whole}
let region = "";
let at = 0; // the index of the step that is shown
let request = null;
let message = "";
let timer = 0;
let visits = 0; // How often the reader has gone back, or come back to now: a late answer is dropped.

function leave() {
  visits += 1;
  clearTimeout(timer);
  request?.abort();
  steps = null;
  find("slider").hidden = true;
  find("travel").setAttribute("aria-pressed", "false");
  if (state.past) set({ past: null });
}

async function enter(name) {
  const visit = ++visits;
  clearTimeout(timer);
  request?.abort();
  region = name;
  steps = null;
  message = `reading the log of ${region} …`;
  find("slider").hidden = false;
  find("travel").setAttribute("aria-pressed", "true");
  render();
  try {
    const found = await get("timeline", { region, key: state.key });
    if (visit !== visits) return;
    steps = found;
    message = steps.steps.length ? "" : `the log of ${region} holds no event of this key`;
    at = steps.steps.length - 1;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (visit !== visits) return;
    message = error.message;
  }
  render();
  if (steps?.steps.length) show(at);
}

async function show(index) {
  at = Math.min(Math.max(index, 0), steps.steps.length - 1);
  update();
  request?.abort();
  request = new AbortController();
  const visit = visits;
  try {
    const until = steps.steps[at].at_ms;
    const past = await get("past", { region, key: state.key, until }, request.signal);
    if (visit === visits) set({ past });
  } catch (error) {
    if (error.name === "AbortError" || visit !== visits) return;
    if (!(error instanceof ApiError)) throw error;
    message = error.message;
    render();
  }
}

function text() {
  const step = steps.steps[at];
  return `${region} at ${clock(step.at_ms)}: ${step.text}${step.more ? `, and ${step.more} more` : ""}`;
}

function update() {
  const range = find("when");
  if (!range) return;
  range.value = at;
  range.setAttribute("aria-valuetext", text());
  find("moment").textContent = text();
  find("earlier").disabled = at === 0;
  find("later").disabled = at === steps.steps.length - 1;
}

function render() {
  const box = find("slider");
  const names = (state.overview?.regions ?? []).map((one) => one.name);
  const select = el("select", { "aria-label": "Region whose past is shown", onchange: (event) => enter(event.target.value) }, names.map((name) => el("option", { selected: name === region }, name)));
  const back = el("button", { type: "button", id: "now", onclick: leave }, "Back to now");
  if (!steps?.steps.length) return box.replaceChildren(select, el("p", { class: "note", role: "status" }, message), back);
  const count = steps.steps.length;
  const marks = el("div", { class: "marks", "aria-hidden": true }, steps.steps.flatMap((step, n) => step.removes ? [el("span", { class: "mark", style: { left: `${(n / Math.max(count - 1, 1)) * 100}%` } })] : []).slice(0, 300));
  box.replaceChildren(select,
    el("button", { type: "button", id: "earlier", "aria-label": "One step earlier", onclick: () => show(at - 1) }, "‹"),
    el("div", { class: "range" }, el("input", { id: "when", type: "range", min: 0, max: count - 1, step: 1, "aria-label": "Time", oninput: (event) => slide(Number(event.target.value)) }), marks),
    el("button", { type: "button", id: "later", "aria-label": "One step later", onclick: () => show(at + 1) }, "›"),
    back,
    el("p", { id: "moment", class: "moment" }),
    el("p", { class: "note" }, steps.left_out ? `the newest ${counted(count, "step")}; ${counted(steps.left_out, "older event")} left out` : steps.is_whole ? counted(count, "step") : `${counted(count, "step")}; the log does not go back to the beginning`,
      message ? ` · ${message}` : ""));
  update();
}

// While the slider moves, only its last place is asked for.
function slide(index) {
  at = index;
  update();
  clearTimeout(timer);
  timer = setTimeout(() => show(index), 60);
}

export function start() {
  find("travel").addEventListener("click", () => {
    if (find("slider").hidden) enter(shownViews()[0]);
    else leave();
  });
  on(["key"], leave);
}
