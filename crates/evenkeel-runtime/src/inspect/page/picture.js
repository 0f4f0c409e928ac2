// The picture: one card for each informer and each queue, and the wires between them.

import { ago, element, flash, number, rate, setText, span } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const SAMPLES = 60;
const WINDOW = 3000;

const WATCH = {
  watching: "good",
  listing: "busy",
  "backing off": "bad",
  idle: "quiet",
  stopped: "quiet",
  "not started": "quiet",
};

export class Picture {
  constructor(root) {
    this.root = root;
    this.server = root.querySelector("#server");
    this.cards = new Map();
    this.wires = new Map();
    this.wireLayer = root.querySelector("#wires");
    this.writes = root.querySelector("#writes");
    new ResizeObserver(() => this.layWires()).observe(root);
  }

  reset() {
    for (const card of this.cards.values()) card.root.remove();
    this.cards.clear();
    for (const wire of this.wires.values()) wire.remove();
    this.wires.clear();
  }

  // Shows the current state of informers and queues.
  show(state) {
    const seen = new Set();
    for (const informer of state.informers) {
      const card = this.card(`informer ${informer.name}`, "informers", () => new InformerCard(informer));
      seen.add(`informer ${informer.name}`);
      card.show(informer, state.now);
    }
    for (const queue of state.queues) {
      const card = this.card(`queue ${queue.name}`, "queues", () => new QueueCard(queue));
      seen.add(`queue ${queue.name}`);
      card.show(queue, state.now);
    }
    for (const [name, card] of this.cards) {
      if (!seen.has(name)) {
        card.root.remove();
        this.cards.delete(name);
      }
    }
    // Many kinds are one line each, so that they fit one screen.
    this.root.classList.toggle("many", Math.max(state.informers.length, state.queues.length) > 3);
    const informers = [...this.cards.values()].filter((card) => card instanceof InformerCard);
    setText(this.field("received"), number(informers.reduce((sum, card) => sum + card.counts.received, 0)));
    setText(this.field("watches"), `${informers.filter((card) => card.watch === "watching").length}/${informers.length}`);
    this.showRate();
    this.connect(state);
  }

  field(name) {
    return this.server.querySelector(`[data-field=${name}]`);
  }

  showRate() {
    let sum = 0;
    for (const card of this.cards.values()) if (card instanceof InformerCard) sum += card.rates.per("received");
    setText(this.field("rate"), rate(sum));
  }

  card(name, column, make) {
    let card = this.cards.get(name);
    if (!card) {
      card = make();
      this.cards.set(name, card);
      this.root.querySelector(`#${column}`).append(card.root);
    }
    return card;
  }

  // Updates ages and rates between reports.
  tick(now) {
    for (const card of this.cards.values()) card.tick(now);
    this.showRate();
  }

  // Highlights the stage of the followed key.
  light(step) {
    for (const lit of this.root.querySelectorAll(".lit")) lit.classList.remove("lit");
    if (!step) return;
    const isQueue = ["queue", "delayed", "workers", "done"].includes(step.stage);
    const card = this.cards.get(`${isQueue ? "queue" : "informer"} ${step.source}`);
    if (!card) return;
    const stage = { deltas: "deltas", store: "store", handlers: "handlers", queue: "queue", delayed: "queue", workers: "workers", done: "workers" }[step.stage];
    card.stages[stage]?.classList.add("lit");
    if (step.stage === "delayed") card.fields.delayed?.parentElement.classList.add("lit");
  }

  // Adds and removes wires: from the server to each informer, from handlers to the queues they feed, and from workers to the server.
  connect(state) {
    const wanted = new Map();
    for (const informer of state.informers) {
      const card = this.cards.get(`informer ${informer.name}`);
      wanted.set(`in ${informer.name}`, [this.server, card.stages.reflector, card.passed.received]);
      const feeds = new Set(informer.handlers.flatMap((handler) => handler.feeds));
      for (const name of feeds) {
        const queue = this.cards.get(`queue ${name}`);
        if (queue) wanted.set(`feed ${informer.name} ${name}`, [card.stages.handlers, queue.stages.queue, card.passed.notified && queue.passed.added]);
      }
    }
    for (const queue of state.queues) {
      const card = this.cards.get(`queue ${queue.name}`);
      wanted.set(`back ${queue.name}`, [card.stages.workers, this.server, card.passed.finished]);
    }
    let changed = false;
    for (const [name, wire] of this.wires) {
      if (!wanted.has(name)) {
        wire.remove();
        this.wires.delete(name);
        changed = true;
      }
    }
    for (const [name, [from, to, passed]] of wanted) {
      let wire = this.wires.get(name);
      if (!wire) {
        wire = document.createElementNS(SVG, "path");
        wire.classList.add(name.split(" ")[0]);
        wire.setAttribute("marker-end", "url(#head)");
        this.wireLayer.append(wire);
        this.wires.set(name, wire);
        changed = true;
      }
      [wire.from, wire.to] = [from, to];
      if (passed) flash(wire);
    }
    if (changed) this.layWires();
  }

