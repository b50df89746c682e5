// The events of the server. A hidden page is not connected, so it costs nothing.

import { liveUrl, renewToken } from "./api.js";
import { askedRegions, on, set, state } from "./store.js";

const RETRY_MS = 1000;
let source = null;
let wanted = "";
let retry = 0;

function parameters() {
  return {
    key: state.past ? "" : state.key,
    regions: askedRegions().join(","),
    before: state.before,
    filter: state.filter,
  };
}

function connect() {
  source?.close();
  clearTimeout(retry);
  wanted = JSON.stringify(parameters());
  source = new EventSource(liveUrl(parameters()));
  const mine = source;
  for (const name of ["overview", "stream", "keys"]) {
    source.addEventListener(name, (event) => {
      if (source !== mine) return;
      performance.mark(`anabranch-${name}`);
      set({ [name]: JSON.parse(event.data), connection: "live" });
    });
  }
  source.onerror = () => {
    if (source !== mine) return;
    source.close();
    set({ connection: "lost" });
    retry = setTimeout(() => renewToken().then(connect, connect), RETRY_MS);
    // A console that was started again knows no handle of a long key until it lists the keys.
    if (state.key.startsWith("\\#")) set({ key: "", before: "", stream: null });
  };
}

// Connects anew if another window, other views or another filter are wanted.
function refresh() {
  if (document.hidden || JSON.stringify(parameters()) === wanted) return;
  connect();
}

export function start() {
  connect();
  on(["key", "views", "before", "filter", "past", "overview"], refresh);
  window.addEventListener("resize", refresh);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return connect();
    source?.close();
    clearTimeout(retry);
    set({ connection: "hidden" });
  });
}
