/** The parts of an answer beside its text: thinking, tool calls and their results. */

import { html, useEffect, useRef, useState } from "../vendor.js";
import { Markdown } from "./markdown.js";

/** Open while the model thinks, unless the user has closed or opened it. */
export function Thinking({ node, running }) {
  const thinks = running && !node.thoughtMs;
  const [chosen, setChosen] = useState(null);
  const details = useRef(null);
  const open = chosen ?? thinks;
  useEffect(() => {
    details.current.open = open;
  }, [open]);
  const choose = (event) => {
    event.preventDefault();
    setChosen(!open);
  };
  return html`<details class="part" data-part="thinking" ref=${details}>
    <summary onClick=${choose}>
      ${thinks ? "Thinking…" : `Thought for ${seconds(node.thoughtMs)} s`}
    </summary>
    ${open && html`<div class="part-body thought"><${Markdown} text=${node.reasoning} /></div>`}
  </details>`;
}

const seconds = (ms) => (ms / 1000).toFixed(1);

export function ToolCall({ call }) {
  return html`<details class="part" data-part="tool">
    <summary>Called <code>${call.name}</code></summary>
    <pre class="part-body" tabindex="0">${pretty(call.arguments)}</pre>
  </details>`;
}

/** Arguments with line breaks; as they came while they are no whole JSON. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

export function ToolResult({ node }) {
  return html`<article class="message tool" data-role="tool" aria-label="Tool result">
    <details class="part" data-part="result">
      <summary>Tool result</summary>
      <pre class="part-body" tabindex="0">${node.content}</pre>
    </details>
  </article>`;
}
