// Scenarios step by step: the list of files in a panel, and a dialog in which the drawing grows.

import { ApiError, canWrite, get, imageUrl, post } from "./api.js";
import { el, find } from "./dom.js";
import * as panels from "./panels.js";

const PLAY_MS = 2500;

let file = null; // {name, title, about, steps, failures}
let openings = 0; // A file may be another one each time it is opened, under the same name.
let at = 0; // the step that is shown, from 1
let drawn = null; // the parts of the dialog that change
let timer = 0; // while the player goes on by itself
let wanted = ""; // of the files: a part of the title
let listed = null;

// -- the list

function entries() {
  const part = wanted.toLowerCase();
  const found = listed.files.filter((one) => one.title.toLowerCase().includes(part));
  if (!found.length) return el("p", { class: "note" }, listed.problem ? "" : "No title has that text.");
  return el("ul", { class: "scenarios" }, found.map((one) => el("li", {},
    el("button", { type: "button", class: "step", "data-scenario": one.name, onclick: () => choose(one.name) }, one.title))));
}

function list(panel) {
  const box = el("div", {}, entries());
  const filter = el("input", { type: "search", "aria-label": "Filter the scenarios", placeholder: "filter, such as group", value: wanted, oninput: (event) => {
    wanted = event.target.value;
    box.replaceChildren(entries());
  } });
  const chooser = el("input", { type: "file", accept: ".md,text/markdown", "aria-label": "Open a scenario file", onchange: (event) => take(event.target.files[0]) });
  panel.replaceChildren(
    el("h3", {}, "Scenarios"),
    el("p", {}, "A scenario is a table of commands to several regions. The player runs it in the simulator, row by row, and draws what happened. This cluster is left alone."),
    listed.problem ? el("p", { class: "problem" }, listed.problem) : filter,
    box,
    canWrite && !listed.problem ? el("label", {}, "A file of your own, such as one that `anabranch scenario record` wrote: ", chooser) : "",
    el("p", { id: "player-problem", class: "problem", role: "status" }));
}

async function mounted(panel) {
  try {
    listed = await get("scenarios");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    listed = { problem: error.message, files: [] };
  }
  if (panels.isOpen("scenarios")) list(panel);
}

// Shows a file once it has come; returns whether it did.
async function opening(answer) {
  try {
    file = await answer;
    openings += 1;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    find("player-problem").textContent = error.message;
    return false;
  }
  show();
  return true;
}

const choose = (name) => opening(get("scenario", { name }));

async function take(chosen) {
  if (!chosen) return;
  find("player-problem").textContent = "the simulator runs the file …";
  const name = chosen.name.replace(/\.md$/, "").slice(0, 60);
  const hasCome = await opening(chosen.text().then((text) => post("scenario", { name, text })));
  if (hasCome) mounted(find("panel"));
}

// -- the dialog

function show() {
  const button = (id, label, text, onclick) => el("button", { type: "button", id, "aria-label": label, onclick }, text);
  const rows = el("ol", { class: "player-rows", "aria-label": "Rows of the table" }, file.steps.map((step, n) => el("li", {},
    el("button", { type: "button", class: "step", "data-step": n + 1, onclick: () => go(n + 1) },
      el("b", {}, step.time), step.does.map((text) => el("code", {}, text)), step.note ? el("span", { class: "note" }, step.note) : null))));
  const image = el("img", { id: "player-image", alt: "", onload: () => { image.parentElement.scrollTop = image.parentElement.scrollHeight; } });
  const range = el("input", { id: "player-range", type: "range", min: 1, max: file.steps.length, "aria-label": "Step", oninput: () => go(Number(range.value)) });
  const status = el("p", { id: "player-status", role: "status" });
  const play = button("player-play", "Play", "Play", () => (timer ? pause() : start()));
  drawn = { rows, image, range, status, play };
  find("player").replaceChildren(
    el("div", { class: "title" },
      el("div", {}, el("h3", { id: "player-title" }, file.title), file.about.map((text) => el("p", { class: "note" }, text)),
        file.failures?.length ? el("p", { class: "problem" }, `The run differs from the file: ${file.failures.join("; ")}`) : null),
      button("player-close", "Close the player", "Close", () => find("player").close())),
    el("div", { class: "buttons" },
      button("player-back", "One step back", "‹ Back", () => go(at - 1)),
      button("player-next", "One step on", "Next ›", () => go(at + 1)),
      play, range, status),
    el("div", { class: "player-parts" }, rows, el("div", { class: "player-drawing", tabindex: 0, role: "group", "aria-label": "Drawing" }, image)));
  find("player").onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || event.target === range) return;
    event.preventDefault();
    go(at + step);
  };
  find("player").onclose = pause;
  find("player").showModal();
  find("player-next").focus();
  go(1);
}

function pause() {
  clearInterval(timer);
  timer = 0;
  drawn.play.textContent = "Play";
  drawn.play.setAttribute("aria-label", "Play");
}

function start() {
  if (at === file.steps.length) go(1);
  timer = setInterval(() => (at < file.steps.length ? go(at + 1) : pause()), PLAY_MS);
  drawn.play.textContent = "Pause";
  drawn.play.setAttribute("aria-label", "Pause");
}

async function go(number) {
  at = Math.min(Math.max(number, 1), file.steps.length);
  const mine = { file, at };
  const step = file.steps[at - 1];
  drawn.range.value = at;
  drawn.range.setAttribute("aria-valuetext", `step ${at} of ${file.steps.length}`);
  drawn.status.textContent = `Step ${at} of ${file.steps.length}`;
  // A disabled button would lose the focus.
  for (const [id, isOver] of [["player-back", at === 1], ["player-next", at === file.steps.length]]) find(id).setAttribute("aria-disabled", String(isOver));
  for (const row of drawn.rows.querySelectorAll("[data-step]")) {
    const n = Number(row.dataset.step);
    row.classList.toggle("later", n > at);
    if (n === at) row.setAttribute("aria-current", "step");
    else row.removeAttribute("aria-current");
    if (n === at) row.scrollIntoView({ block: "nearest" });
  }
  const parameters = { name: file.name, step: at };
  try {
    const frame = await get("scenario/frame", parameters);
    if (mine.file !== file || mine.at !== at) return;
    drawn.status.textContent = `Step ${at} of ${file.steps.length}. ${frame.problem}`;
    drawn.image.alt = `${step.does.join(". ")}. ${frame.words}`;
    drawn.image.hidden = Boolean(frame.problem);
    if (!frame.problem) drawn.image.src = imageUrl("scenario/drawing", { ...parameters, opening: openings });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    drawn.status.textContent = error.message;
  }
}

export function register() {
  panels.register({ id: "scenarios", title: "Scenarios", mount: (panel) => { mounted(panel); } });
}
