// Lessons that the reader does on the live cluster. `tours.js` has their content.
//
// A step is done when the regions hold what it waits for, however the reader brought that about.

import { ApiError, canWrite, get, post, session } from "./api.js";
import { ask as confirmed } from "./ask.js";
import { el, find, keep, kept, listed } from "./dom.js";
import { select } from "./keys.js";
import { between, change, forgetCuts, isCut, isCutHere } from "./links.js";
import * as panels from "./panels.js";
import { propose } from "./prompt.js";
import { on, set, state } from "./store.js";
import { LESSONS } from "./tours.js";

const DONE = "anabranch-lessons";
const ASK_MS = 500;
// Lessons look at no more regions than the page shows beside each other.
const REGIONS = 3;

let at = null; // the place of the reader in a lesson; null: the list is shown
let parts = null; // the elements of the panel while it is open
let timer = 0;

const regions = () => state.overview?.regions ?? [];
const call = (value, place) => (typeof value === "function" ? value(place) : value);
const number = (id) => id.split("-").map(Number);

// The place of the reader in a lesson, and what the regions hold there.
class At {
  constructor(lesson) {
    this.lesson = lesson;
    this.key = `lesson-${lesson.id}-${Math.random().toString(16).slice(2, 6)}`;
    this.step = 0;
    this.told = [];
    this.reasons = null;
    this.answers = [];
    this.ran = null;
    this.known = new Map(); // value of an entry → its ID, kept after its removal
    const all = regions().map((region) => region.name);
    this.names = all.slice(0, REGIONS);
    [this.a, this.b, this.c] = this.names;
    this.others = all.slice(1);
    this.has = this.has.bind(this);
    this.everywhere = this.everywhere.bind(this);
  }

  get isOver() {
    return this.step >= this.lesson.steps.length;
  }

  get stream() {
    return state.stream?.key === this.key ? state.stream : null;
  }

  name(region) {
    return { a: this.a, b: this.b, c: this.c }[region] ?? region;
  }

  number(region) {
    return regions().find((one) => one.name === this.name(region))?.region_id;
  }

  isCut(one, other) {
    return between(one, other).every(isCut);
  }

  rows(value) {
    const found = (this.stream?.rows ?? []).filter((row) => row.fields[0] === "item" && row.fields[1] === value);
    if (found.length) this.known.set(value, found[0].id);
    return found;
  }

  id(value) {
    return this.rows(value)[0]?.id ?? this.known.get(value);
  }

  // The IDs of the entries with these values, ascending.
  ids(...values) {
    const ids = values.flatMap((value) => this.rows(value)).map((row) => row.id);
    return ids.sort((one, other) => number(one)[0] - number(other)[0] || number(one)[1] - number(other)[1]);
  }

  has(region, value) {
    return this.rows(value).some((row) => row.in[this.name(region)]?.state === "present");
  }

  everywhere(value) {
    return this.names.every((name) => this.has(name, value));
  }

  group(region, name) {
    const found = this.stream?.regions.find((one) => one.name === this.name(region));
    return found?.groups.some((group) => group.name === name) ?? false;
  }

  // The state of an entry in a group, in a word of bars.js.
  status(region, value, group) {
    return this.rows(value)[0]?.in[this.name(region)]?.groups?.[group]?.[0];
  }

  // The number in the reply to a command of `asks`.
  integer(index) {
    return Number(/^\(integer\) (-?\d+)$/.exec(this.answers[index]?.[0] ?? "")?.[1]);
  }
}

function finished() {
  try {
    const ids = JSON.parse(kept(DONE) ?? "[]");
    return new Set(Array.isArray(ids) ? ids : []);
  } catch {
    return new Set();
  }
}

// -- the way through a lesson

async function quietly(work) {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return null;
  }
}

async function heal(links) {
  for (const link of links) await change("heal", link.sender, link.receiver, false);
}

// The links that are cut: those that the reader has cut in the lesson, and all others.
function cuts() {
  const cut = (state.overview?.links ?? []).filter((link) => isCut(link));
  const isMine = (link) => at !== null && isCutHere(link);
  return { mine: cut.filter(isMine), others: cut.filter((link) => !isMine(link)) };
}

const deletions = (place) => place.names.map((region) => ({ region, line: `DEL ${place.key}`, session: `${session}-lesson` }));

