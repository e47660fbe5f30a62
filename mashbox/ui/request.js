/** The body of a request: the conversation, and of the settings those that the user has made. */

export const SAMPLING = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed"];

/** Write the request for the answer to a branch; throws an Error when the tools are no JSON. */
export function requestBody(settings, messages) {
  const body = {
    messages: [...systemMessages(settings), ...messages.map(toMessage)],
    stream: true,
    stream_options: { include_usage: true },
  };
  for (const name of SAMPLING) {
    if (Number.isFinite(settings[name])) body[name] = settings[name];
  }
  if (settings.thinking)
    body.chat_template_kwargs = { enable_thinking: settings.thinking === "on" };
  const tools = readTools(settings.tools ?? "");
  if (tools.length) body.tools = tools;
  return body;
}

/** Read the tools that were pasted; throws an Error that says what is wrong. */
export function readTools(text) {
  if (!text.trim()) return [];
  try {
    const tools = JSON.parse(text);
    if (Array.isArray(tools)) return tools;
  } catch (error) {
    throw new Error(`The tools in the settings are not JSON: ${error.message}`);
  }
  throw new Error("The tools in the settings have to be a JSON array.");
}

function systemMessages({ system }) {
  return system?.trim() ? [{ role: "system", content: system }] : [];
}

function toMessage(node) {
  const { role, content, reasoning, calls } = node;
  if (role === "user") return { role, content };
  if (role === "tool") return { role, content, tool_call_id: node.call };
  const message = { role, content };
  if (reasoning) message.reasoning_content = reasoning;
  if (calls.length) message.tool_calls = calls.map(toCall);
  return message;
}

const toCall = ({ id, name, arguments: text }) => ({
  id,
  type: "function",
  function: { name, arguments: text },
});
