/**
 * Chats as trees: an edited question or another answer is a sibling, and nothing is lost.
 *
 * A chat is {id, title, created, updated, leaf, nodes}; `nodes` maps ids to messages, each with
 * its `parent`, and `leaf` is the last message of the branch on show. Nothing is changed in place.
 */

const TITLE_LENGTH = 48;

export const newId = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(8)), (b) =>
    b.toString(16).padStart(2, "0"),
  ).join("");

export function newChat(text) {
  const now = Date.now();
  return { id: newId(), title: titleOf(text), created: now, updated: now, leaf: null, nodes: {} };
}

/** A message with all its fields; most are for answers. */
export function newMessage(role, parent, content = "") {
  const answers = { reasoning: "", thoughtMs: 0, calls: [], finish: "", error: "", timings: null };
  return { id: newId(), parent, role, content, call: "", ...answers };
}

/** The first words of a text. */
export function titleOf(text) {
  const line = text.trim().replace(/\s+/g, " ");
  if (line.length <= TITLE_LENGTH) return line || "New chat";
  const cut = line.slice(0, TITLE_LENGTH);
  const short = cut.slice(0, Math.max(cut.lastIndexOf(" "), TITLE_LENGTH / 2)).trimEnd();
  // Nothing is left of an emoji that is cut in two.
  return `${short.replace(/[\u200d\ufe0f]*[\ud800-\udbff]?$/, "")}…`;
}

/** The messages from the first one down to `leaf`. */
export function branch(chat, leaf = chat.leaf) {
  const messages = [];
  for (let node = chat.nodes[leaf]; node; node = chat.nodes[node.parent]) messages.push(node);
  return messages.reverse();
}

/** Add a message below its parent, or put a newer state of it in its place; it comes on show. */
export function withNode(chat, node) {
  return { ...chat, leaf: node.id, updated: Date.now(), nodes: { ...chat.nodes, [node.id]: node } };
}

/** Give the function from a message to those that stand for each other, itself among them. */
export function versionsIn(chat) {
  const place = ({ parent, role }) => `${role} ${parent}`;
  const groups = Map.groupBy(Object.values(chat.nodes), place);
  return (node) => groups.get(place(node));
}

/** Show the branch through a message, down to its newest end. */
export function showing(chat, id) {
  const nodes = Object.values(chat.nodes);
  let leaf = id;
  for (let next = id; next; next = nodes.findLast((n) => n.parent === leaf)?.id) leaf = next;
  return { ...chat, leaf };
}

/** Join a chat with its state in another tab, where it may have grown too; `node` is growing here. */
export function joined(mine, theirs, node) {
  const nodes = { ...mine.nodes, ...theirs.nodes, ...(node && { [node.id]: node }) };
  const both = { ...theirs, nodes };
  return node ? { ...both, leaf: mine.leaf } : showing(both, theirs.leaf);
}

/** Whether a chat has the words somewhere. */
export function matches(chat, words) {
  const wanted = words.trim().toLowerCase();
  const texts = [chat.title, ...Object.values(chat.nodes).map((node) => node.content)];
  return texts.some((text) => text.toLowerCase().includes(wanted));
}
