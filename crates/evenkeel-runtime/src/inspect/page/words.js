// How numbers and times are said, and how elements are made. Texts are set as text, never as markup.

const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value) {
  return counts.format(value ?? 0);
}

export function rate(value) {
  return value >= 10 || value === 0 ? counts.format(value) : value.toFixed(1);
}

// A time span in milliseconds, with about three digits that matter.
export function span(ms) {
  if (ms < 1) return `${Math.max(0, Math.round(ms * 1000))} µs`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 120000) return `${(ms / 1000).toFixed(ms < 10000 ? 1 : 0)} s`;
  if (ms < 7200000) return `${Math.round(ms / 60000)} min`;
  return `${Math.round(ms / 3600000)} h`;
}

export function ago(ms) {
  return ms < 1000 ? "now" : `${span(ms)} ago`;
}

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// Changes a text only if it is another, so that screen readers and layout have nothing to do.
export function say(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

// Has an element light up once more, even if it is alight.
export function flash(node) {
  if (!node) return;
  const next = node.dataset.pass === "a" ? "b" : "a";
  node.dataset.pass = next;
}
