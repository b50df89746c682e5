// A question to the reader, as a dialog.

import { el, find } from "./dom.js";

// Resolves to whether the reader says yes. Escape says no. `yes` and `no` are the words of the buttons.
export function ask(title, text, yes, no) {
  const box = find("ask");
  box.returnValue = "";
  box.replaceChildren(
    el("h2", { id: "ask-title" }, title),
    el("p", {}, text),
    el("form", { method: "dialog", class: "buttons" },
      el("button", { value: "yes", id: "ask-yes" }, yes),
      el("button", { value: "no", id: "ask-no", autofocus: true }, no)));
  box.showModal();
  return new Promise((resolve) => {
    box.addEventListener("close", () => resolve(box.returnValue === "yes"), { once: true });
  });
}
