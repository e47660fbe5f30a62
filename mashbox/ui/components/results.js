/** Where the user plays the tools: their results go back to the model. */

import { giveResults } from "../actions.js";
import { html, useState } from "../vendor.js";

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
