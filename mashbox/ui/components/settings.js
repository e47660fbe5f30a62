/** The settings: what requests tell the server beside the conversation. */

import { SAMPLING, readTools } from "../request.js";
import { keepSettings, set, state } from "../state.js";
import { html, useEffect, useRef, useState } from "../vendor.js";
import { IconButton } from "./icons.js";

// Limits and defaults as the server's contract has them (ChatCompletionRequest).
const FIELDS = {
  temperature: { label: "Temperature", min: 0, max: 4, step: 0.05, normal: "0" },
  top_p: { label: "Top P", min: 0.01, max: 1, step: 0.01, normal: "1" },
  top_k: { label: "Top K", min: 0, step: 1, normal: "0, no limit" },
  min_p: { label: "Min P", min: 0, max: 0.99, step: 0.01, normal: "0" },
  max_tokens: { label: "Max tokens", min: 1, step: 1, normal: "what fits" },
  seed: { label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, normal: "random" },
};

const EXAMPLE = '[{"type": "function", "function": {"name": "get_weather"}}]';

const change = (name, value) => keepSettings({ ...state.settings, [name]: value });

export function Settings({ settings, isOpen }) {
  const dialog = useRef(null);
  const [resets, setResets] = useState(0);
  useEffect(() => {
    if (isOpen && !dialog.current.open) dialog.current.showModal();
    if (!isOpen) dialog.current.close();
  }, [isOpen]);
  const close = () => set({ settingsOpen: false });
  const clear = () => {
    keepSettings({});
    setResets(resets + 1);
  };
  const closeOutside = (event) => event.target === dialog.current && close();
  return html`<dialog
    class="settings"
    aria-label="Settings"
    ref=${dialog}
    onClose=${close}
    onClick=${closeOutside}
  >
    ${
      isOpen &&
      html`<div class="settings-body">
        <div class="settings-head">
          <h2>Settings</h2>
          <${IconButton} icon="close" label="Close settings" onClick=${close} />
        </div>
        <label class="field"
          >System prompt
          <textarea
            rows="4"
            value=${settings.system ?? ""}
            onInput=${(event) => change("system", event.target.value)}
          />
        </label>
        <div class="grid" key=${resets}>
          ${SAMPLING.map((name) => html`<${NumberField} name=${name} value=${settings[name]} />`)}
        </div>
        <label class="field"
          >Thinking
          <select
            value=${settings.thinking ?? ""}
            onChange=${(event) => change("thinking", event.target.value)}
          >
            <option value="">As the model has it</option>
            <option value="on">On</option>
            <option value="off">Off</option>
          </select></label
        >
        <${ToolsField} text=${settings.tools ?? ""} />
        <p class="note">
          Empty fields leave the choice to the server. Settings hold for all chats, from the next
          answer on.
        </p>
        <button type="button" class="button" onClick=${clear}>Reset</button>
      </div>`
    }
  </dialog>`;
}

/** Tools as the API has them, for trying out what a model makes of them. */
function ToolsField({ text }) {
  const fault = faultOf(text);
  return html`<div class="field">
    <label for="tools">Tools (JSON)</label>
    <textarea
      id="tools"
      aria-describedby="tools-fault"
      rows="4"
      spellcheck="false"
      class="mono"
      placeholder=${EXAMPLE}
      value=${text}
      aria-invalid=${Boolean(fault)}
      onInput=${(event) => change("tools", event.target.value)}
    />
    <span class="fault" id="tools-fault">${fault}</span>
  </div>`;
}

function faultOf(text) {
  try {
    readTools(text);
    return null;
  } catch (error) {
    return error.message;
  }
}

/** Keeps what is typed, valid or not: "0." is on its way to "0.5", and Reset brings a new field. */
function NumberField({ name, value }) {
  const { label, normal, ...limits } = FIELDS[name];
  const input = ({ target }) => {
    const isNumber = target.value !== "" && target.validity.valid;
    change(name, isNumber ? target.valueAsNumber : undefined);
  };
  return html`<label class="field"
    >${label}
    <input
      type="number"
      ...${limits}
      placeholder=${normal}
      defaultValue=${value ?? ""}
      onInput=${input}
  /></label>`;
}
