/** What the user should know now: the server's state, and notices. */

import { giveKey } from "../server.js";
import { set } from "../state.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor.js";
import { IconButton } from "./icons.js";

const TEXTS = {
  loading: () => "Loading the model…",
  busy: ({ seconds }) => `The queue is full, trying again in ${seconds} s`,
  offline: () => "The server is out of reach",
};

export function Banner({ server, notice }) {
  const text = TEXTS[server.status]?.(server);
  return html`<div>
    <div role="status">
      ${text && html`<p class="banner ${server.status}">${text}</p>`}
      ${
        notice &&
        html`<div class="banner notice">
          <span>${notice.text}</span>
          ${
            notice.action &&
            html`<button type="button" class="button" onClick=${notice.act}>
              ${notice.action}
            </button>`
          }
          <${IconButton} icon="close" label="Dismiss" onClick=${() => set({ notice: null })} />
        </div>`
      }
    </div>
    ${server.status === "key" && html`<${KeyForm} refused=${server.refusedKey} />`}
  </div>`;
}

function KeyForm({ refused }) {
  const [key, setKey] = useState("");
  const field = useRef(null);
  useLayoutEffect(() => {
    // What is being written elsewhere must not end up in here.
    if (!document.activeElement?.value) field.current.focus();
  }, []);
  const use = (event) => {
    event.preventDefault();
    if (key.trim()) giveKey(key.trim());
  };
  return html`<form class="banner key-form" onSubmit=${use}>
    <label
      >${refused ? "The server does not know this key. Give another one." : "This server asks for a key."}
      <input
        type="password"
        aria-label="API key"
        autocomplete="off"
        ref=${field}
        value=${key}
        onInput=${(event) => setKey(event.target.value)}
      />
    </label>
    <button type="submit" class="button primary" disabled=${!key.trim()}>Use key</button>
  </form>`;
}
