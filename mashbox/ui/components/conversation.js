/** The messages of the open chat, scrolled along with an answer as long as its end is in sight. */

import { copyCode } from "../clipboard.js";
import { branch, versionsIn } from "../chats.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor.js";
import { Icon } from "./icons.js";
import { Message } from "./message.js";

const NEAR_PX = 40;

export function Conversation({ chat, editing, run, model }) {
  const { scroller, stuck, onScroll, jump } = useStickyEnd(chat?.id);
  const messages = chat ? branch(chat) : [];
  const versions = chat && versionsIn(chat);
  const shown = (node) => ({
    node: run?.node.id === node.id ? run.node : node,
    place: versions(node).indexOf(node),
    count: versions(node).length,
    isLast: node.id === chat.leaf,
    editing: editing === node.id,
    run: run?.node.id === node.id ? run : null,
    busy: Boolean(run),
  });
  return html`<div class="scroller" ref=${scroller} onScroll=${onScroll} tabindex="0">
      <div
        class="column log"
        role="log"
        aria-label="Conversation"
        aria-live="off"
        aria-busy=${Boolean(run)}
        onClick=${copyCode}
      >
        ${messages.map((node) => html`<${Message} key=${node.id} ...${shown(node)} />`)}
      </div>
      ${!messages.length && html`<${Welcome} model=${model} />`}
    </div>
    ${
      !stuck &&
      html`<div class="jump">
        <button type="button" aria-label="Jump to latest" title="Jump to latest" onClick=${jump}>
          <${Icon} name="down" />
        </button>
      </div>`
    }`;
}

function Welcome({ model }) {
  const tokens = model?.max_model_len.toLocaleString("en");
  return html`<div class="welcome">
    <h2>What shall we talk about?</h2>
    <p>
      ${model && html`<strong>${model.id}</strong> runs on this server, with room for ${tokens} tokens.`}
    </p>
    <p class="keys">
      <kbd>Enter</kbd> send <kbd>Shift Enter</kbd> new line <kbd>Esc</kbd> stop
      <kbd>Ctrl K</kbd> search
    </p>
  </div>`;
}

/** Keep the end in sight, unless the user has scrolled away from it. */
function useStickyEnd(chatId) {
  const scroller = useRef(null);
  const top = useRef(0);
  const sticky = useRef(true);
  const [stuck, setStuck] = useState(true);
  const stick = (value) => {
    sticky.current = value;
    setStuck(value);
  };
  const toEnd = () => {
    scroller.current.scrollTop = scroller.current.scrollHeight;
  };
  const onScroll = ({ target }) => {
    const isNear = target.scrollHeight - target.scrollTop - target.clientHeight < NEAR_PX;
    // Only an upward move is the user's: growing text leaves the end behind by itself.
    if (isNear) stick(true);
    else if (target.scrollTop < top.current) stick(false);
    top.current = target.scrollTop;
  };
  useLayoutEffect(() => {
    stick(true);
    const observer = new ResizeObserver(() => sticky.current && toEnd());
    observer.observe(scroller.current);
    observer.observe(scroller.current.firstElementChild);
    return () => observer.disconnect();
  }, [chatId]);
  const jump = () => {
    stick(true);
    toEnd();
  };
  return { scroller, stuck, onScroll, jump };
}
