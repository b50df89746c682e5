// One card for each region: its state, the effects that it has applied, and those that it lacks.

import { counted, el, find, lasting } from "./dom.js";
import { apartFrom } from "./links.js";
import { hue, nameOf, on, state } from "./store.js";

const seconds = (ms) => (ms < 10_000 ? `${ms / 1000} s` : lasting(ms / 1000));
const perSecond = (rate) => `${rate.toLocaleString("en")}/s`;
const bytes = (rate) => (rate < 1000 ? `${Math.round(rate)} B/s` : rate < 1e6 ? `${rate / 1000} kB/s` : `${rate / 1e6} MB/s`);

// How long the region may have lacked effects of another one: the longest such time, and whose.
function lag(region) {
  const links = state.overview.links.filter((link) => link.receiver === region.name && link.state !== "none");
  const worst = links.reduce((one, other) => (other.behind_ms > (one?.behind_ms ?? 0) ? other : one), null);
  return el("span", { class: "lag", title: "how old the oldest effect of another region is that is missing here, or how long nothing was heard of that region" },
    worst ? `lag ${seconds(worst.behind_ms)} behind ${worst.sender}` : "lag 0 s");
}

function pace({ rates }) {
  return [
    el("span", { class: "rate", title: "effects of commands in this region: entries, acknowledgements and so on" }, `writes ${perSecond(rates.issued)}`),
    el("span", { class: "rate", title: "effects of other regions that this region has taken, and their bytes" }, `takes in ${perSecond(rates.merged)}, ${bytes(rates.merged_bytes)}`),
  ];
}

function card(region) {
  const origins = Object.keys(state.overview.names);
  const lacks = Object.values(region.lacks).reduce((sum, count) => sum + count, 0);
  const cells = origins.map((origin) => {
    const missing = region.lacks[origin];
    const name = nameOf(origin);
    const has = region.vector[origin] ?? 0;
    const label = `${counted(has, "effect")} of ${name}` + (missing ? `, lacks ${missing}` : "");
    return el(
      "span",
      { class: `count hue-${hue(origin)}${missing ? " lacking" : ""}`, title: label },
      el("span", { class: "origin" }, name),
      ` ${has.toLocaleString("en")}`,
      missing ? el("b", {}, ` −${missing.toLocaleString("en")}`) : null,
    );
  });
  const apart = region.error ? null : apartFrom(region.name);
  const behind = lacks ? `lacks ${counted(lacks, "effect")}` : "lacks nothing that others have";
  return el(
    "li",
    { class: `card hue-${hue(region.region_id)}${apart ? " apart" : ""}`, "data-region": region.name },
    el("h3", {}, el("span", { class: "swatch", "aria-hidden": true }), region.name),
    el("p", { class: "state", "data-state": region.state }, region.state, apart ? `, ${apart[0]}` : ""),
    el("p", { class: "address" }, region.address),
    region.error
      ? el("p", { class: "problem" }, region.error)
      : el("p", { class: "vector", title: "effects applied here, by the region that issued them" },
          el("span", { class: "unseen" }, "applied: "), ...cells),
    apart ? el("p", { class: "problem" }, apart[1]) : null,
    region.error ? null : el("p", { class: "note paces" }, lag(region), ...pace(region)),
    region.error ? null : el("p", { class: "note" },
      `${behind} · ${counted(region.entries, "entry", "entries")} · ${region.pending} pending`,
      region.tombstones ? ` · ${counted(region.tombstones, "tombstone")}` : "",
      region.waits_for ? ` · waits for ${region.waits_for}` : ""),
    region.problem ? el("p", { class: "problem" }, region.problem) : null,
  );
}

function render() {
  if (!state.overview) return;
  find("cards").replaceChildren(...state.overview.regions.map(card));
}

export function start() {
  on(["overview"], render);
}