  layWires() {
    const frame = this.root.getBoundingClientRect();
    const wide = getComputedStyle(this.wireLayer).display !== "none";
    if (!wide) return;
    this.wireLayer.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    const box = (node) => {
      const { left, right, top, bottom } = node.getBoundingClientRect();
      return { left: left - frame.left, right: right - frame.left, top: top - frame.top, bottom: bottom - frame.top };
    };
    const floor = box(this.writes).top + this.writes.offsetHeight / 2;
    for (const [name, wire] of this.wires) {
      const [from, to] = [box(wire.from), box(wire.to)];
      const middle = (from.top + from.bottom) / 2;
      if (name.startsWith("in ")) {
        const y = (to.top + to.bottom) / 2;
        wire.setAttribute("d", `M${from.right} ${y}H${to.left - 9}`);
      } else if (name.startsWith("feed ")) {
        const y = (to.top + to.bottom) / 2;
        const bend = (to.left - from.right) / 2;
        wire.setAttribute("d", `M${from.right} ${middle}c${bend} 0 ${bend} ${y - middle} ${2 * bend - 9} ${y - middle}`);
      } else {
        const [x, home, turn] = [(from.left + from.right) / 2, (to.left + to.right) / 2, 14];
        wire.setAttribute("d", `M${x} ${from.bottom}V${floor - turn}q0 ${turn} ${-turn} ${turn}H${home + turn}q${-turn} 0 ${-turn} ${-turn}V${to.bottom + 9}`);
      }
    }
  }
}

// Computes rates over a window of a few seconds.
class Rates {
  constructor() {
    this.samples = [];
  }

  add(now, counts) {
    this.samples.push([now, counts]);
    while (this.samples.length > 2 && now - this.samples[1][0] > WINDOW) this.samples.shift();
  }

  per(name) {
    const [first, last] = [this.samples[0], this.samples[this.samples.length - 1]];
    if (!first || last[0] - first[0] < 200) return 0;
    return ((last[1][name] - first[1][name]) * 1000) / (last[0] - first[0]);
  }

  // Adds a sample without changes, so that rates decay while idle.
  idle(now) {
    const last = this.samples[this.samples.length - 1];
    if (last && now - last[0] > 900) this.add(now, last[1]);
  }
}

class SourceCard {
  constructor(name, label, stages) {
    this.root = element("article", "card");
    this.root.setAttribute("aria-label", `${label} ${name}`);
    const head = element("header");
    head.append(element("h2", "", name));
    this.root.append(head);
    this.head = head;
    this.row = element("div", "stages");
    this.root.append(this.row);
    this.stages = {};
    this.fields = {};
    this.arrows = {};
    this.rates = new Rates();
    this.counts = {};
    this.passed = {};
    stages.forEach(([id, title, big, unit, fields], index) => {
      if (index) {
        const arrow = element("span", "arrow");
        arrow.setAttribute("aria-hidden", "true");
        this.arrows[id] = arrow;
        this.row.append(arrow);
      }
      const stage = element("section", "stage");
      stage.dataset.stage = id;
      stage.append(element("h3", "", title));
      if (big) {
        const line = element("p", "big");
        this.fields[big] = element("span", "", "0");
        line.append(this.fields[big], element("small", "", unit));
        stage.append(line);
      }
      const list = element("dl");
      for (const [field, term] of fields) {
        const pair = element("div");
        this.fields[field] = element("dd", "", "–");
        pair.append(element("dt", "", term), this.fields[field]);
        list.append(pair);
      }
      stage.append(list);
      this.stages[id] = stage;
      this.row.append(stage);
    });
  }

  count(counts, now) {
    for (const name of Object.keys(counts)) this.passed[name] = name in this.counts && counts[name] > this.counts[name];
    this.counts = counts;
    this.rates.add(now, counts);
  }
}

class InformerCard extends SourceCard {
  constructor(informer) {
    super(informer.name, "informer", [
      ["reflector", "reflector", null, "", [["version", "version"], ["last_received", "last event"], ["relists", "relists"]]],
      ["deltas", "delta queue", "queued", "queued", [["received", "received"]]],
      ["store", "indexer", "objects", "objects", []],
      ["handlers", "handlers", null, "", []],
    ]);
    this.head.append(element("p", "quiet", informer.kind));
    this.badge = element("p", "state");
    this.stages.reflector.querySelector("h3").after(this.badge);
    this.spark = document.createElementNS(SVG, "svg");
    this.spark.setAttribute("viewBox", "0 0 100 24");
    this.spark.setAttribute("preserveAspectRatio", "none");
    this.spark.setAttribute("class", "spark");
    this.spark.setAttribute("role", "img");
    this.line = document.createElementNS(SVG, "polyline");
    this.spark.append(this.line);
    this.stages.store.append(this.spark);
    this.samples = [];
    this.handlers = element("ul", "handlers");
    this.stages.handlers.append(this.handlers);
  }

