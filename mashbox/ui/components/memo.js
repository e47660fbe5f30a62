/** Components that are drawn anew only when something that they show is another. */

import { Component, html } from "../vendor.js";

export function memo(view) {
  return class extends Component {
    shouldComponentUpdate(next) {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]);
      return [...names].some((name) => next[name] !== this.props[name]);
    }

    render(props) {
      return html`<${view} ...${props} />`;
    }
  };
}
