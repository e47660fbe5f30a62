/**
 * Markdown to HTML that is safe to show, block by block.
 *
 * Two layers: raw HTML and images are escaped while rendering, so that nothing is even parsed as
 * such, and DOMPurify takes out of the result what is left of danger.
 */

import { DOMPurify, Marked, hljs } from "./vendor.js";

// A longer code block would be coloured anew with each token.
const HIGHLIGHT_LENGTH = 20_000;
// Of a longer text the blocks that are complete are not parsed again.
const FREEZE_LENGTH = 4000;
const LINK = /^(https?:|mailto:)/i;

const PURIFY = {
  USE_PROFILES: { html: true },
  FORBID_TAGS: [
    "style",
    "form",
    "img",
    "svg",
    "math",
    "input",
    "textarea",
    "select",
    "video",
    "audio",
  ],
  FORBID_ATTR: ["style", "id", "name"],
  ADD_ATTR: ["target"],
};

const marked = new Marked({ gfm: true, breaks: true });
marked.use({
  renderer: {
    html: ({ text, block }) => (block ? `<p>${escaped(text)}</p>` : escaped(text)),
    image: ({ raw }) => escaped(raw),
    code: ({ text, lang }) => codeBlock(text, lang ?? ""),
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    link({ href, tokens }) {
      const text = this.parser.parseInline(tokens);
      if (!LINK.test(href)) return text;
      return `<a href="${escaped(href)}" target="_blank" rel="noopener noreferrer nofollow">${text}</a>`;
    },
    table(token) {
      const row = (cells) => `<tr>${cells.map((cell) => this.tablecell(cell)).join("")}</tr>`;
      const body = token.rows.map(row).join("");
      const table = `<thead>${row(token.header)}</thead><tbody>${body}</tbody>`;
      return `<div class="table" tabindex="0"><table>${table}</table></div>`;
    },
  },
});

function codeBlock(code, info) {
  const name = info.split(/\s/)[0].toLowerCase();
  const language = code.length < HIGHLIGHT_LENGTH && hljs.getLanguage(name) ? name : null;
  const body = language ? hljs.highlight(code, { language }).value : escaped(code);
  return (
    `<div class="code"><div class="code-head"><span>${escaped(name || "text")}</span>` +
    `<button type="button" data-copy="code" aria-label="Copy code">Copy</button></div>` +
    `<pre tabindex="0"><code>${body}</code></pre></div>`
  );
}

export function escaped(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => names[character]);
}

/** Render one block that `Blocks` has found; its HTML is safe. */
export function renderBlock(token) {
  return DOMPurify.sanitize(marked.parser([token]), PURIFY);
}

/** The blocks of a text that grows: what is complete keeps its token, and so its place on the page. */
export class Blocks {
  #frozen = [];
  #frozenText = "";

  /** Find the blocks of a text, as marked's tokens. */
  of(source) {
    // As the lexer has it, so that its tokens add up to the text.
    const text = source.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.#frozenText)) {
      this.#frozen = [];
      this.#frozenText = "";
    }
    const rest = text.slice(this.#frozenText.length);
    const tokens = marked.lexer(rest);
    const blocks = [
      ...this.#frozen,
      ...tokens.filter(({ type }) => type !== "space" && type !== "def"),
    ];
    if (rest.length > FREEZE_LENGTH) this.#freeze(tokens.slice(0, -2));
    return blocks;
  }

  #freeze(tokens) {
    this.#frozen.push(...tokens.filter(({ type }) => type !== "space" && type !== "def"));
    this.#frozenText += tokens.map(({ raw }) => raw).join("");
  }
}
