// Requests to the console's server. Each carries the token of the page.

const meta = document.querySelector('meta[name="token"]');
export const canWrite = document.body.dataset.mode === "writes";

// A name for this page, by which the server keeps its connections for the command line.
export const session = Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) =>
  byte.toString(16).padStart(2, "0"),
).join("");

export class ApiError extends Error {}

export async function get(name, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(clean(parameters));
  return answer(`/api/${name}?${query}`, { signal });
}

// `keepalive`: the request is sent also if the page is left meanwhile.
export async function post(name, body, keepalive = false) {
  return answer(`/api/${name}`, {
    method: "POST",
    keepalive,
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
}

export function liveUrl(parameters) {
  return `/api/live?${new URLSearchParams({ ...clean(parameters), token: meta.content })}`;
}

// The address of an image; a browser sends no header of ours for it.
export function imageUrl(name, parameters) {
  return `/api/${name}?${new URLSearchParams({ ...clean(parameters), token: meta.content })}`;
}

// The token that opened the page is of no use any more, and must not be copied with the address.
export function hideToken() {
  if (location.search) history.replaceState(null, "", location.pathname + location.hash);
}

// After a restart the server has another token, which a fresh copy of the page tells. A server that
// does not know this browser tells none, and refuses its requests with what to do.
export async function renewToken() {
  const response = await fetch("/", { cache: "no-store" });
  const found = /<meta name="token" content="([\w-]+)">/.exec(await response.text());
  if (found) meta.content = found[1];
}

function clean(parameters) {
  return Object.fromEntries(
    Object.entries(parameters).filter(([, value]) => value !== undefined && value !== ""),
  );
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, {
      ...options,
      headers: { ...options.headers, "x-anabranch-token": meta.content },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("the console does not answer: does `anabranch console` still run?");
  }
  const body = await response.json().catch((error) => {
    // A request can be given up after its head has come.
    if (error.name === "AbortError") throw error;
    return { error: response.statusText };
  });
  if (!response.ok) throw new ApiError(body.error || `the console answered ${response.status}`);
  return body;
}
