// Dark, light, or as the system has it.

import { find, keep, kept } from "./dom.js";

const THEMES = ["system", "light", "dark"];

function apply(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  find("theme").textContent = `Theme: ${theme}`;
}

export function start() {
  let theme = kept("anabranch-theme") ?? "system";
  if (!THEMES.includes(theme)) theme = "system";
  apply(theme);
  find("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    keep("anabranch-theme", theme);
    apply(theme);
  });
}