// Heals the links that were cut in the lesson, and deletes its stream wherever it is.
async function leave() {
  const [left, { mine }] = [at, cuts()];
  at = null;
  clearTimeout(timer);
  if (!left) return;
  await heal(mine);
  for (const body of deletions(left)) await quietly(post("run", body));
}

// The same when the page is left: there is no time to wait for answers.
function abandon() {
  if (!at) return;
  for (const { sender, receiver } of cuts().mine) quietly(post("link", { action: "heal", sender, receiver, both: false, delay_ms: 0 }, true));
  for (const body of deletions(at)) quietly(post("run", body, true));
  at = null;
}

// Whether the lesson may begin: it needs whole links, and somebody may have cut them for a reason.
async function mayHeal(links) {
  if (!links.length) return true;
  const pairs = links.map((link) => `${link.sender} → ${link.receiver}`);
  return confirmed("Heal links that this lesson did not cut?",
    `${pairs.length > 1 ? "Links are" : "A link is"} cut: ${listed(pairs)}. The lesson needs every link, and somebody may have cut ${pairs.length > 1 ? "these" : "this one"} for a reason.`,
    "Heal and begin", "Leave as it is");
}

async function begin(lesson) {
  const { others } = cuts();
  await leave();
  if (!(await mayHeal(others))) return render();
  await heal(others);
  forgetCuts();
  at = new At(lesson);
  set({ views: [], before: "", past: null });
  select(at.key);
  ask();
  advance();
}

// Asks what a step wants to know, again and again.
async function ask() {
  clearTimeout(timer);
  const mine = at;
  if (!mine || mine.isOver) return;
  const asks = call(mine.lesson.steps[mine.step].asks, mine) ?? [];
  const replies = await Promise.all(asks.map((one) => quietly(post("run", { ...one, session: `${session}-lesson` }))));
  if (at !== mine) return;
  mine.answers = replies.map((reply) => reply?.lines);
  if (asks.length) advance();
  timer = setTimeout(ask, ASK_MS);
}

function advance() {
  while (at && !at.isOver && at.stream && at.lesson.steps[at.step].until(at)) {
    const step = at.lesson.steps[at.step];
    at.told.push([call(step.say, at), call(step.told, at)]);
    at.step += 1;
    at.answers = [];
    at.ran = null;
    if (at.isOver) keep(DONE, JSON.stringify([...finished().add(at.lesson.id)]));
  }
  render();
}

async function explainWhy() {
  const mine = at;
  const { region, id } = mine.lesson.why(mine);
  const answer = await quietly(get("explain", { region, key: mine.key, id }));
  mine.reasons = answer?.lines ?? ["The regions do not answer."];
  if (at === mine) render();
}

// -- the panel

function button(text, onclick, attributes = {}) {
  return el("button", { type: "button", onclick, ...attributes }, text);
}

function deed(one) {
  const pair = (one.cut ?? one.heal)?.map((region) => at.name(region));
  if (pair) {
    const action = one.cut ? "cut" : "heal";
    const isDone = at.isCut(...pair) === (action === "cut");
    return el("li", {}, button(`${one.cut ? "Cut" : "Heal"} ${pair.join(" – ")}`, () => change(action, ...pair, true), { class: "step", disabled: isDone, "data-deed": action }), isDone ? " done" : null);
  }
  const region = at.name(one.region);
  const line = call(one.line, at);
  return el("li", {}, button([el("b", {}, region), " ", el("code", {}, line)], () => propose(region, line), { class: "step", "data-deed": "run" }));
}

function obstacle() {
  const down = regions().filter((region) => region.error && at.names.includes(region.name));
  if (down.length) return `${down[0].name} does not answer. The lesson goes on once it does.`;
  if (state.key !== at.key) return "The page shows another stream now.";
  return state.past ? "The page shows the past now. Select Now to go on." : "";
}

