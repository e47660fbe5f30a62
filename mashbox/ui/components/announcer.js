/** Says to screen readers what comes, in whole sentences; tokens would be noise. */

import { html, useRef } from "../vendor.js";

const SENTENCES = /^[\s\S]*[.!?:](?=\s)|^[\s\S]*\n/;

export function Announcer({ run }) {
  const last = useRef({ run: null, said: 0, text: "" });
  if (run && run !== last.current.run) last.current = { run, said: 0, text: "" };
  const { current } = last;
  if (current.run) {
    const { content, finish } = current.run.node;
    const rest = content.slice(current.said);
    const fresh = finish ? rest : (rest.match(SENTENCES)?.[0] ?? "");
    if (fresh.trim()) Object.assign(current, { said: current.said + fresh.length, text: fresh });
  }
  return html`<div class="off-screen" aria-live="polite">${current.text}</div>`;
}
