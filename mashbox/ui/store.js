/** What the browser keeps: one entry of localStorage for each chat, one for the settings. */

import { newId, showing, titleOf } from "./chats.js";

const CHAT = "mashbox.chat.";
const SETTINGS = "mashbox.settings";
const KEY = "mashbox.key";
const TEXTS = ["system", "thinking", "tools"];
const FORMAT = "mashbox-chats";

/** Stands in where the browser allows no storage: a reload empties it. */
class Memory {
  getItem(key) {
    return this[key] ?? null;
  }
  setItem(key, value) {
    this[key] = value;
  }
  removeItem(key) {
    delete this[key];
  }
}

function storage(name) {
  try {
    return window[name];
  } catch {
    return new Memory();
  }
}

const browser = storage("localStorage");
const tab = storage("sessionStorage");

/** All chats, the latest first; entries that are none are passed over. */
export function loadChats() {
  const keys = Object.keys(browser).filter((key) => key.startsWith(CHAT));
  return latestFirst(keys.map((key) => readKept(browser.getItem(key))).filter(Boolean));
}

export const latestFirst = (chats) => chats.toSorted((a, b) => b.updated - a.updated);

/** Keep a chat; false when the browser has no room for it. */
export function saveChat(chat) {
  return save(CHAT + chat.id, chat);
}

export function dropChat(id) {
  browser.removeItem(CHAT + id);
}

/** The id of the chat that an entry is for; empty when it is for something else. */
export const idInKey = (key) => (key.startsWith(CHAT) ? key.slice(CHAT.length) : "");

/** The chat that an entry holds; null when it is none. */
export const readKept = (text) => readChat(parse(text));

/** The settings, each in its type. */
export function loadSettings() {
  const found = parse(browser.getItem(SETTINGS));
  if (!isObject(found)) return {};
  const isRight = ([name, value]) => typeof value === (TEXTS.includes(name) ? "string" : "number");
  return Object.fromEntries(Object.entries(found).filter(isRight));
}

export const saveSettings = (settings) => save(SETTINGS, settings);

// A key is forgotten with its tab, and never stands beside what is exported.
export const loadKey = () => tab.getItem(KEY) ?? "";
export const saveKey = (key) => tab.setItem(KEY, key);

function save(key, value) {
  try {
    browser.setItem(key, JSON.stringify(value));
    return true;
  } catch (error) {
    if (error.name === "QuotaExceededError") return false;
    throw error;
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Write chats as a file's text. */
export function exported(chats) {
  return JSON.stringify({ format: FORMAT, version: 1, chats }, null, 1);
}

/** Read a file's text; throws an Error that says what is wrong. Ids are new: nothing is overwritten. */
export function imported(text) {
  const file = parse(text);
  if (file?.format !== FORMAT || !Array.isArray(file.chats)) {
    throw new Error("This file holds no exported chats. Choose one that Export has written.");
  }
  const chats = file.chats.map(readChat);
  if (chats.includes(null))
    throw new Error("A chat in this file is damaged; nothing was imported.");
  return chats.map((chat) => ({ ...chat, id: newId() }));
}

/** Take from a value what a chat consists of, each field in its type; null when it is no chat. */
function readChat(value) {
  if (!isObject(value) || typeof value.id !== "string" || !isObject(value.nodes)) return null;
  const nodes = {};
  for (const [id, node] of Object.entries(value.nodes)) {
    if (!isObject(node) || !["user", "assistant", "tool"].includes(node.role)) return null;
    nodes[id] = readNode(id, node);
  }
  const leaf = hasBranch(nodes, value.leaf) ? value.leaf : null;
  const chat = {
    id: value.id,
    title: titleOf(text(value.title)),
    created: date(value.created),
    updated: date(value.updated),
    leaf,
    nodes,
  };
  // Another tab may have gone on below the end that this one knew of.
  return showing(chat, leaf);
}

function readNode(id, node) {
  const calls = Array.isArray(node.calls) ? node.calls.filter(isObject) : [];
  return {
    id,
    parent: typeof node.parent === "string" ? node.parent : null,
    role: node.role,
    content: text(node.content),
    reasoning: text(node.reasoning),
    thoughtMs: number(node.thoughtMs),
    calls: calls.map((c) => ({ id: text(c.id), name: text(c.name), arguments: text(c.arguments) })),
    call: text(node.call),
    // Without an end it was broken off with its page, or comes in another tab, which tells soon.
    finish: text(node.finish) || (node.role === "assistant" ? "stopped" : ""),
    error: text(node.error),
    timings: isObject(node.timings) ? readTimings(node.timings) : null,
  };
}

const TIMINGS = ["predicted_n", "predicted_per_second", "cache_n", "queue_ms", "prompt_ms"];
const readTimings = (timings) =>
  Object.fromEntries(TIMINGS.map((name) => [name, number(timings[name])]));

/** Whether a leaf leads up to a first message: in a file it may lead nowhere, or round and round. */
function hasBranch(nodes, leaf) {
  const seen = new Set();
  for (let id = leaf; id !== null; id = nodes[id].parent) {
    if (!Object.hasOwn(nodes, id) || seen.has(id)) return false;
    seen.add(id);
  }
  return seen.size > 0;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const text = (value) => (typeof value === "string" ? value : "");
const number = (value) => (Number.isFinite(value) ? value : 0);
// What is dated ahead would stay above all that comes.
const date = (value) => Math.min(number(value), Date.now());
