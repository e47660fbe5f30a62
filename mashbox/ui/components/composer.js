/** Where the next message is written. */

import { editLast, isRunning, say, stopHere } from "../actions.js";
import { isComposing } from "../keys.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor.js";
import { Icon } from "./icons.js";

export function Composer({ chatId, running, editing }) {
  const [text, setText] = useState("");
  const area = useRef(null);
  useLayoutEffect(() => fit(area.current), [text]);
  useLayoutEffect(() => {
    // On a phone the keyboard would come up and hide the chat.
    if (!editing && matchMedia("(hover: hover)").matches) area.current.focus();
  }, [chatId, editing]);
  const send = (event) => {
    event.preventDefault();
    if (!text.trim() || isRunning()) return;
    say(text);
    setText("");
  };
  const keys = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !isComposing(event)) send(event);
    if (event.key === "ArrowUp" && !text) {
      event.preventDefault();
      editLast();
    }
  };
  return html`<form class="composer column" onSubmit=${send}>
    <div class="composer-box">
      <textarea
        ref=${area}
        rows="1"
        dir="auto"
        enterkeyhint="send"
        aria-label="Message"
        placeholder="Write a message"
        value=${text}
        onInput=${(event) => setText(event.target.value)}
        onKeyDown=${keys}
      />
      ${
        running
          ? html`<button
              type="button"
              class="round stop"
              aria-label="Stop"
              title="Stop (Esc)"
              onClick=${stopHere}
            >
              <${Icon} name="stop" />
            </button>`
          : html`<button
              type="submit"
              class="round"
              aria-label="Send"
              title="Send (Enter)"
              disabled=${!text.trim()}
            >
              <${Icon} name="send" />
            </button>`
      }
    </div>
    <p class="hint">Models make mistakes. Chats stay in this browser.</p>
  </form>`;
}

/** As high as its text; the style sheet says how high at most. */
function fit(area) {
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}
