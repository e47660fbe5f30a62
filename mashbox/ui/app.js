/** The chat page: puts its parts together, listens to keys, and meets the server. */

import { isRunning, open, openFromAddress, stopHere, takeOver } from "./actions.js";
import { stopAll } from "./answer.js";
import { Announcer } from "./components/announcer.js";
import { Banner } from "./components/banner.js";
import { Composer } from "./components/composer.js";
import { Conversation } from "./components/conversation.js";
import { IconButton } from "./components/icons.js";
import { Settings } from "./components/settings.js";
import { Sidebar } from "./components/sidebar.js";
import { isComposing } from "./keys.js";
import { meetServer } from "./server.js";
import { currentChat, onChange, set, state } from "./state.js";
import { html, render, useEffect, useReducer } from "./vendor.js";

function App() {
  const [, draw] = useReducer((count) => count + 1, 0);
  useEffect(() => onChange(draw), []);
  const { server, settings, chats, current, search, runs } = state;
  const chat = currentChat();
  const run = runs.get(current);
  const title = chat ? `${chat.title} · mashbox` : "mashbox";
  useEffect(() => {
    document.title = title;
  }, [title]);
  return html`<div class=${state.sidebar ? "page with-sidebar" : "page"}>
    ${
      state.sidebar &&
      html`<${Sidebar} chats=${chats} current=${current} search=${search} runs=${runs} />
        <button
          type="button"
          class="shade"
          aria-label="Close chats"
          tabindex="-1"
          onClick=${() => set({ sidebar: false })}
        />`
    }
    <main>
      <${Header} chat=${chat} model=${server.model} sidebar=${state.sidebar} />
      <${Banner} server=${server} notice=${state.notice} />
      <${Conversation} chat=${chat} editing=${state.editing} run=${run} model=${server.model} />
      <${Composer} chatId=${current} running=${Boolean(run)} editing=${state.editing} />
    </main>
    <${Settings} settings=${settings} isOpen=${state.settingsOpen} />
    <${Announcer} run=${run} />
  </div>`;
}

function Header({ chat, model, sidebar }) {
  return html`<header>
    ${
      !sidebar &&
      html`<${IconButton} icon="menu" label="Show chats" onClick=${() => set({ sidebar: true })} />
        <${IconButton} icon="plus" label="New chat" onClick=${() => open(null)} />`
    }
    <h1 class="chat-title" dir="auto">${chat?.title ?? "New chat"}</h1>
    <span class="model">${model?.id ?? ""}</span>
    <${IconButton} icon="settings" label="Settings" onClick=${() => set({ settingsOpen: true })} />
  </header>`;
}

function onKey(event) {
  // Fields use Escape for themselves.
  if (event.defaultPrevented || isComposing(event)) return;
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key.toLowerCase() === "k") {
    event.preventDefault();
    searchField() ? searchField().focus() : openSearch();
  } else if (control && event.shiftKey && event.key.toLowerCase() === "o") {
    event.preventDefault();
    open(null);
  } else if (event.key === "Escape" && !state.settingsOpen && isRunning()) {
    stopHere();
  }
}

const searchField = () => document.getElementById("search");

function openSearch() {
  set({ sidebar: true });
  // The first frame draws the sidebar.
  requestAnimationFrame(() => requestAnimationFrame(() => searchField().focus()));
}

addEventListener("keydown", onKey);
addEventListener("hashchange", openFromAddress);
addEventListener("storage", takeOver);
// Requests may break before the page is hidden, and not every phone tells beforehand.
addEventListener("beforeunload", stopAll);
addEventListener("pagehide", stopAll);

openFromAddress();
render(html`<${App} />`, document.getElementById("app"));
meetServer();
