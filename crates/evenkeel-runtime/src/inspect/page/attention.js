// What needs attention: failing, parked and waiting keys; how long reconciles take; and whether this process leads.

import { element, number, setText, span } from "./format.js";

// The tone of each state.
const TONES = { failing: "bad", "gave up": "bad", parked: "busy", "in flight": "good", ready: "quiet", scheduled: "quiet" };

export class Attention {
  constructor(follow) {
    this.follow = follow;
    const by = (id) => document.getElementById(id);
    this.root = by("attention");
    this.body = by("attention-keys");
    this.none = by("attention-none");
    this.count = by("attention-count");
    this.durations = by("durations-rows");
    this.role = by("role");
    this.rows = [];
  }

  show(state) {
    const { rows, tracked } = state.keys;
    const failing = rows.filter((row) => row.error !== null).length;
    const parts = [`${number(failing)} failing`, `${number(rows.filter((row) => row.state === "parked").length)} parked`];
    if (tracked > rows.length) parts.push(`first ${number(rows.length)} of ${number(tracked)}`);
    setText(this.count, rows.length ? parts.join(", ") : "");
    this.none.hidden = rows.length > 0;
    this.body.parentElement.hidden = rows.length === 0;
    while (this.body.children.length > rows.length) this.body.lastChild.remove();
    rows.forEach((row, index) => this.row(this.body.children[index] ?? this.append(), row));
    this.rows = rows;
    this.root.classList.toggle("many", state.queues.length > 3);
    this.showDurations(state.queues);
    this.showRole(state.election);
    this.tick(state.now);
  }

  append() {
    const node = element("tr");
    const key = element("button", "key");
    key.type = "button";
    key.addEventListener("click", () => this.follow(key.textContent));
    const cells = [element("td"), element("td"), element("td", "source-name"), element("td", "count-cell"), element("td"), element("td", "when"), element("td", "why")];
    cells[0].append(element("span", "state"));
    cells[1].append(key);
    cells[4].append(element("p", "error-text"));
    node.append(...cells);
    this.body.append(node);
    return node;
  }

  row(node, row) {
    const [state, key, queue, attempts, error, , why] = node.children;
    state.firstChild.dataset.state = TONES[row.state] ?? "quiet";
    setText(state.firstChild, row.state);
    setText(key.firstChild, row.key);
    key.firstChild.title = `follow ${row.key}`;
    setText(queue, row.queue);
    queue.title = row.queue;
    setText(attempts, row.attempts ? number(row.attempts) : "");
    setText(error.firstChild, row.error ?? "");
    error.firstChild.title = row.error ?? "";
    setText(why, row.why ?? "");
    why.title = row.why ?? "";
  }

  showDurations(queues) {
    while (this.durations.children.length > queues.length) this.durations.lastChild.remove();
    queues.forEach((queue, index) => {
      let node = this.durations.children[index];
      if (!node) {
        node = element("tr");
        node.append(...Array.from({ length: 6 }, () => element("td")));
        this.durations.append(node);
      }
      const { p50, p99, max } = queue.durations;
      const time = (value) => (value === null ? "–" : span(value));
      const texts = [queue.name, time(p50), time(p99), time(max), number(queue.counts.failed), number(queue.counts.planned)];
      texts.forEach((text, column) => setText(node.children[column], text));
      node.children[0].title = queue.name;
      node.children[4].classList.toggle("bad", queue.counts.failed > 0);
    });
  }

  showRole(election) {
    this.role.hidden = !election;
    if (!election) return;
    const { leads, leader, identity } = election;
    setText(this.role, leads ? "leader" : "standby");
    this.role.dataset.state = leads ? "good" : "busy";
    this.role.title = leads ? `this process (${identity}) leads` : `this process (${identity}) waits; ${leader ? `${leader} leads` : "no leader is known"}`;
  }

  tick(now) {
    this.rows.forEach((row, index) => {
      const node = this.body.children[index]?.children[5];
      if (!node) return;
      if (row.next !== null) setText(node, row.next > now ? `in ${span(row.next - now)}` : "due");
      else setText(node, row.state === "gave up" ? "never" : `for ${span(Math.max(0, now - row.since))}`);
    });
  }

  reset() {
    this.body.replaceChildren();
    this.durations.replaceChildren();
    this.rows = [];
    this.role.hidden = true;
  }
}
