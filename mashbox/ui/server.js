/** The server's state, and waiting for a better one. */

import { Refusal, getJson, health } from "./api.js";
import { set, setServer, state } from "./state.js";
import { loadKey, saveKey } from "./store.js";

const POLL_MS = 1000;
let keyGiven = Promise.withResolvers();

/** Learn which model runs, waiting for it and for a key as long as that takes. */
export async function meetServer() {
  await untilReady();
  try {
    const { data } = await getJson("v1/models");
    setServer({ model: data[0], status: "ok", refusedKey: false });
  } catch (error) {
    if (error instanceof Refusal && error.status === 401) await untilKey();
    else await pause(POLL_MS);
    await meetServer();
  }
}

/** Learn anew which model runs when an answer comes from another one than before. */
export function meetModel(id) {
  const { model } = state.server;
  if (!id || !model || model.id === id) return;
  setServer({ model: null });
  meetServer();
}

/** Wait until the server can answer; tells meanwhile whether it loads or is out of reach. */
export async function untilReady(signal) {
  for (;;) {
    const found = await health(signal);
    if (found?.status === "ok") {
      tellRestart(found);
      break;
    }
    setServer({ status: found ? "loading" : "offline" });
    await pause(POLL_MS, signal);
  }
  if (["loading", "offline"].includes(state.server.status)) setServer({ status: "ok" });
}

/** Wait out a fault: a moment at least, for a server that is well may fail again. */
export async function untilRecovered(signal) {
  await pause(POLL_MS, signal);
  await untilReady(signal);
}

/** Say so when the model has been started anew since the page last looked. */
function tellRestart({ worker_restarts: restarts }) {
  const { restarts: known } = state.server;
  if (known !== null && restarts > known) {
    set({ notice: { text: "The model stopped by a fault and was started again." } });
  }
  if (restarts !== known) setServer({ restarts });
}

/** Wait until the user has given a key. */
export async function untilKey(signal) {
  setServer({ status: "key", refusedKey: loadKey() !== "" });
  await Promise.race([keyGiven.promise, aborted(signal)]);
}

/** Use a key from now on. */
export function giveKey(key) {
  saveKey(key);
  setServer({ status: "ok" });
  keyGiven.resolve();
  keyGiven = Promise.withResolvers();
}

/** Wait for a place in the queue, counting the seconds down. */
export async function countDown(seconds, signal) {
  try {
    for (let left = seconds; left > 0; left -= 1) {
      setServer({ status: "busy", seconds: left });
      await pause(1000, signal);
    }
  } finally {
    setServer({ status: "ok" });
  }
}

function pause(ms, signal) {
  let timer;
  const passed = new Promise((resolve) => (timer = setTimeout(resolve, ms)));
  return Promise.race([passed, aborted(signal)]).finally(() => clearTimeout(timer));
}

/** Fails when the signal is given; without a signal never ends. */
function aborted(signal) {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}
