/** Says to screen readers what comes, in whole sentences; tokens would be noise. */

import { html, useRef } from "../vendor.js";

const SENTENCES = /^[\s\S]*[.!?:](?=\s)|^[\s\S]*\n/;

export function Announcer({ run }) {
  const last = useRef({ id: null, said: 0, text: "" });
  if (run && run.node.id !== last.current.id) last.current = { id: run.node.id, said: 0, text: "" };
  const { current } = last;
  if (run) {
    const fresh = run.node.content.slice(current.said).match(SENTENCES)?.[0] ?? "";
    if (fresh.trim()) Object.assign(current, { said: current.said + fresh.length, text: fresh });
  }
  return html`<div class="off-screen" aria-live="polite">${current.text}</div>`;
}
