// The regions and the links between them, as a map; as a table if there are many.

import { canWrite } from "./api.js";
import { el, find, svg } from "./dom.js";
import { between, isCut, openDialog, start as startLinks, toggle, words, wordsOfBoth, wordsOfEach } from "./links.js";
import { hue, on, state } from "./store.js";

// With more regions, links would cross, and their buttons would lie upon each other.
const DRAWN_MAX = 3;
const WIDTH = 340;
const HEIGHT = 176;
// Where the button of a link to the lowest of three regions stands: nearer to the upper one.
const ASIDE = 0.42;

function places(regions) {
  const count = regions.length;
  const turn = count === 2 ? Math.PI : -Math.PI / 2 - (count === 3 ? Math.PI / 3 : 0);
  return regions.map((region, index) => {
    const angle = turn + (2 * Math.PI * index) / count;
    const lift = count === 3 ? 18 : 0;
    return {
      region,
      x: WIDTH / 2 + (count === 1 ? 0 : Math.cos(angle) * 136),
      y: HEIGHT / 2 - lift - 2 + (count === 1 ? 0 : Math.sin(angle) * (count === 2 ? 0 : 66)),
    };
  });
}

// One direction: a line beside the middle, with an arrow towards the receiver.
function line(from, to, link) {
  const length = Math.hypot(to.x - from.x, to.y - from.y);
  const [ux, uy] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const [sx, sy] = [-uy * 4, ux * 4];
  const kind = !link || link.state === "none" ? "none" : isCut(link) ? "cut" : link.state !== "up" ? "broken" : link.delay_ms ? "slow" : "up";
  const a = { x: from.x + ux * 30 + sx, y: from.y + uy * 30 + sy };
  const b = { x: to.x - ux * 32 + sx, y: to.y - uy * 32 + sy };
  const head = [[b.x, b.y], [b.x - ux * 8 - uy * 4, b.y - uy * 8 + ux * 4], [b.x - ux * 8 + uy * 4, b.y - uy * 8 - ux * 4]];
  return svg("g", { class: `line ${kind}` },
    svg("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y }),
    svg("polygon", { points: head.map((point) => point.join(",")).join(" ") }));
}

function control(one, other) {
  const [a, b] = [one.region.name, other.region.name];
  const links = between(a, b);
  const text = wordsOfBoth(a, b);
  const act = links.some(isCut) ? "heal" : "cut";
  const place = one.y < other.y ? ASIDE : 0.5;
  const exists = links.some((link) => link && link.state !== "none" && link.state !== "unknown");
  return el("div", {
    class: "control",
    style: {
      left: `${((one.x + (other.x - one.x) * place) / WIDTH) * 100}%`,
      top: `${((one.y + (other.y - one.y) * place) / HEIGHT) * 100}%`,
    },
  },
  el("button", {
    type: "button", class: "toggle", "data-link": `${a}-${b}`, "data-state": links.some(isCut) ? "cut" : text,
    disabled: !canWrite || !exists,
    title: `${canWrite ? `${act} the link between ${a} and ${b}. ` : ""}${wordsOfEach(a, b)}`,
    "aria-label": `Link ${a} – ${b} is ${text}: ${act} it`,
    onclick: () => toggle(a, b),
  }, text),
  el("button", {
    type: "button", class: "more", "data-more": `${a}-${b}`, "aria-haspopup": "dialog",
    "aria-label": `Link ${a} – ${b}: delay, and single directions`, title: "delay, and single directions",
    onclick: () => openDialog(a, b),
  }, "⋯"));
}

function drawn(regions) {
  const nodes = places(regions);
  const pairs = nodes.flatMap((one, n) => nodes.slice(n + 1).map((other) => [one, other]));
  const lines = pairs.flatMap(([one, other]) => {
    const [back, forth] = between(one.region.name, other.region.name);
    return [line(other, one, back), line(one, other, forth)];
  });
  const circles = nodes.map((node) => svg("g", { class: `node hue-${hue(node.region.region_id)}`, "data-state": node.region.error ? "down" : node.region.state },
    svg("circle", { cx: node.x, cy: node.y, r: 24 }),
    svg("text", { x: node.x, y: node.y + 5 }, node.region.name)));
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `A map of ${regions.length} regions` }, ...lines, ...circles);
  return el("div", { class: "map" }, drawing, ...pairs.map(([one, other]) => control(one, other)));
}

function table(regions) {
  const names = regions.map((region) => region.name);
  const head = el("tr", {}, el("th", { scope: "col" }, "receives from"), names.map((name) => el("th", { scope: "col" }, name)));
  const rows = names.map((name) => el("tr", {},
    el("th", { scope: "row" }, name),
    names.map((sender) => sender === name ? el("td", {}) : el("td", {}, el("button", {
      type: "button", class: "toggle", "data-state": words(between(name, sender)[0]),
      onclick: () => openDialog(name, sender),
    }, words(between(name, sender)[0]))))));
  return el("div", { class: "matrix" }, el("table", {}, el("thead", {}, head), el("tbody", {}, rows)));
}

let drawnFacts = "";

function render() {
  if (!state.overview) return;
  const { regions, links } = state.overview;
  const facts = JSON.stringify([regions.map(({ name, state, error }) => [name, state, error]), links.map((link) => [link.sender, link.receiver, words(link)])]);
  if (facts === drawnFacts) return;
  drawnFacts = facts;
  const focused = document.activeElement?.getAttribute("aria-label");
  const isInside = find("map").contains(document.activeElement);
  const data = { ...document.activeElement?.dataset };
  find("map").replaceChildren(regions.length > DRAWN_MAX ? table(regions) : drawn(regions));
  if (isInside && focused) {
    const [kind, link] = Object.entries(data).find(([name]) => name === "link" || name === "more") ?? [];
    if (kind) find("map").querySelector(`[data-${kind}="${CSS.escape(link)}"]`)?.focus();
  }
}

export function start() {
  startLinks();
  on(["overview"], render);
}
