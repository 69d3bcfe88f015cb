// A command line, and a button that copies it. Browsers let only pages of this machine, or encrypted ones, copy by
// themselves; elsewhere it is selected.

import { html, setText } from "./elements.js";

export function copied(command, root) {
  const code = html("code", {}, command);
  const button = html("button", { type: "button", "aria-label": `Copy the command that traces ${root}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      setText(button, "Copied");
    } catch {
      getSelection().selectAllChildren(code);
      setText(button, "Selected");
    }
    setTimeout(() => setText(button, "Copy"), 1500);
  });
  return html("span", { class: "command" }, code, button);
}
