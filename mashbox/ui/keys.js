/** Keys that are the input method's, not the page's. */

/** Whether a key is part of composing a character; Safari tells of the last one by its code alone. */
export const isComposing = (event) => event.isComposing || event.keyCode === 229;
