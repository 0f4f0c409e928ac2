// Lists of recent notifications and errors, the latest note, and the steps of the followed key.

import { ago, element, number, setText, span } from "./format.js";

const SIGNS = { add: "+", update: "~", delete: "−", initial: "·", resync: "↻" };
const POSITIONS = {
  deltas: "in the delta queue",
  store: "in the indexer",
  handlers: "in a handler",
  queue: "ready in the work queue",
  delayed: "delayed in the work queue",
  workers: "in flight",
  done: "finished",
};
const NOTIFICATIONS = 200;
const ERRORS = 100;
const STEPS = 400;
// A longer pause between two steps, in milliseconds, is shown as a separator.
const PAUSE = 2000;

// A bounded list with the newest entry on top.
class RecentList {
  constructor(root, limit, empty) {
    this.root = root;
    this.limit = limit;
    this.rows = new Map();
    this.empty = element("li", "none", empty);
    root.append(this.empty);
  }

  reset() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
    this.root.append(this.empty);
  }

  // Puts an entry on top, and removes an older entry of the same id.
  put(id, row) {
    this.empty.remove();
    this.rows.get(id)?.remove();
    this.rows.delete(id);
    this.rows.set(id, row);
    this.root.prepend(row);
    if (this.rows.size > this.limit) {
      const [oldest, last] = this.rows.entries().next().value;
      last.remove();
      this.rows.delete(oldest);
    }
  }
}

export class Lists {
  constructor(follow) {
    this.follow = follow;
    const by = (id) => document.getElementById(id);
    this.notifications = new RecentList(by("notifications"), NOTIFICATIONS, "None yet.");
    this.errors = new RecentList(by("errors"), ERRORS, "None.");
    this.note = { root: by("note"), text: by("note-text"), time: by("note-time"), at: null };
    this.keys = by("keys");
    this.known = new Set();
    this.errorCount = by("error-count");
    this.times = new Map();
  }

  reset() {
    this.notifications.reset();
    this.errors.reset();
    this.times.clear();
    this.known.clear();
    this.keys.replaceChildren();
    this.note.root.hidden = true;
    this.note.at = null;
    setText(this.errorCount, "");
  }

  add(state) {
    for (const entry of state.notifications) this.notification(entry);
    for (const entry of state.errors) this.error(entry);
    const note = state.notes[state.notes.length - 1];
    if (note) {
      this.note.root.hidden = false;
      this.note.at = note.at;
      setText(this.note.text, note.text);
    }
    this.tick(state.now);
  }

  notification(entry) {
    const row = element("li", entry.what);
    const sign = element("span", "sign", SIGNS[entry.what] ?? "?");
    sign.setAttribute("aria-hidden", "true");
    const which = element("span", "which");
    which.append(this.key(entry.key), element("span", "version", entry.version ? ` @${entry.version}` : ""));
    row.append(sign, element("span", "what", entry.what), which, sourceName(entry.informer), this.time(entry.at, `n${entry.id}`));
    this.notifications.put(entry.id, row);
    this.suggest(entry.key);
  }

  error(entry) {
    const row = element("li", "error");
    const head = element("p");
    head.append(element("span", "source-name", entry.component));
    if (entry.key) head.append(this.key(entry.key));
    if (entry.count > 1) head.append(element("span", "count", `${number(entry.count)} times`));
    head.append(this.time(entry.at, `e${entry.id}`));
    row.append(head, element("p", "text", entry.error));
    this.errors.put(entry.id, row);
    setText(this.errorCount, `${number(this.errors.rows.size)}${this.errors.rows.size >= ERRORS ? " or more" : ""}`);
  }

  key(key) {
    const button = element("button", "key", key);
    button.type = "button";
    button.title = `follow ${key}`;
    button.addEventListener("click", () => this.follow(key));
    return button;
  }

  // Adds a key to the suggestions of the input.
  suggest(key) {
    if (this.known.has(key) || this.known.size >= 500) return;
    this.known.add(key);
    const option = element("option");
    option.value = key;
    this.keys.append(option);
  }

  time(at, id) {
    const node = element("time");
    node.at = at;
    this.times.set(id, node);
    return node;
  }

  tick(now) {
    if (this.note.at !== null) setText(this.note.time, ago(now - this.note.at));
    for (const [id, node] of this.times) {
      if (!node.isConnected) this.times.delete(id);
      else setText(node, id[0] === "n" ? short(now - node.at) : ago(now - node.at));
    }
  }
}

// Shows the name of a source without the API group.
function sourceName(name) {
  const node = element("span", "source-name", name.replace(/\..*$/, ""));
  node.title = name;
  return node;
}

// A column of ages needs no "ago".
function short(ms) {
  return ms < 1000 ? "now" : span(ms);
}

// The steps of the followed key, oldest first.
export class Followed {
  constructor(stop) {
    const by = (id) => document.getElementById(id);
    this.root = by("followed");
    this.title = by("followed-title");
    this.position = by("position");
    this.since = by("since");
    this.list = by("steps");
    by("unfollow").addEventListener("click", stop);
    this.reset(null);
  }

  reset(key, text = "No recent steps.") {
    this.key = key;
    this.last = null;
    this.own = null;
    this.root.hidden = key === null;
    this.list.replaceChildren();
    setText(this.title, key ?? "");
    setText(this.position, key === null ? "" : text);
    setText(this.since, "");
  }

  // Returns the last step of the key itself, which has its stage. Steps of other keys that it caused do not count.
  add(steps, now, stored = []) {
    const atEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    for (const step of steps) {
      this.list.append(this.row(step));
      this.last = step;
      if (step.key === this.key) this.own = step;
    }
    while (this.list.children.length > STEPS) this.list.firstChild.remove();
    if (steps.length && atEnd) this.list.scrollTop = this.list.scrollHeight;
    if (this.own) setText(this.position, `${POSITIONS[this.own.stage] ?? this.own.stage} (${this.own.source})`);
    else if (stored.length) setText(this.position, `No recent steps; stored by ${stored.map(({ informer, version }) => `${informer}${version ? ` @${version}` : ""}`).join(", ")}.`);
    else if (this.last) setText(this.position, "No recent steps of this key, only of keys that it caused.");
    this.tick(now);
    return this.own;
  }

  tick(now) {
    if (this.own) setText(this.since, ago(now - this.own.at));
  }

  row(step) {
    const row = element("li", step.failed ? "failed" : "");
    row.dataset.stage = step.stage;
    row.dataset.id = step.id;
    const since = this.last ? step.at - this.last.at : 0;
    if (this.last && since > PAUSE) row.classList.add("later");
    row.append(element("span", "since", this.last ? `+${span(since)}` : "first"));
    row.append(element("span", "source-name", step.source));
    const text = element("span", "text", step.text);
    if (step.version) text.append(element("span", "version", ` @${step.version}`));
    if (step.key !== this.key) text.append(element("span", "other", ` ${step.key}`));
    row.append(text);
    if (step.cause) {
      const { kind, key, version, what } = step.cause;
      row.append(element("span", "cause", `cause: ${kind} ${key}${version ? `@${version}` : ""} ${what}`));
    }
    return row;
  }
}
