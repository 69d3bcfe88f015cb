// Making elements, and changing only what has changed: focus, selection and scrolling stay where they are.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const html = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

export const find = (id) => document.getElementById(id);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// The line at the top of a page: "live", "problem" and others, with a message.
export function setState(name, message) {
  setAttribute(find("status"), "data-state", name);
  setText(find("status"), message);
}

// Makes the children of `parent` those of `items`, in their order.
//   key: identifies an item; make: a new child; update: writes an item into its child.
export function keyed(parent, items, key, make, update) {
  const before = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let previous = null;
  for (const item of items) {
    const name = key(item);
    let child = before.get(name);
    if (child) before.delete(name);
    else {
      child = make(item);
      child.dataset.key = name;
    }
    const next = previous ? previous.nextElementSibling : parent.firstElementChild;
    if (child !== next) parent.insertBefore(child, next);
    update(child, item);
    previous = child;
  }
  for (const gone of before.values()) gone.remove();
}

// Figures with their titles, in a list of terms: [name, title, text, warns], where `warns` makes it stand out.
export function showFigures(list, figures) {
  keyed(
    list,
    figures,
    ([name]) => name,
    ([name, title]) => html("div", {}, html("dt", {}, title), html("dd", { "data-figure": name })),
    (element, [, , text, warns]) => {
      setText(element.lastChild, text);
      element.classList.toggle("warns", Boolean(warns));
    },
  );
}

// A command line, and a button that copies it. Browsers let only pages of this machine, or encrypted ones, copy by
// themselves; elsewhere it is selected.
export function command(line) {
  const code = html("code", {}, line);
  const button = html("button", { type: "button", "aria-label": `Copy ${line}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(line);
      setText(button, "Copied");
    } catch {
      getSelection().selectAllChildren(code);
      setText(button, "Selected");
    }
    setTimeout(() => setText(button, "Copy"), 1500);
  });
  return html("span", { class: "command" }, code, button);
}
