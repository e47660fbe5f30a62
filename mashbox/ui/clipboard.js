/** Copying, and a word on the button that it was done. */

export const SHOWN_MS = 1500;

/** Copy a text; also on plain HTTP, where browsers keep the clipboard's own API back. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "off-screen";
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Serve the copy buttons inside rendered markdown. */
export async function copyCode(event) {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await copy(button.closest(".code").querySelector("code").textContent);
  Object.assign(button, { textContent: "Copied", ariaLabel: "Copied" });
  setTimeout(
    () => Object.assign(button, { textContent: "Copy", ariaLabel: "Copy code" }),
    SHOWN_MS,
  );
}
