// A command line for every region, with completion from the command table and a history.

import { ApiError, get, post, session } from "./api.js";
import { el, find, keep, kept } from "./dom.js";
import { on, set, state } from "./store.js";

const HISTORY = "anabranch-history";
const HISTORY_MAX = 200;
// A longer line is not kept for the next visit.
const KEPT_MAX = 10_000;
const OUTPUT_MAX = 60;
const CHOICES_MAX = 8;
// As in redis-cli, lines with passwords are not remembered.
const SECRET = /^\s*(auth|hello|config\s+set\s+(requirepass|.*\srequirepass))\b/i;

let past = [];
let at = 0; // the place in the history; past.length: the line that is being typed
let typed = "";
const tables = new Map(); // region → commands
let chosen = -1;

function remembered() {
  try {
    const lines = JSON.parse(kept(HISTORY) ?? "[]");
    return Array.isArray(lines) ? lines.filter((line) => typeof line === "string") : [];
  } catch {
    return [];
  }
}

function remember(line) {
  if (!SECRET.test(line) && past.at(-1) !== line) past.push(line);
  past = past.slice(-HISTORY_MAX);
  keep(HISTORY, JSON.stringify(past.filter((one) => one.length <= KEPT_MAX)));
  at = past.length;
}

function print(region, line, lines, isWrong) {
  const output = find("output");
  output.hidden = false;
  output.append(el("div", { class: isWrong ? "reply wrong" : "reply" },
    el("div", { class: "asked" }, el("b", {}, `${region}> `), SECRET.test(line) ? line.replace(/(\S+\s+).*/, "$1…") : line), el("pre", {}, lines.join("\n"))));
  while (output.children.length > OUTPUT_MAX) output.firstElementChild.remove();
  output.scrollTop = output.scrollHeight;
}

async function run(event) {
  event.preventDefault();
  const line = find("line").value;
  const region = find("where").value;
  close();
  if (!line.trim()) return;
  remember(line);
  find("line").value = "";
  find("syntax").textContent = "";
  if (/^\s*clear\s*$/i.test(line)) return find("output").replaceChildren();
  try {
    const answer = await post("run", { region, line, session });
    print(region, line, answer.lines, false);
    set({ ran: { region, line, lines: answer.lines } });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    print(region, line, [error.message], true);
  }
}

// Puts a command into the command line; the reader runs it.
export function propose(region, line) {
  if (region) find("where").value = region;
  find("line").value = line;
  find("line").focus();
  complete();
}

async function commands() {
  const region = find("where").value;
  if (!region) return [];
  if (!tables.has(region)) {
    try {
      tables.set(region, (await get("commands", { region })).commands);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      return [];
    }
  }
  return tables.get(region);
}

function close() {
  find("choices").hidden = true;
  find("line").setAttribute("aria-expanded", "false");
  find("line").removeAttribute("aria-activedescendant");
  chosen = -1;
}

function take(name) {
  find("line").value = `${name} `;
  find("line").focus();
  close();
  complete();
}

async function complete() {
  const line = find("line").value;
  const all = await commands();
  if (find("line").value !== line) return;
  const words = line.trimStart().toUpperCase();
  const exact = all.filter((one) => `${words} `.startsWith(`${one.name} `)).sort((a, b) => b.name.length - a.name.length)[0];
  find("syntax").textContent = exact ? `${exact.name} ${exact.syntax} — ${exact.summary}` : "";
  const fitting = words && !(exact && words.length > exact.name.length)
    ? all.filter((one) => one.name.startsWith(words) && one.name !== words.trimEnd()).slice(0, CHOICES_MAX) : [];
  if (!fitting.length) return close();
  chosen = -1;
  find("choices").replaceChildren(...fitting.map((one, n) => el("li", {
    role: "option", id: `choice-${n}`, "aria-selected": "false", "data-name": one.name,
    onmousedown: (event) => { event.preventDefault(); take(one.name); },
  }, el("b", {}, one.name), ` ${one.syntax}`)));
  find("choices").hidden = false;
  find("line").setAttribute("aria-expanded", "true");
}

function choose(step) {
  const options = [...find("choices").children];
  chosen = (chosen + step + options.length + (chosen < 0 && step < 0 ? 1 : 0)) % options.length;
  options.forEach((option, n) => option.setAttribute("aria-selected", String(n === chosen)));
  find("line").setAttribute("aria-activedescendant", options[chosen].id);
  options[chosen].scrollIntoView({ block: "nearest" });
}

function recall(step) {
  if (at === past.length) typed = find("line").value;
  at = Math.min(Math.max(at + step, 0), past.length);
  find("line").value = at === past.length ? typed : past[at];
  close();
}

function pressed(event) {
  const isOpen = !find("choices").hidden;
  if (event.key === "Escape" && isOpen) close();
  else if (event.key === "Tab" && isOpen && !event.shiftKey) take(find("choices").children[Math.max(chosen, 0)].dataset.name);
  else if (event.key === "Enter" && isOpen && chosen >= 0) take(find("choices").children[chosen].dataset.name);
  else if (event.key === "ArrowDown") isOpen ? choose(1) : recall(1);
  else if (event.key === "ArrowUp") isOpen && chosen >= 0 ? choose(-1) : recall(-1);
  else return;
  event.preventDefault();
}

function renderRegions() {
  const where = find("where");
  const names = (state.overview?.regions ?? []).map((region) => region.name);
  if (names.join() === [...where.options].map((option) => option.value).join()) return;
  const former = where.value;
  where.replaceChildren(...names.map((name) => el("option", { value: name, selected: name === former }, name)));
}

export function start() {
  past = remembered();
  at = past.length;
  find("prompt").addEventListener("submit", run);
  find("line").addEventListener("input", complete);
  find("line").addEventListener("keydown", pressed);
  find("line").addEventListener("blur", close);
  on(["overview"], renderRegions);
}
