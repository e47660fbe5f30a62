/** One message: what was said, thought and called, and what can be done with it. */

import { sayInstead, regenerate, switchTo } from "../actions.js";
import { SHOWN_MS, copy } from "../clipboard.js";
import { versionsIn } from "../chats.js";
import { curlOf } from "../curl.js";
import { isComposing } from "../keys.js";
import { currentChat, set } from "../state.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor.js";
import { IconButton } from "./icons.js";
import { Markdown } from "./markdown.js";
import { memo } from "./memo.js";
import { Thinking } from "./thinking.js";
import { Timings } from "./timings.js";
import { Results, ToolCall, ToolResult } from "./tools.js";

/** `run` is the answer on its way if this is it; `busy` that some answer of the chat is. */
export const Message = memo(({ node, place, count, isLast, editing, run, busy }) => {
  if (node.role === "tool") return html`<${ToolResult} node=${node} />`;
  const isUser = node.role === "user";
  const label = isUser ? "You" : "Assistant";
  return html`<article class="message ${node.role}" data-role=${node.role} aria-label=${label}>
    ${editing && html`<${Editor} node=${node} busy=${busy} />`}
    ${!editing && isUser && html`<${Said} text=${node.content} />`}
    ${!editing && !isUser && html`<${Answer} node=${node} run=${run} />`}
    ${isLast && !busy && node.calls.length > 0 && html`<${Results} node=${node} />`}
    ${!editing && !run && html`<${Actions} node=${node} place=${place} count=${count} busy=${busy} />`}
  </article>`;
});

const Said = ({ text }) => html`<div class="said" dir="auto">${text}</div>`;

function Answer({ node, run }) {
  const waiting = run && !node.content && !node.reasoning && !node.calls.length;
  return html`
    ${node.reasoning && html`<${Thinking} node=${node} running=${Boolean(run)} />`}
    ${node.content && html`<${Markdown} text=${node.content} />`}
    ${node.calls.map((call) => html`<${ToolCall} key=${call.id} call=${call} />`)}
    ${waiting && html`<div class="dots" aria-hidden="true"><i /><i /><i /></div>`}
    ${node.error && html`<p class="error" role="alert">${node.error}</p>`}
    <${Timings} node=${node} run=${run} />
  `;
}

function Actions({ node, place, count, busy }) {
  return html`<div class="actions">
    ${count > 1 && html`<${Versions} node=${node} place=${place} count=${count} busy=${busy} />`}
    <${CopyButton} icon="copy" label="Copy message" text=${() => node.content} />
    ${
      node.role === "user"
        ? html`<${IconButton}
            icon="edit"
            label="Edit message"
            disabled=${busy}
            onClick=${() => set({ editing: node.id })}
          />`
        : html`<${IconButton}
              icon="again"
              label="Regenerate"
              disabled=${busy}
              onClick=${() => regenerate(node)}
            />
            <${CopyButton} icon="terminal" label="Copy as curl" text=${() => curlOf(node)} />`
    }
  </div>`;
}

function CopyButton({ icon, label, text }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    const timer = done && setTimeout(() => setDone(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [done]);
  const click = async () => {
    await copy(text());
    setDone(true);
  };
  const shown = done ? { icon: "check", label: "Copied" } : { icon, label };
  return html`<${IconButton} ...${shown} onClick=${click} />`;
}

/** ‹ 2/3 ›: other questions in this one's place, or other answers to the same. */
function Versions({ node, place, count, busy }) {
  const go = (step) => switchTo(versionsIn(currentChat())(node)[place + step].id);
  return html`<span class="versions">
    <${IconButton}
      icon="left"
      label="Previous version"
      disabled=${busy || place === 0}
      onClick=${() => go(-1)}
    />
    <span>${place + 1}/${count}</span>
    <${IconButton}
      icon="right"
      label="Next version"
      disabled=${busy || place === count - 1}
      onClick=${() => go(1)}
    />
  </span>`;
}

function Editor({ node, busy }) {
  const [text, setText] = useState(node.content);
  const area = useRef(null);
  useLayoutEffect(() => {
    area.current.focus();
    area.current.setSelectionRange(text.length, text.length);
  }, []);
  const cancel = () => set({ editing: null });
  const save = (event) => {
    event.preventDefault();
    if (text.trim() && !busy) sayInstead(node, text);
  };
  const keys = (event) => {
    if (isComposing(event)) return;
    if (event.key === "Escape") {
      event.preventDefault();
      cancel();
    }
    if (event.key === "Enter" && !event.shiftKey) save(event);
  };
  return html`<form class="editor" onSubmit=${save}>
    <textarea
      aria-label="Edit message"
      dir="auto"
      ref=${area}
      rows=${Math.min(12, text.split("\n").length + 1)}
      value=${text}
      onInput=${(event) => setText(event.target.value)}
      onKeyDown=${keys}
    />
    <div class="editor-buttons">
      <button type="button" class="button" onClick=${cancel}>Cancel</button>
      <button type="submit" class="button primary" disabled=${busy || !text.trim()}>
        Save and send
      </button>
    </div>
  </form>`;
}