  show(informer, now) {
    this.count(informer.counts, now);
    this.watch = informer.watch;
    this.informer = informer;
    const { version, queued, objects, received, relists } = this.fields;
    setText(version, informer.version || "–");
    setText(queued, number(informer.queued));
    setText(objects, number(informer.objects));
    setText(received, number(informer.counts.received));
    setText(relists, number(informer.relists));
    this.word = informer.watch === "watching" && !informer.synced ? "listing" : informer.watch;
    this.badge.dataset.state = WATCH[this.word] ?? "quiet";
    const error = informer.last_error && `last error: ${informer.last_error}`;
    const check = informer.consistency && `store: ${informer.consistency}`;
    this.badge.title = [error, check].filter(Boolean).join("\n");
    if (this.passed.received) flash(this.arrows.deltas);
    if (this.passed.applied) flash(this.arrows.store);
    if (this.passed.notified) flash(this.arrows.handlers);
    this.showHandlers(informer.handlers);
    this.tick(now);
  }

  showHandlers(handlers) {
    while (this.handlers.children.length > handlers.length) this.handlers.lastChild.remove();
    handlers.forEach((handler, index) => {
      let row = this.handlers.children[index];
      if (!row) {
        row = element("li");
        row.append(element("span", "name"), element("span", "lag"));
        this.handlers.append(row);
      }
      const [name] = row.children;
      setText(name, shortName(handler.name));
      name.title = handler.name;
      row.classList.toggle("behind", handler.pending > 100);
    });
  }

  tick(now) {
    this.rates.idle(now);
    const { last_received, retry_at, handlers } = this.informer;
    setText(this.badge, retry_at === null ? this.word : `retrying in ${span(Math.max(0, retry_at - now))}`);
    setText(this.fields.last_received, last_received === null ? "never" : ago(now - last_received));
    handlers.forEach((handler, index) => {
      const behind = handler.since === null ? "" : `, ${span(Math.max(0, now - handler.since))} behind`;
      setText(this.handlers.children[index].lastChild, `${number(handler.pending)} pending${behind}`);
    });
    const last = this.samples[this.samples.length - 1];
    if (!last || now - last[0] >= 1000) this.samples.push([now, this.informer.objects]);
    else last[1] = this.informer.objects;
    if (this.samples.length > SAMPLES) this.samples.shift();
    const values = this.samples.map((sample) => sample[1]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const x = (index) => (index * 100) / Math.max(values.length - 1, 10);
    const y = (value) => (high === low ? 12 : 22 - ((value - low) * 20) / (high - low));
    this.line.setAttribute("points", values.map((value, index) => `${x(index).toFixed(1)},${y(value).toFixed(1)}`).join(" "));
    this.spark.setAttribute("aria-label", `objects in the last minute: from ${low} to ${high}`);
  }
}

class QueueCard extends SourceCard {
  constructor(queue) {
    super(queue.name, "work queue", [
      ["queue", "work queue", "ready", "ready", [["delayed", "delayed"], ["failing", "failing"], ["rate", "adds/s"], ["planned", "planned"]]],
      ["workers", "workers", "in_flight", "in flight", [["longest", "longest"], ["done", "finished/s"], ["finished", "finished"], ["failed", "failed"]]],
    ]);
    this.badge = element("p", "state");
    this.head.append(this.badge);
  }

  show(queue, now) {
    this.count(queue.counts, now);
    this.queue = queue;
    for (const field of ["ready", "delayed", "failing", "in_flight"]) setText(this.fields[field], number(queue[field]));
    setText(this.fields.finished, number(queue.counts.finished));
    setText(this.fields.failed, number(queue.counts.failed));
    setText(this.fields.planned, number(queue.counts.planned));
    this.fields.failing.parentElement.classList.toggle("bad", queue.failing > 0);
    this.badge.hidden = !queue.shutting_down;
    setText(this.badge, queue.shutting_down ? "shutting down" : "");
    this.badge.dataset.state = "quiet";
    if (this.passed.dequeued) flash(this.arrows.workers);
    this.tick(now);
  }

  tick(now) {
    this.rates.idle(now);
    setText(this.fields.rate, rate(this.rates.per("added")));
    setText(this.fields.done, rate(this.rates.per("finished")));
    const since = this.queue.longest_running;
    setText(this.fields.longest, since === null ? "–" : span(Math.max(0, now - since)));
  }
}

// Default handler names are type names; shows them without module paths.
function shortName(name) {
  return name.replace(/\b(\w+::)+/g, "").replace(/::\{\{closure\}\}/g, "") || name;
}
