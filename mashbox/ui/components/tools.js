/** Tool calls, their results, and the form in which the user plays the tools. */

import { giveResults } from "../actions.js";
import { html, useState } from "../vendor.js";

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

/** Sends the results back to the model once there is one for each call. */
export function Results({ node }) {
  const [results, setResults] = useState(node.calls.map(() => ""));
  const send = (event) => {
    event.preventDefault();
    giveResults(node, results);
  };
  return html`<form class="editor" onSubmit=${send}>
    ${node.calls.map(
      ({ name }, index) =>
        html`<label class="field"
          >Result of ${name}
          <textarea
            rows="2"
            value=${results[index]}
            onInput=${(event) => setResults(results.with(index, event.target.value))}
          />
        </label>`,
    )}
    <div class="editor-buttons">
      <button type="submit" class="button" disabled=${!results.every(Boolean)}>Give results</button>
    </div>
  </form>`;
}
