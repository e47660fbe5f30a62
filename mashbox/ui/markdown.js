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
// Marking up so long a run of text takes a second, and no writer means one.
const INLINE_LENGTH = 6000;
// Quotes and lists in each other, on one line: time grows with the square of their number.
const DEEP = /^[ \t]*(?:>[ \t]?|(?:[-*+]|\d+[.)])[ \t]+){100}/m;
const LINK = /^(https?:|mailto:)/i;

// What the renderer below makes, and nothing else.
const PURIFY = {
  ALLOWED_TAGS: (
    "a blockquote br button code del div em h1 h2 h3 h4 h5 h6 hr li ol p pre span strong " +
    "table tbody td th thead tr ul"
  ).split(" "),
  ALLOWED_ATTR: "align aria-label class data-copy href rel start tabindex target type".split(" "),
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
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
    `<div class="code" dir="ltr"><div class="code-head"><span>${escaped(name || "text")}</span>` +
    `<button type="button" data-copy="code" aria-label="Copy code">Copy</button></div>` +
    `<pre tabindex="0"><code>${body}</code></pre></div>`
  );
}

export function escaped(text) {
  const names = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => names[character]);
}

class Lexer extends marked.Lexer {
  inlineTokens(text, tokens = []) {
    if (text.length <= INLINE_LENGTH) return super.inlineTokens(text, tokens);
    tokens.push(...plain(text));
    return tokens;
  }
}

/** A text without any markup, as marked's tokens. */
const plain = (text) =>
  text
    .split("\n")
    .flatMap((line, index) => [
      ...(index ? [{ type: "br", raw: "\n" }] : []),
      { type: "text", raw: line, text: line },
    ]);

/** Render one block that `Blocks` has found; its HTML is safe. */
export function renderBlock(token) {
  const html = unlessTooDeep(() => marked.parser([token])) ?? `<p>${escaped(token.raw)}</p>`;
  return DOMPurify.sanitize(html, PURIFY);
}

/** Give what a step gives; undefined when quotes or lists in each other are more than the stack holds. */
function unlessTooDeep(step) {
  try {
    return step();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const isShown = ({ type }) => type !== "space" && type !== "def";

/**
 * The blocks of a text that grows: what is complete keeps its token, and so its place on the page.
 *
 * A link's address that is given far below it is only found when the text is next shown anew.
 */
export class Blocks {
  #frozen = [];
  #frozenText = "";
  #isTooDeep = false;

  /** Find the blocks of a text, as marked's tokens; of what is not complete they are new ones. */
  of(source) {
    // As the lexer has it, so that its tokens add up to the text.
    const text = source.replace(/\r\n?/g, "\n");
    if (!text.startsWith(this.#frozenText)) {
      this.#frozen = [];
      this.#frozenText = "";
    }
    const rest = text.slice(this.#frozenText.length);
    const tokens = this.#lex(rest);
    const blocks = [...this.#frozen, ...tokens.filter(isShown)];
    if (rest.length > FREEZE_LENGTH) this.#freeze(tokens.slice(0, -2));
    return blocks;
  }

  /** Find the tokens of a text; one that is too deep stays plain, however it grows. */
  #lex(text) {
    const lex = () => new Lexer(marked.defaults).lex(text);
    const isTooDeep = this.#isTooDeep || DEEP.test(text);
    const tokens = isTooDeep ? undefined : unlessTooDeep(lex);
    this.#isTooDeep = !tokens;
    return tokens ?? [{ type: "paragraph", raw: text, tokens: plain(text) }];
  }

  #freeze(tokens) {
    this.#frozen.push(...tokens.filter(isShown));
    this.#frozenText += tokens.map(({ raw }) => raw).join("");
  }
}
