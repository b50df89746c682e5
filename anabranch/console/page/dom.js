// Makes elements. Texts are set as text, never as HTML.

// el("p", {class: "note", onclick: f}, "text", child, …): an element. `null` children are left out.
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// The same for an element of a drawing.
export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") Object.entries(value).forEach(([k, v]) => node.style.setProperty(k, v));
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const find = (id) => document.getElementById(id);

// A key as it is shown: the beginning of a long name, without the hash of a handle (keys.py).
export function shortKey(name) {
  const text = name.replace(/^\\#[0-9a-f]+ /, "");
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
}

// The time of a clock, as 14:05:09.250; with the day if it is not today. `isFine`: with the part of a
// second.
export function clock(ms, isFine = true) {
  const at = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const exact = isFine ? `${time}.${String(at.getMilliseconds()).padStart(3, "0")}` : time;
  if (at.toDateString() === new Date().toDateString()) return exact;
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${exact}`;
}

// Entry IDs begin with a time (Unix, ms), unless a client has chosen them. Other numbers are no time.
const TIMES = [Date.UTC(2000, 0), Date.UTC(2200, 0)];

// The time in an entry ID, as `clock` shows it; "" if it has none.
export function timeOf(id) {
  const ms = Number(id.split("-")[0]);
  return ms >= TIMES[0] && ms < TIMES[1] ? clock(ms) : "";
}

// How long something lasts, as 12 s, 2 min 5 s or 3 h 7 min.
export function lasting(seconds) {
  const [whole, minutes, hours] = [Math.floor(seconds), Math.floor(seconds / 60), Math.floor(seconds / 3600)];
  if (minutes < 1) return `${whole} s`;
  return hours < 1 ? `${minutes} min ${whole % 60} s` : `${hours} h ${minutes % 60} min`;
}

// Names as a list in a sentence.
export function listed(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : (names[0] ?? "");
}

export function counted(count, noun, nouns = noun + "s") {
  return `${count.toLocaleString("en")} ${count === 1 ? noun : nouns}`;
}

// The value of a name that a user chose, such as a group; undefined for names of Object.prototype.
export function own(values, name) {
  return values && Object.hasOwn(values, name) ? values[name] : undefined;
}

// What this page keeps in the browser. A browser may refuse that, or have no room.
export function kept(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

export function keep(name, text) {
  try {
    localStorage.setItem(name, text);
  } catch {
    // It holds for this visit alone.
  }
}
