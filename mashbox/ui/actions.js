/** What the user can do with chats. */

import { answer, stop } from "./answer.js";
import { branch, joined, newChat, newMessage, showing, titleOf, withNode } from "./chats.js";
import { chatById, currentChat, isWide, keepChat, putChat, set, state } from "./state.js";
import {
  dropChat,
  exported,
  idInKey,
  imported,
  latestFirst,
  loadChats,
  readKept,
  saveChat,
} from "./store.js";

/** Open a chat; null for a new one. */
export function open(id) {
  const narrow = !isWide();
  const address = id ? `#${id}` : location.pathname + location.search;
  if (id !== state.current) history.pushState(null, "", address);
  set({ current: id, editing: null, ...(narrow && { sidebar: false }) });
}

/** Open the chat that the address names, if it is there. */
export function openFromAddress() {
  const id = location.hash.slice(1);
  set({ current: chatById(id) ? id : null, editing: null });
}

/** Say something in the open chat, and have it answered. */
export function say(text) {
  const chat = currentChat() ?? newChat(text);
  ask(chat, chat.leaf, text);
  if (state.current !== chat.id) open(chat.id);
}

/** Say something else in a message's stead. */
export function sayInstead(node, text) {
  if (isRunning()) return;
  set({ editing: null });
  ask(currentChat(), node.parent, text);
}

function ask(chat, parent, text) {
  putChat(withNode(chat, newMessage("user", parent, text)));
  answer(chat.id);
}

/** Give the results of a message's calls, in their order, and have the answer go on. */
export function giveResults(node, results) {
  if (isRunning()) return;
  let chat = currentChat();
  for (const [index, { id }] of node.calls.entries()) {
    chat = withNode(chat, { ...newMessage("tool", chat.leaf, results[index]), call: id });
  }
  putChat(chat);
  answer(chat.id);
}

/** Have a question answered once more. */
export function regenerate(node) {
  if (isRunning()) return;
  const chat = currentChat();
  putChat({ ...chat, leaf: node.parent });
  answer(chat.id);
}

/** Show another version of a message. */
export function switchTo(id) {
  keep(showing(currentChat(), id));
}

export const isRunning = () => state.runs.has(state.current);
export const stopHere = () => stop(state.current);

/** Edit the last question of the open chat. */
export function editLast() {
  const chat = currentChat();
  const last = chat && branch(chat).findLast((node) => node.role === "user");
  if (last && !isRunning()) set({ editing: last.id });
}

export function rename(id, title) {
  const chat = chatById(id);
  keep({ ...chat, title: titleOf(title) });
}

/** Delete a chat; a notice offers to bring it back. */
export function remove(id) {
  const chat = chatById(id);
  const wasOpen = state.current === id;
  stop(id);
  dropChat(id);
  const undo = () => {
    keep(chat);
    set({ notice: null });
    if (wasOpen) open(id);
  };
  set({
    chats: state.chats.filter((other) => other.id !== id),
    notice: { text: `“${chat.title}” is deleted.`, action: "Undo", act: undo },
  });
  if (wasOpen) open(null);
}

function keep(chat) {
  putChat(chat);
  keepChat(chat);
}

/** Hand all chats to the user as a file. */
export function exportChats() {
  const url = URL.createObjectURL(new Blob([exported(state.chats)], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = `mashbox-chats-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  URL.revokeObjectURL(url);
}

/** Add the chats of a file to those that are here. */
export async function importChats(file) {
  try {
    const chats = imported(await file.text());
    const kept = chats.filter(saveChat).length;
    const lost = chats.length - kept;
    const room = lost
      ? ` The browser has no room for ${lost} more; they are lost with this page.`
      : "";
    set({
      chats: latestFirst([...state.chats, ...chats]),
      notice: { text: `${chats.length} ${chats.length === 1 ? "chat" : "chats"} imported.${room}` },
    });
  } catch (error) {
    set({ notice: { text: error.message } });
  }
}

/** Take over what another tab has kept or deleted: an answer that comes here goes on, or stops. */
export function takeOver({ key, newValue }) {
  if (key === null) return set({ chats: loadChats() });
  const id = idInKey(key);
  if (newValue === null) set({ chats: state.chats.filter((chat) => chat.id !== id) });
  const theirs = readKept(newValue);
  if (!id || theirs?.id !== id) return;
  const mine = chatById(id);
  putChat(mine ? joined(mine, theirs, state.runs.get(id)?.node) : theirs);
}
