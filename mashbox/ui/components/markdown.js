/** A text as blocks of HTML, of which only those that change are drawn anew. */

import { Blocks, renderBlock } from "../markdown.js";
import { html, useRef } from "../vendor.js";
import { memo } from "./memo.js";

const Block = memo(({ raw, token }) => {
  const last = useRef({});
  if (last.current.raw !== raw) last.current = { raw, __html: renderBlock(token) };
  return html`<div class="block" dir="auto" dangerouslySetInnerHTML=${last.current} />`;
});

export const Markdown = memo(({ text }) => {
  const blocks = useRef(null);
  blocks.current ??= new Blocks();
  const tokens = blocks.current.of(text);
  return html`<div class="markdown">
    ${tokens.map((token, index) => html`<${Block} key=${index} raw=${token.raw} token=${token} />`)}
  </div>`;
});
