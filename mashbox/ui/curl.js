/** An answer's request as a command, for developers. */

import { branch } from "./chats.js";
import { requestBody } from "./request.js";
import { currentChat, state } from "./state.js";
import { loadKey } from "./store.js";

/** Write the command that asks for a message once more; a key stays a variable of the shell. */
export function curlOf(node) {
  const body = requestBody(state.settings, branch(currentChat(), node.parent));
  const lines = [
    `curl -sN ${new URL("v1/chat/completions", location.href)}`,
    ...(loadKey() ? ['-H "Authorization: Bearer $MASHBOX_API_KEY"'] : []),
    "-H 'Content-Type: application/json'",
    `-d '${JSON.stringify(body).replaceAll("'", String.raw`'\''`)}'`,
  ];
  return lines.join(" \\\n  ");
}
