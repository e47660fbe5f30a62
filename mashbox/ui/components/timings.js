/** The line below an answer: how long it is, how fast it came, how it ended. */

import { html } from "../vendor.js";

const ENDS = { length: "stopped at the token limit", stopped: "stopped" };

export function Timings({ node, run }) {
  const facts = run ? live(run) : [...measured(node.timings), ENDS[node.finish]];
  const text = facts.filter(Boolean).join(" · ");
  // The line keeps its place while it is empty: nothing jumps when it comes.
  return html`<p class="timings" data-part="timings">${text}</p>`;
}

function live({ rate }) {
  return [rate && `about ${rate.toFixed(1)} tok/s`];
}

function measured(timings) {
  if (!timings) return [];
  const { predicted_n: tokens, predicted_per_second: rate, cache_n: cached } = timings;
  const first = (timings.queue_ms + timings.prompt_ms) / 1000;
  return [
    tokens === 1 ? "1 token" : `${tokens} tokens`,
    rate && `${rate.toFixed(1)} tok/s`,
    `first token ${first.toFixed(2)} s`,
    cached > 0 && `${cached} cached`,
  ];
}
