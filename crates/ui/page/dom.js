// Builds elements. What comes from the cluster becomes text, never markup.

export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Replaces the text of an element, if it differs: unchanged elements keep a selection.
export function say(element, text) {
  const wanted = String(text ?? "");
  if (element.textContent !== wanted) element.textContent = wanted;
}

export function attribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export function classes(element, name) {
  if (element.className !== name) element.className = name;
}

const WORDS = ["fine", "under way", "broken", "over"];
const NAMES = ["fine", "moving", "broken", "over"];

export const levelName = (level) => NAMES[level] ?? "fine";

// The mark of a level: a shape, a colour, and a word for those who see neither.
export function mark(level) {
  return h("span", { class: `mark ${levelName(level)}` }, h("span", { class: "unseen" }, `${WORDS[level]}: `));
}

export function setMark(element, level) {
  classes(element, `mark ${levelName(level)}`);
  say(element.firstChild, `${WORDS[level]}: `);
}

// A short message that is also read aloud.
let silence;
export function announce(text, isError = false) {
  const said = document.getElementById("said");
  said.className = isError ? "shown error" : "shown";
  said.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => (said.className = ""), isError ? 12000 : 5000);
}
