// The links between regions: what they are called, and how they are changed.

import { ApiError, canWrite, post } from "./api.js";
import { el, find, listed } from "./dom.js";
import { on, state } from "./store.js";

const DELAYS = [0, 100, 500, 2000, 10000];
let opened = null; // the two names of the dialog

// Both directions between two regions: [one receives, the other receives]; undefined if no link.
export function between(one, other) {
  const links = state.overview?.links ?? [];
  const from = (sender, receiver) =>
    links.find((link) => link.sender === sender && link.receiver === receiver);
  return [from(other, one), from(one, other)];
}

// Directions that this page has cut and not healed, as "sender>receiver".
const cutHere = new Set();
export const isCutHere = (link) => cutHere.has(`${link.sender}>${link.receiver}`);
export const forgetCuts = () => cutHere.clear();

function noteCut(action, sender, receiver) {
  if (action === "cut") cutHere.add(`${sender}>${receiver}`);
  if (action === "heal") cutHere.delete(`${sender}>${receiver}`);
}

// How a region is apart from others that answer: [in a word, in a sentence]; null if its links to
// them are whole.
export function apartFrom(name) {
  const { sides = [], links = [] } = state.overview?.interruption ?? {};
  const others = sides.filter((side) => !side.includes(name)).flat();
  if (others.length) return ["cut off", `cut off from ${listed(others)}`];
  const pairs = links.filter((link) => link.includes(name));
  const peers = [...new Set(pairs.map(([sender, receiver]) => (sender === name ? receiver : sender)))];
  return peers.length ? ["link cut", `the link with ${listed(peers)} is interrupted`] : null;
}

export const isCut = (link) => link !== undefined && link.cut_by.length > 0;

const late = (ms) => (ms < 1000 ? `${ms} ms late` : `${ms / 1000} s late`);

export function words(link) {
  if (!link || link.state === "none") return "no link";
  if (isCut(link)) return "cut";
  const delay = link.delay_ms ? late(link.delay_ms) : "";
  if (link.state === "unknown") return "not known";
  if (link.state !== "up") return [link.state, delay].filter(Boolean).join(", ");
  return delay || "up";
}

// The state of both directions, in words that fit the map: the direction that is worse off counts.
export function wordsOfBoth(one, other) {
  const links = between(one, other);
  const [back, forth] = links.map((link) => (isWhole(link) ? words(link) : words({ ...link, delay_ms: 0 })));
  if (back === forth) return back;
  if (back === "cut" || forth === "cut") return "cut one way";
  if (isSilent(one) || isSilent(other)) return "no answer";
  const interrupted = links.find((link) => !isWhole(link));
  return interrupted ? interrupted.state : "late one way";
}

// The state of each direction, for the reader who points at a link.
export function wordsOfEach(one, other) {
  const [back, forth] = between(one, other).map(words);
  return `${one} → ${other}: ${forth}; ${other} → ${one}: ${back}`;
}

const isWhole = (link) => !link || link.state === "up" || link.state === "none";
const isSilent = (name) => Boolean(state.overview?.regions.find((region) => region.name === name)?.error);

export async function change(action, sender, receiver, both, delay_ms = 0) {
  try {
    // What became of the links comes with the events of the server, which are in order.
    await post("link", { action, sender, receiver, both, delay_ms });
    noteCut(action, sender, receiver);
    if (both) noteCut(action, receiver, sender);
    const pair = both ? `${sender} – ${receiver}` : `${sender} → ${receiver}`;
    const done = { cut: "cut", heal: "healed", delay: delay_ms ? `${delay_ms} ms late` : "not delayed" };
    find("notice").textContent = `${pair}: ${done[action]}`;
    find("notice").classList.remove("wrong");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    find("notice").textContent = error.message;
    find("notice").classList.add("wrong");
  }
}

export function toggle(one, other) {
  const isWhole = !between(one, other).some(isCut);
  return change(isWhole ? "cut" : "heal", one, other, true);
}

function direction(sender, receiver) {
  const link = between(receiver, sender)[0];
  const select = el("select", {
    "aria-label": `Delay from ${sender} to ${receiver}`,
    disabled: !canWrite || !link,
    onchange: (event) => change("delay", sender, receiver, false, Number(event.target.value)),
  }, DELAYS.map((ms) => el("option", { value: ms, selected: link?.delay_ms === ms }, ms ? late(ms) : "no delay")));
  const action = isCut(link) ? "heal" : "cut";
  return el("tr", {},
    el("th", { scope: "row" }, `${sender} → ${receiver}`),
    el("td", {}, words(link), link?.behind ? `, ${link.behind} effects behind` : ""),
    el("td", {}, el("button", {
      type: "button",
      disabled: !canWrite || !link,
      onclick: () => change(action, sender, receiver, false),
    }, `${action} this direction`)),
    el("td", {}, select));
}

function renderDialog() {
  const box = find("linkbox");
  if (!opened || !box.open) return;
  const [one, other] = opened;
  const focused = [...box.querySelectorAll("button, select")].indexOf(document.activeElement);
  box.replaceChildren(
    el("h2", { id: "linkbox-title" }, `The link between ${one} and ${other}`),
    el("p", { class: "note" }, "A link has two directions; each region dials the one from which it receives."),
    el("table", {}, el("tbody", {}, direction(one, other), direction(other, one))),
    ...(canWrite ? [] : [el("p", { class: "note" }, "This console only reads.")]),
    el("form", { method: "dialog" }, el("button", {}, "Close")),
  );
  if (focused >= 0) box.querySelectorAll("button, select")[focused]?.focus();
}

export function openDialog(one, other) {
  opened = [one, other];
  find("linkbox").showModal();
  renderDialog();
}

export function start() {
  on(["overview"], renderDialog);
  // The map may have been drawn anew meanwhile, so the focus finds its way back by the name.
  find("linkbox").addEventListener("close", () => {
    find("map").querySelector(`[data-more="${CSS.escape(opened.join("-"))}"]`)?.focus();
  });
}
