/** What the page knows. Whoever changes it calls `changed`, and the page is drawn anew once a frame. */

import { latestFirst, loadChats, loadSettings, saveChat, saveSettings } from "./store.js";

/** Whether chats and conversation have room side by side, as the style sheets see it. */
export const isWide = () => matchMedia("(min-width: 800px)").matches;

export const state = {
  chats: loadChats(), // the latest first
  current: null, // id of the open chat; null for one that is not there yet
  settings: loadSettings(), // what the server is to be told; all else is the server's default
  runs: new Map(), // answers on their way, by the chat's id
  server: { status: "ok", seconds: 0, refusedKey: false, model: null, restarts: null },
  notice: null, // {text, action, act}: a sentence to the user, perhaps with a button
  editing: null, // id of the message that is being edited
  sidebar: isWide(),
  settingsOpen: false,
  search: "",
};

const listeners = new Set();
let scheduled = false;

/** Have the page drawn anew. */
export function changed() {
  if (scheduled) return;
  scheduled = true;
  // A hidden tab gets no frames, but its title and its answers go on.
  const later = document.hidden ? (draw) => setTimeout(draw, 250) : requestAnimationFrame;
  later(() => {
    scheduled = false;
    for (const listener of listeners) listener();
  });
}

/** Change fields of the state, and draw. */
export function set(fields) {
  Object.assign(state, fields);
  changed();
}

/** Change what is known of the server, and draw. */
export function setServer(fields) {
  set({ server: { ...state.server, ...fields } });
}

export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const chatById = (id) => state.chats.find((chat) => chat.id === id);
export const currentChat = () => chatById(state.current);

/** Put a chat, or a newer state of it, among the others without keeping it yet. */
export function putChat(chat) {
  set({ chats: latestFirst([chat, ...state.chats.filter((other) => other.id !== chat.id)]) });
}

const NO_ROOM =
  "The browser has no room left: what is new is lost when you leave the page. " +
  "Export chats, then delete some.";

/** Have the browser keep a chat, and say so when it cannot. */
export function keepChat(chat) {
  if (!saveChat(chat)) set({ notice: { text: NO_ROOM } });
}

/** Use settings from now on, and have the browser keep them. */
export function keepSettings(settings) {
  set({ settings });
  if (!saveSettings(settings)) set({ notice: { text: NO_ROOM } });
}