function list() {
  const done = finished();
  const names = regions();
  const lacks = (lesson) => names.length < (lesson.regions ?? 2);
  return [
    el("h3", {}, "Lessons"),
    el("p", {}, "Each lesson takes about a minute, and you do it on this cluster. It uses a stream of its own, which it deletes at its end, when you leave it, and heals the links that you cut in it. If other links are cut, it asks before it heals them."),
    canWrite ? null : el("p", { class: "problem" }, "This console only reads. Lessons need one that writes: start it with --allow-write."),
    el("ol", { class: "lessons" }, LESSONS.map((lesson) => el("li", {},
      button([el("b", {}, lesson.title), done.has(lesson.id) ? " ✓ done" : "", el("span", { class: "aim" }, lesson.aim)],
        () => begin(lesson), { class: "step", "data-lesson": lesson.id, disabled: !canWrite || lacks(lesson) }),
      lacks(lesson) ? el("p", { class: "note" }, `This lesson needs ${lesson.regions ?? 2} regions, and the cluster has ${names.length}.`) : null))),
  ];
}

function story() {
  const { lesson, told } = at;
  const step = lesson.steps[at.step];
  const last = told.at(-1);
  return [
    el("ol", { class: "told" }, told.slice(0, -1).map(([say, then]) => el("li", {}, el("p", { class: "note" }, say), el("p", {}, then)))),
    el("div", { role: "status", id: "lesson-now" },
      last ? el("p", { class: "happened" }, last[1]) : null,
      step ? el("p", { class: "say" }, el("b", {}, `${at.step + 1} of ${lesson.steps.length}. `), call(step.say, at)) : el("p", { class: "say" }, el("b", {}, "Done. "), lesson.aim)),
  ];
}

function closing() {
  return [
    at.isOver && at.lesson.why && !at.reasons ? button("Ask the cluster why", explainWhy, { id: "lesson-why" }) : null,
    at.reasons ? el("ul", { class: "sentences", role: "status" }, at.reasons.map((text) => el("li", {}, text.trim()))) : null,
    at.isOver ? el("p", { class: "note" }, `The book goes on with this in docs/learn/${at.lesson.chapter}.md.`) : null,
    el("div", { class: "buttons" },
      state.key === at.key ? null : button("Back to the lesson's stream", () => select(at.key)),
      button("Start again", () => begin(at.lesson), { id: "lesson-again" }),
      button("All lessons", () => leave().then(render), { id: "lesson-leave" })),
  ];
}

// Fills a part of the panel if it changed, so that the focus stays where it is.
function refill(name, signature, make) {
  const part = parts[name];
  if (part.dataset.shown === signature) return;
  const hadFocus = part.contains(document.activeElement);
  part.dataset.shown = signature;
  part.replaceChildren(...make().filter((child) => child !== null));
  if (hadFocus) (part.querySelector("button:not(:disabled)") ?? find("panel")).focus();
}

function render() {
  if (!parts) return;
  if (!at) {
    const signature = JSON.stringify(["list", regions().length, [...finished()]]);
    refill("head", signature, list);
    for (const name of ["story", "deeds", "closing"]) refill(name, "", () => []);
    return;
  }
  const { lesson, step } = at;
  const deeds = lesson.steps[step] ? call(lesson.steps[step].do, at) : [];
  const lines = deeds.map((one) => [one.cut ?? one.heal, at.isCut(...(one.cut ?? one.heal ?? []).map((name) => at.name(name))), one.line && call(one.line, at)]);
  refill("head", at.key, () => [el("h3", {}, `Lesson ${lesson.id}: ${lesson.title}`), el("p", { class: "note" }, lesson.aim)]);
  refill("story", JSON.stringify([at.key, step]), story);
  parts.story.dataset.step = step;
  refill("deeds", JSON.stringify([at.key, step, lines]), () => [el("ul", { class: "deeds" }, deeds.map(deed))]);
  refill("closing", JSON.stringify([at.key, step, at.reasons, obstacle()]), () => [obstacle() ? el("p", { class: "problem", role: "status" }, obstacle()) : null, ...closing()]);
}

function mount(panel) {
  parts = Object.fromEntries(["head", "story", "deeds", "closing"].map((name) => [name, el("div", { class: `lesson-${name}` })]));
  panel.replaceChildren(...Object.values(parts));
  render();
  return () => { parts = null; };
}

export function register() {
  panels.register({ id: "lessons", title: "Lessons", mount });
}

export function start() {
  addEventListener("pagehide", abandon);
  on(["overview", "stream", "key", "past"], advance);
  on(["ran"], () => {
    if (at) at.ran = state.ran;
    advance();
  });
}
