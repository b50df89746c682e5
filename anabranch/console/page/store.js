// The state of the page, and who wants to know when a part of it changes.

export const state = {
  overview: null, // regions and links
  keys: null, // the key list
  stream: null, // the window of the selected stream, live
  past: null, // the same as it was, while the reader looks back
  key: "", // the selected key, as the server shows it
  views: [], // names of the regions whose views are shown; empty: not chosen yet
  before: "", // the ID below which the window lies; empty: the newest
  filter: "",
  groups: null, // names of the groups whose bars are shown; null: the first ones
  ghosts: true, // whether entries are shown that every region has removed
  ran: null, // the newest line of the command line that was answered: {region, line, lines}
  connection: "connecting", // "live", "lost", "hidden"
};

const readers = new Map();
// Readers of what was set since they were told last.
const untold = new Set();

// Calls `read` whenever one of these parts of the state was set.
export function on(names, read) {
  for (const name of names) {
    if (!readers.has(name)) readers.set(name, new Set());
    readers.get(name).add(read);
  }
}

// Sets parts of the state, and tells each reader once; after a press, if there is one.
export function set(parts) {
  for (const [name, value] of Object.entries(parts)) {
    state[name] = value;
    for (const read of readers.get(name) ?? []) untold.add(read);
  }
  if (!press) tell();
}

function tell() {
  const told = [...untold];
  untold.clear();
  for (const read of told) read(state);
}

// A click needs the element on which it began. So nothing is drawn anew between the press of a
// button or of the space bar and its release, unless the release does not come. What is dragged
// (a slider) or opened (a list) needs no click.
const PRESS_MS = 1000;
let press = 0;

function hold() {
  clearTimeout(press);
  press = setTimeout(release, PRESS_MS);
}

function release() {
  clearTimeout(press);
  press = 0;
  tell();
}

const isSpace = (event) => event.key === " " && !event.repeat && event.target.closest?.("button, summary");
const isField = (event) => event.target.closest?.("input, select, textarea");
addEventListener("pointerdown", (event) => isField(event) || hold(), true);
addEventListener("keydown", (event) => isSpace(event) && hold(), true);
// The click comes in the same task as the release, after it.
const end = () => press && setTimeout(release);
for (const name of ["pointerup", "pointercancel", "keyup"]) addEventListener(name, end, true);
// The window's own: a press takes the focus from the field that has it, and is not over then.
addEventListener("blur", end);

// The colour of a region: the same everywhere on the page.
export function hue(regionId) {
  const ids = Object.keys(state.overview?.names ?? {}).map(Number).sort((a, b) => a - b);
  return Math.max(ids.indexOf(Number(regionId)), 0) % 8;
}

export function nameOf(regionId) {
  return state.overview?.names[regionId] ?? `region ${regionId}`;
}

const LOOKED_AT = 4;

// The regions that are asked for the stream: also some that are not shown, because their entries
// are rows, too ("not here yet"). Empty: all.
export function askedRegions() {
  const names = (state.overview?.regions ?? []).map((region) => region.name);
  if (names.length <= LOOKED_AT) return [];
  const shown = shownViews();
  return [...shown, ...names.filter((name) => !shown.includes(name))].slice(0, Math.max(LOOKED_AT, shown.length));
}

// The regions whose views are shown: those chosen, or what fits the width of the page.
export function shownViews() {
  const names = (state.overview?.regions ?? []).map((region) => region.name);
  const chosen = state.views.filter((name) => names.includes(name));
  if (chosen.length) return names.filter((name) => chosen.includes(name));
  const fits = window.innerWidth >= 1200 ? 3 : window.innerWidth >= 800 ? 2 : 1;
  return names.slice(0, fits);
}
