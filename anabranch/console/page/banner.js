// A banner while effects do not reach every region: what is interrupted, since when, how much waits.

import { clock, counted, el, find, lasting, listed } from "./dom.js";
import { on, state } from "./store.js";

let came_ms = 0; // when the facts came, on the clock of `performance`

// The directions in words; both directions of a link together, in the order of the regions.
function pairs(links) {
  const place = (name) => state.overview.regions.findIndex((region) => region.name === name);
  const both = (sender, receiver) => links.some((link) => link[0] === receiver && link[1] === sender);
  return links
    .filter(([sender, receiver]) => place(sender) < place(receiver) || !both(sender, receiver))
    .map(([sender, receiver]) => (both(sender, receiver) ? `${sender} – ${receiver}` : `${sender} → ${receiver}`));
}

// What is interrupted: [a word, the parts, what that means].
function what({ down, links, sides }) {
  const silent = down.length ? `${listed(down)} ${down.length > 1 ? "do" : "does"} not answer` : "";
  if (sides.length > 1) {
    return ["Partition", [sides.map((side) => side.join(", ")).join(" | "), silent].filter(Boolean).join("; "), ""];
  }
  if (!links.length) return ["Region down", silent, ""];
  const word = links.some(([, , isCut]) => isCut) ? "Link cut" : "Link interrupted";
  return [word, [pairs(links).join(", "), silent].filter(Boolean).join("; "), " Effects take the way round."];
}

// How much waits for each region; of a region that does not answer, as far as the others know.
function waiting(regions) {
  const parts = regions.flatMap((region) => {
    const count = Object.values(region.lacks).reduce((sum, one) => sum + one, 0);
    return count ? [`${counted(count, "effect")} for ${region.name}`] : [];
  });
  return parts.length ? `Waiting: ${listed(parts)}.` : "Nothing waits.";
}

function since({ since_ms: sinceMs, is_exact: isExact }) {
  return ` ${isExact ? "since" : "at least since"} ${clock(sinceMs, false)}`;
}

function tick() {
  const interruption = state.overview?.interruption;
  if (!interruption) return;
  const seconds = interruption.lasts_s + (performance.now() - came_ms) / 1000;
  find("banner-lasts").textContent = `, for ${interruption.is_exact ? "" : "at least "}${lasting(seconds)}`;
}

let shown = "";

function render() {
  const interruption = state.overview?.interruption ?? null;
  const box = find("banner");
  box.hidden = !interruption;
  if (!interruption) {
    shown = "";
    box.replaceChildren();
    return;
  }
  came_ms = performance.now();
  // A screen reader is told of what is interrupted, and not of every second.
  const [word, parts, meaning] = what(interruption);
  const facts = JSON.stringify([word, parts, meaning, since(interruption)]);
  if (facts !== shown) {
    shown = facts;
    box.replaceChildren(
      el("p", {}, el("span", { role: "status" }, el("b", {}, `${word}:`), ` ${parts}`, since(interruption)),
        el("span", { id: "banner-lasts" }), `.${meaning}`),
      el("p", { id: "banner-waits" }));
  }
  find("banner-waits").textContent = waiting(state.overview.regions);
  tick();
}

export function start() {
  on(["overview"], render);
  setInterval(tick, 1000);
}
