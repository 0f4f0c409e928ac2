// Formats numbers and times and creates elements. Content is always set as text, never as markup.

const counts = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function number(value) {
  return counts.format(value ?? 0);
}

export function rate(value) {
  return value >= 10 || value === 0 ? counts.format(value) : value.toFixed(1);
}

// Formats a duration in milliseconds with about three significant digits.
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
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Sets a text only if it differs, to spare layout and screen readers.
export function setText(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

// Restarts the highlight animation of an element.
export function flash(node) {
  if (!node) return;
  const next = node.dataset.pass === "a" ? "b" : "a";
  node.dataset.pass = next;
}
