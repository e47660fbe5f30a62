/** The list of chats. */

import { exportChats, importChats, open, remove, rename } from "../actions.js";
import { matches } from "../chats.js";
import { isComposing } from "../keys.js";
import { set } from "../state.js";
import { html, useLayoutEffect, useRef, useState } from "../vendor.js";
import { Icon, IconButton } from "./icons.js";
import { memo } from "./memo.js";

/** Searches all chats: not to be done for each piece of an answer. */
export const Sidebar = memo(({ chats, current, search, runs }) => {
  const found = search.trim() ? chats.filter((chat) => matches(chat, search)) : chats;
  const none = search.trim() ? "No chat has these words." : "Chats will be listed here.";
  const item = (chat) =>
    html`<${Item}
      key=${chat.id}
      chat=${chat}
      isOpen=${chat.id === current}
      running=${runs.has(chat.id)}
    />`;
  return html`<aside class="sidebar" aria-label="Chats and search">
    <div class="sidebar-head">
      <span class="brand">mashbox</span>
      <${IconButton} icon="menu" label="Hide chats" onClick=${() => set({ sidebar: false })} />
    </div>
    <button
      type="button"
      class="button new-chat"
      title="New chat (Ctrl+Shift+O)"
      onClick=${() => open(null)}
    >
      <${Icon} name="plus" />New chat
    </button>
    <div class="search">
      <${Icon} name="search" /><input
        id="search"
        type="text"
        aria-label="Search chats"
        placeholder="Search"
        autocomplete="off"
        value=${search}
        onInput=${(event) => set({ search: event.target.value })}
        onKeyDown=${clearOnEscape}
      />
    </div>
    <nav aria-label="Chats">
      <ul>
        ${found.map(item)}
      </ul>
      ${!found.length && html`<p class="none">${none}</p>`}
    </nav>
    <${Files} any=${chats.length > 0} />
  </aside>`;
});

function clearOnEscape(event) {
  if (event.key !== "Escape" || isComposing(event)) return;
  event.preventDefault();
  set({ search: "" });
}

function Item({ chat, isOpen, running }) {
  const [naming, setNaming] = useState(false);
  if (naming) return html`<li><${TitleField} chat=${chat} close=${() => setNaming(false)} /></li>`;
  return html`<li class=${isOpen ? "open" : ""}>
    <button
      type="button"
      class="title"
      dir="auto"
      title=${chat.title}
      aria-current=${isOpen ? "page" : null}
      onClick=${() => open(chat.id)}
    >
      ${chat.title}
    </button>
    ${running && html`<span class="running" title="An answer is on its way" />`}
    <span class="item-actions">
      <${IconButton} icon="edit" label="Rename chat" onClick=${() => setNaming(true)} />
      <${IconButton} icon="trash" label="Delete chat" onClick=${() => remove(chat.id)} />
    </span>
  </li>`;
}

function TitleField({ chat, close }) {
  const field = useRef(null);
  useLayoutEffect(() => field.current.select(), []);
  const save = ({ target }) => {
    if (target.value.trim()) rename(chat.id, target.value);
    close();
  };
  const keys = (event) => {
    if (!["Enter", "Escape"].includes(event.key) || isComposing(event)) return;
    event.preventDefault();
    if (event.key === "Escape") event.target.value = "";
    event.target.blur();
  };
  return html`<input
    class="title-field"
    type="text"
    aria-label="Chat title"
    ref=${field}
    defaultValue=${chat.title}
    onKeyDown=${keys}
    onBlur=${save}
  />`;
}

function Files({ any }) {
  const field = useRef(null);
  const choose = async ({ target }) => {
    if (target.files.length) await importChats(target.files[0]);
    target.value = "";
  };
  return html`<div class="files">
    <button type="button" class="button quiet" onClick=${() => field.current.click()}>
      <${Icon} name="upload" />Import
    </button>
    <button type="button" class="button quiet" disabled=${!any} onClick=${exportChats}>
      <${Icon} name="download" />Export
    </button>
    <input type="file" hidden accept="application/json,.json" ref=${field} onChange=${choose} />
  </div>`;
}
