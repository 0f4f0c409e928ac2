// What has happened lately: notifications, errors, the story, and the steps of a key that is followed.

import { ago, element, number, say, span } from "./words.js";

const SIGNS = { add: "+", update: "~", delete: "−", initial: "·", resync: "↻" };
const PLACES = {
  deltas: "in the delta queue",
  store: "in the indexer",
  handlers: "with a handler",
  queue: "in the work queue",
  waiting: "in the work queue, waiting for its time",
  workers: "with a worker",
  done: "done, for now",
};
const NOTIFICATIONS = 200;
const ERRORS = 100;
const STEPS = 400;
// Steps further apart than this are not one journey.
const PAUSE = 2000;

// A list whose newest entry is on top.
class Newest {
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

  // Puts an entry on top; one of the same id goes from where it was.
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
    this.notifications = new Newest(by("notifications"), NOTIFICATIONS, "Nothing yet.");
    this.errors = new Newest(by("errors"), ERRORS, "None. All is well.");
    this.story = { root: by("story"), text: by("story-text"), time: by("story-time"), at: null };
    this.keys = by("keys");
    this.known = new Set();
    this.errorSum = by("error-count");
    this.times = new Map();
  }

  reset() {
    this.notifications.reset();
    this.errors.reset();
    this.times.clear();
    this.known.clear();
    this.keys.replaceChildren();
    this.story.root.hidden = true;
    this.story.at = null;
    say(this.errorSum, "");
  }

  add(state) {
    for (const one of state.notifications) this.notification(one);
    for (const one of state.errors) this.error(one);
    const note = state.notes[state.notes.length - 1];
    if (note) {
      this.story.root.hidden = false;
      this.story.at = note.at;
      say(this.story.text, note.text);
    }
    this.tick(state.now);
  }

  notification(one) {
    const row = element("li", one.what);
    const sign = element("span", "sign", SIGNS[one.what] ?? "?");
    sign.setAttribute("aria-hidden", "true");
    const which = element("span", "which");
    which.append(this.key(one.key), element("span", "version", one.version ? ` @${one.version}` : ""));
    row.append(sign, element("span", "what", one.what), which, lane(one.informer), this.time(one.at, `n${one.id}`));
    this.notifications.put(one.id, row);
    this.remember(one.key);
  }

  error(one) {
    const row = element("li", "error");
    const head = element("p");
    head.append(element("span", "lane-name", one.component));
    if (one.key) head.append(this.key(one.key));
    if (one.count > 1) head.append(element("span", "count", `${number(one.count)} times`));
    head.append(this.time(one.at, `e${one.id}`));
    row.append(head, element("p", "text", one.error));
    this.errors.put(one.id, row);
    say(this.errorSum, `${number(this.errors.rows.size)}${this.errors.rows.size >= ERRORS ? " or more" : ""}`);
  }

  key(key) {
    const button = element("button", "key", key);
    button.type = "button";
    button.title = `follow ${key}`;
    button.addEventListener("click", () => this.follow(key));
    return button;
  }

  // What can be typed is offered.
  remember(key) {
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
    if (this.story.at !== null) say(this.story.time, ago(now - this.story.at));
    for (const [id, node] of this.times) {
      if (!node.isConnected) this.times.delete(id);
      else say(node, id[0] === "n" ? short(now - node.at) : ago(now - node.at));
    }
  }
}

// A lane in few words: its name without the group of its kind.
function lane(name) {
  const node = element("span", "lane-name", name.replace(/\..*$/, ""));
  node.title = name;
  return node;
}

// Many times below each other need no word for what they are.
function short(ms) {
  return ms < 1000 ? "now" : span(ms);
}

// The steps of a key that is followed, oldest first.
export class Followed {
  constructor(stop) {
    const by = (id) => document.getElementById(id);
    this.root = by("followed");
    this.title = by("followed-title");
    this.place = by("place");
    this.since = by("since");
    this.list = by("steps");
    by("unfollow").addEventListener("click", stop);
    this.reset(null);
  }

  reset(key, word = "Nothing has happened to it lately.") {
    this.key = key;
    this.last = null;
    this.own = null;
    this.root.hidden = key === null;
    this.list.replaceChildren();
    say(this.title, key ?? "");
    say(this.place, key === null ? "" : word);
    say(this.since, "");
  }

  // Answers with the last step of the key itself, which says where it is. What it led to under other names does not.
  add(steps, now) {
    const atEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    for (const step of steps) {
      this.list.append(this.row(step));
      this.last = step;
      if (step.key === this.key) this.own = step;
    }
    while (this.list.children.length > STEPS) this.list.firstChild.remove();
    if (steps.length && atEnd) this.list.scrollTop = this.list.scrollHeight;
    if (this.own) say(this.place, `${PLACES[this.own.stage] ?? this.own.stage} (${this.own.lane})`);
    else if (this.last) say(this.place, "Nothing has happened to it lately, but to what it led to.");
    this.tick(now);
    return this.own;
  }

  tick(now) {
    if (this.own) say(this.since, ago(now - this.own.at));
  }

  row(step) {
    const row = element("li", step.failed ? "failed" : "");
    row.dataset.stage = step.stage;
    row.dataset.id = step.id;
    const since = this.last ? step.at - this.last.at : 0;
    if (this.last && since > PAUSE) row.classList.add("later");
    row.append(element("span", "since", this.last ? `+${span(since)}` : "first"));
    row.append(element("span", "lane-name", step.lane));
    const text = element("span", "text", step.text);
    if (step.version) text.append(element("span", "version", ` @${step.version}`));
    if (step.key !== this.key) text.append(element("span", "other", ` ${step.key}`));
    row.append(text);
    if (step.because) {
      const { kind, key, version, what } = step.because;
      row.append(element("span", "because", `because ${kind} ${key}${version ? `@${version}` : ""} ${what}`));
    }
    return row;
  }
}
