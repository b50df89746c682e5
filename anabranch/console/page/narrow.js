// A narrow page, such as that of a phone: the stream comes first, and a row of buttons leads to the
// other parts.

import { el, find } from "./dom.js";

const narrow = matchMedia("(max-width: 700px)");
const PARTS = [["stream", "Stream"], ["side", "Details"], ["regions", "Regions"], ["command", "Command line"]];

// Brings a part of a narrow page before the reader's eyes.
export function show(id) {
  if (narrow.matches) find(id).scrollIntoView({ block: "start" });
}

// The order of the parts is that of the document, so that the Tab key follows the eye.
function arrange() {
  if (narrow.matches) find("work").after(find("regions"));
  else find("work").before(find("regions"));
}

export function start() {
  find("jump").replaceChildren(...PARTS.map(([id, name]) => el("button", { type: "button", class: "chip", onclick: () => show(id) }, name)));
  arrange();
  narrow.addEventListener("change", arrange);
}
