// The panels beside the stream, one at a time. This is the door for further parts:
//
//   register({ id: "lessons", title: "Lessons", mount(panel) { … return () => { … }; } });
//
// `mount` fills the element `panel`, and may return a function that is called before the panel is
// left. A part reads the cluster from store.js (`on`, `state`), runs commands and changes links with
// api.js (`post("run", …)`, `post("link", …)`), and puts a command into the command line with
// prompt.js (`propose`). On the server, a part brings routes of its own (`Part` in app.py).

import { el, find } from "./dom.js";

const panels = new Map();
let opened = "";
let leave = null;

export function register(panel) {
  panels.set(panel.id, panel);
  renderTabs();
}

function renderTabs() {
  find("tabs").replaceChildren(...[...panels.values()].map((panel) => el("button", {
    type: "button", role: "tab", id: `tab-${panel.id}`, "aria-controls": "panel",
    "aria-selected": String(panel.id === opened), tabindex: panel.id === opened ? 0 : -1,
    onclick: () => open(panel.id),
  }, panel.title)));
}

export function open(id) {
  leave?.();
  opened = id;
  const hadFocus = find("tabs").contains(document.activeElement);
  renderTabs();
  if (hadFocus) find(`tab-${id}`).focus();
  find("panel").setAttribute("aria-labelledby", `tab-${id}`);
  find("panel").replaceChildren();
  leave = panels.get(id).mount(find("panel")) ?? null;
}

export const isOpen = (id) => opened === id;

export function start() {
  find("tabs").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const ids = [...panels.keys()];
    open(ids[(ids.indexOf(opened) + step + ids.length) % ids.length]);
    find(`tab-${opened}`).focus();
  });
}
