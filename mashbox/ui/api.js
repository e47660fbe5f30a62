/** The server's API: JSON answers, refusals as exceptions, and event streams piece by piece. */

import { loadKey } from "./store.js";

/** The server answered, and not as asked. */
export class Refusal extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** The server did not answer, or stopped in the middle. */
export class OutOfReach extends Error {}

/** Get a JSON document; throws Refusal or OutOfReach. */
export async function getJson(path, signal) {
  const response = await send(path, { signal });
  return read(() => response.json());
}

/** The Health object, or null while the server is out of reach. */
export async function health(signal) {
  try {
    const response = await fetch("health", { signal, cache: "no-store" });
    return await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    return null;
  }
}

/** Stream an answer, chunk by chunk; throws Refusal, OutOfReach, or an Error for what is no answer. */
export async function* streamChat(body, signal) {
  const response = await send("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await read(() => reader.read());
    if (done) throw new OutOfReach("The connection ended before the answer did.");
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const data of events.map(dataOf)) {
      if (data === "[DONE]") return;
      if (data) yield chunkOf(data);
    }
  }
}

function chunkOf(data) {
  try {
    const chunk = JSON.parse(data);
    if (chunk.error || Array.isArray(chunk.choices)) return chunk;
  } catch {
    // Neither is what it should be.
  }
  throw new Error("The server sent something that is no answer. Ask again.");
}

/** The data of an event; empty for a comment that keeps the connection alive. */
function dataOf(event) {
  return event.startsWith("data: ") ? event.slice("data: ".length) : "";
}

async function send(path, options) {
  const key = loadKey();
  const headers = { ...options.headers, ...(key && { Authorization: `Bearer ${key}` }) };
  const response = await read(() => fetch(path, { ...options, headers, cache: "no-store" }));
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const message = body?.error?.message ?? `The server answered with status ${response.status}.`;
  throw new Refusal(response.status, message, Number(response.headers.get("Retry-After")) || 1);
}

async function read(step) {
  try {
    return await step();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new OutOfReach("The connection to the server was lost.");
  }
}
