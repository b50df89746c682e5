// The keys of the cluster, with the number of entries in each region.

import { el, find, shortKey } from "./dom.js";
import { on, set, shownViews, state } from "./store.js";

export function select(key) {
  // The server sends a window again only when another one is wanted. So the stream that is shown
  // stays where the same key is chosen once more.
  const stream = key === state.key ? state.stream : null;
  set({ key, before: "", stream, past: null, groups: null });
  history.replaceState(null, "", key ? `#${encodeURIComponent(key)}` : "#");
}

function item(key) {
  const counts = Object.entries(key.entries);
  const same = counts.length === state.overview?.regions.length && new Set(counts.map(([, count]) => count)).size === 1;
  const text = same ? counts[0][1].toLocaleString("en") : counts.map(([name, count]) => `${name} ${count.toLocaleString("en")}`).join(" · ");
  return el("li", {}, el("button", {
    type: "button", "data-key": key.name, "aria-current": key.name === state.key ? "true" : null,
    title: counts.map(([name, count]) => `${name}: ${count}`).join(", "),
    onclick: () => select(key.name),
  }, el("span", { class: "name" }, shortKey(key.name)), el("span", { class: "entries" }, text)));
}

function note({ keys, is_whole: isWhole, silent }) {
  if (silent.length && silent.length === state.overview?.regions.length) return "No region answers.";
  const notes = [];
  if (!keys.length) notes.push(state.filter ? "No key matches." : "No keys yet. Add an entry below, in the command line.");
  if (!isWhole) notes.push("There are more keys: filter them.");
  if (silent.length) notes.push(`Keys that are only in ${silent.join(" and ")} are not shown.`);
  return notes.join(" ");
}

function render() {
  if (!state.keys) return;
  const list = find("keylist");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  list.replaceChildren(...state.keys.keys.map(item));
  if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  find("keynote").textContent = note(state.keys);
  // The first key is shown until the reader chooses one. The empty name stands for no choice, so the
  // page cannot show the key with that name.
  const first = state.keys.keys.find((key) => key.name);
  if (!state.key && first && shownViews().length) select(first.name);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // It was not made by this page.
  }
}

export function start() {
  const chosen = decoded(location.hash.slice(1));
  if (chosen && chosen !== "stream") set({ key: chosen });
  let timer = 0;
  find("filter").addEventListener("input", (event) => {
    clearTimeout(timer);
    timer = setTimeout(() => set({ filter: event.target.value }), 200);
  });
  document.addEventListener("keydown", (event) => {
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/") find("filter").focus();
    else if (event.key === ":") find("line").focus();
    else return;
    event.preventDefault();
  });
  on(["keys", "key", "overview"], render);
}
