// One card for each region: its state, the effects that it has applied, and those that it lacks.

import { counted, el, find } from "./dom.js";
import { hue, nameOf, on, state } from "./store.js";

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
  const behind = lacks ? `lacks ${counted(lacks, "effect")}` : "lacks nothing that others have";
  return el(
    "li",
    { class: `card hue-${hue(region.region_id)}`, "data-region": region.name },
    el("h3", {}, el("span", { class: "swatch", "aria-hidden": true }), region.name),
    el("p", { class: "state", "data-state": region.state }, region.state),
    el("p", { class: "address" }, region.address),
    region.error
      ? el("p", { class: "problem" }, region.error)
      : el("p", { class: "vector", title: "effects applied here, by the region that issued them" },
          el("span", { class: "unseen" }, "applied: "), ...cells),
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
