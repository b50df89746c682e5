// Starts the parts of the page. A part that follows is registered here, too (see panels.js).

import { canWrite, hideToken } from "./api.js";
import { counted, find } from "./dom.js";
import { on, state } from "./store.js";
import * as banner from "./banner.js";
import * as cards from "./cards.js";
import * as explain from "./explain.js";
import * as groups from "./groups.js";
import * as guide from "./guide.js";
import * as keys from "./keys.js";
import * as lessons from "./lessons.js";
import * as live from "./live.js";
import * as map from "./map.js";
import * as narrow from "./narrow.js";
import * as panels from "./panels.js";
import * as past from "./past.js";
import * as player from "./player.js";
import * as prompt from "./prompt.js";
import * as stream from "./stream.js";
import * as theme from "./theme.js";

const CONNECTIONS = {
  connecting: "connecting …",
  live: "live",
  lost: "connection to the console lost, trying again …",
  hidden: "paused",
};

function header() {
  const overview = state.overview;
  find("live").textContent = CONNECTIONS[state.connection];
  find("live").dataset.state = state.connection;
  find("mode").textContent = canWrite ? "" : "read-only";
  if (!overview) return;
  const up = overview.regions.filter((region) => !region.error).length;
  const total = overview.regions.length;
  const same = overview.divergence
    ? "DIVERGENCE: regions with equal vectors hold different data"
    : up === 0
    ? "nothing is known until a region answers"
    : overview.equal
      ? "all that answer have applied the same effects"
      : "effects are under way, or links are cut";
  find("cluster").textContent =
    `${overview.cluster || "cluster"} · ${up} of ${counted(total, "region")} answer · ${same}`;
}

hideToken();
theme.start();
narrow.start();
panels.start();
guide.register();
lessons.register();
player.register();
explain.register();
for (const part of [banner, cards, map, keys, stream, groups, past, prompt, explain, lessons]) part.start();
on(["overview", "connection"], header);
live.start();
panels.open("guide");
