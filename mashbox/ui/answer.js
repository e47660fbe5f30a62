/** One answer from its request to its end: waiting, streaming, stopping. */

import { OutOfReach, streamChat } from "./api.js";
import { branch, newMessage, withNode } from "./chats.js";
import { requestBody } from "./request.js";
import { countDown, meetModel, untilKey, untilReady, untilRecovered } from "./server.js";
import { changed, chatById, keepChat, putChat, set, state } from "./state.js";

const KEEP_MS = 2000;

/** Answer the message that a chat ends with. */
export async function answer(chatId) {
  const chat = chatById(chatId);
  const run = new Run(chat);
  set({ runs: new Map(state.runs).set(chatId, run) });
  run.keep();
  try {
    await run.stream(requestBody(state.settings, branch(chat)));
  } catch (error) {
    if (error.name !== "AbortError") run.fail(error);
    else run.finish("stopped");
  } finally {
    run.close();
    set({ runs: new Map([...state.runs].filter(([id]) => id !== chatId)) });
  }
}

/** Stop the answer of a chat, if one is on its way. */
export function stop(chatId) {
  state.runs.get(chatId)?.controller.abort();
}

/** Stop all answers at once and keep them: the page is being left. */
export function stopAll() {
  for (const run of state.runs.values()) {
    run.finish("stopped");
    run.close();
  }
}

/** An answer on its way: the message so far, of which its chat has what was last kept, and its pace. */
class Run {
  constructor(chat) {
    this.chatId = chat.id;
    this.controller = new AbortController();
    this.pieces = 0;
    this.firstPiece = null;
    this.node = newMessage("assistant", chat.leaf);
    this.kept = performance.now();
  }

  /** Pieces a second, which are about tokens; null until that means something. */
  get rate() {
    const seconds = (performance.now() - this.firstPiece) / 1000;
    return this.pieces > 4 && seconds > 0.3 ? (this.pieces - 1) / seconds : null;
  }

  async stream(body) {
    const { signal } = this.controller;
    for await (const chunk of patiently(() => streamChat(body, signal), signal)) this.read(chunk);
  }

  /** Take what a chunk brings; throws an Error when it brings the stream's failure. */
  read({ choices, timings, error, model }) {
    if (error) throw new Error(error.message);
    meetModel(model);
    const [choice] = choices;
    if (choice) {
      this.readDelta(choice.delta);
      if (choice.finish_reason) this.node = { ...this.node, finish: choice.finish_reason };
    }
    if (timings) this.node = { ...this.node, timings };
    changed();
    // Another tab may have deleted the chat.
    if (!chatById(this.chatId)) this.controller.abort();
    else if (performance.now() - this.kept > KEEP_MS) this.keep();
  }

  readDelta({ content, reasoning_content: thought, tool_calls: calls }) {
    if (!content && !thought && !calls) return;
    this.pieces += 1;
    this.firstPiece ??= performance.now();
    if (thought) this.node = { ...this.node, reasoning: this.node.reasoning + thought };
    else this.endThought();
    if (content) this.node = { ...this.node, content: this.node.content + content };
    for (const piece of calls ?? []) this.readCall(piece);
  }

  readCall({ index, id, function: piece = {} }) {
    const calls = [...this.node.calls];
    const call = calls[index] ?? { id, name: "", arguments: "" };
    calls[index] = {
      ...call,
      name: call.name + (piece.name ?? ""),
      arguments: call.arguments + (piece.arguments ?? ""),
    };
    this.node = { ...this.node, calls };
  }

  endThought() {
    if (!this.node.reasoning || this.node.thoughtMs) return;
    const thoughtMs = Math.max(1, Math.round(performance.now() - this.firstPiece));
    this.node = { ...this.node, thoughtMs };
  }

  fail(error) {
    this.node = { ...this.node, error: error.message };
    this.finish("error");
    // It may be gone, or be starting its model anew: the page says which.
    untilReady();
  }

  finish(finish) {
    this.node = { ...this.node, finish };
  }

  close() {
    this.endThought();
    this.keep();
    // Of a stream that could not be read, the rest is still open.
    this.controller.abort();
  }

  /** Put the message so far into its chat, unless that has been deleted. */
  keep() {
    const chat = chatById(this.chatId);
    if (chat) {
      const newer = withNode(chat, this.node);
      putChat(newer);
      keepChat(newer);
    }
    this.kept = performance.now();
  }
}

/** Stream; as long as nothing has come, wait out whatever passes and ask again. */
async function* patiently(stream, signal) {
  for (;;) {
    let begun = false;
    try {
      for await (const chunk of stream()) {
        begun = true;
        yield chunk;
      }
      return;
    } catch (error) {
      if (begun || !(await waitedOut(error, signal))) throw error;
    }
  }
}

/** Wait until what an error tells of is over; false when waiting does not help. */
async function waitedOut(error, signal) {
  if (error instanceof OutOfReach || error.status === 503) await untilRecovered(signal);
  else if (error.status === 429) await countDown(error.retryAfter, signal);
  else if (error.status === 401) await untilKey(signal);
  else return false;
  return true;
}
