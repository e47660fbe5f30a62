/** Icons: line drawings in the colour of the text, said by their button's name. */

import { html } from "../vendor.js";

const PATHS = {
  menu: "M4 6h16M4 12h16M4 18h16",
  plus: "M12 5v14M5 12h14",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14M20 20l-4-4",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  settings:
    "M4 7h8M18 7h2M4 17h2M12 17h8M12 7a3 3 0 1 0 6 0 3 3 0 1 0-6 0M6 17a3 3 0 1 0 6 0 3 3 0 1 0-6 0",
  copy: "M9 9h11v11H9zM15 9V4H4v11h5",
  again: "M20 11a8 8 0 1 0-.7 4.5M20 5v6h-6",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  check: "M5 12.5l4.5 4.5L19 7.5",
  down: "M12 5v14M6 13l6 6 6-6",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  close: "M6 6l12 12M18 6L6 18",
  terminal: "M5 7l5 5-5 5M12 18h7",
  upload: "M12 16V5M7 9l5-5 5 5M5 20h14",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
    <path d=${PATHS[name]} />
  </svg>`;
}

/** A button that shows an icon and is called `label`. */
export function IconButton({ icon, label, ...rest }) {
  return html`<button
    type="button"
    class="icon-button"
    aria-label=${label}
    title=${label}
    ...${rest}
  >
    <${Icon} name=${icon} />
  </button>`;
}
