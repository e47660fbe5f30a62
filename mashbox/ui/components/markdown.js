/** A text as blocks of HTML, of which only those that change are drawn anew. */

import { Blocks, renderBlock } from "../markdown.js";
import { html, useRef } from "../vendor.js";
import { memo } from "./memo.js";

// The page's one place for HTML from a string.
const Block = memo(({ token }) => {
  const inner = { __html: renderBlock(token) };
  return html`<div class="block" dir="auto" dangerouslySetInnerHTML=${inner} />`;
});

export const Markdown = memo(({ text }) => {
  const blocks = useRef(null);
  blocks.current ??= new Blocks();
  const tokens = blocks.current.of(text);
  return html`<div class="markdown">
    ${tokens.map((token, index) => html`<${Block} key=${index} token=${token} />`)}
  </div>`;
});
