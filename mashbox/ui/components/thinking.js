/** What a model thinks before it answers. */

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
