// The picture: one lane for each informer and each queue, and the wires between them.

import { ago, element, flash, number, rate, say, span } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const SAMPLES = 60;
const WINDOW = 3000;

const WATCH = {
  watching: "good",
  listing: "busy",
  waiting: "bad",
  idle: "quiet",
  stopped: "quiet",
  "not started": "quiet",
};

export class Picture {
  constructor(root) {
    this.root = root;
    this.server = root.querySelector("#server");
    this.lanes = new Map();
    this.wires = new Map();
    this.wireLayer = root.querySelector("#wires");
    this.writes = root.querySelector("#writes");
    new ResizeObserver(() => this.layWires()).observe(root);
  }

  reset() {
    for (const lane of this.lanes.values()) lane.root.remove();
    this.lanes.clear();
    for (const wire of this.wires.values()) wire.remove();
    this.wires.clear();
  }

  // Shows informers and queues as they are now.
  show(state) {
    const seen = new Set();
    for (const informer of state.informers) {
      const lane = this.lane(`informer ${informer.name}`, "informers", () => new InformerLane(informer));
      seen.add(`informer ${informer.name}`);
      lane.show(informer, state.now);
    }
    for (const queue of state.queues) {
      const lane = this.lane(`queue ${queue.name}`, "queues", () => new QueueLane(queue));
      seen.add(`queue ${queue.name}`);
      lane.show(queue, state.now);
    }
    for (const [name, lane] of this.lanes) {
      if (!seen.has(name)) {
        lane.root.remove();
        this.lanes.delete(name);
      }
    }
    const informers = [...this.lanes.values()].filter((lane) => lane instanceof InformerLane);
    say(this.field("heard"), number(informers.reduce((sum, lane) => sum + lane.counts.heard, 0)));
    say(this.field("watches"), `${informers.filter((lane) => lane.watch === "watching").length}/${informers.length}`);
    this.sayRate();
    this.connect(state);
  }

  field(name) {
    return this.server.querySelector(`[data-field=${name}]`);
  }

  sayRate() {
    let sum = 0;
    for (const lane of this.lanes.values()) if (lane instanceof InformerLane) sum += lane.rates.per("heard");
    say(this.field("rate"), rate(sum));
  }

  lane(name, place, make) {
    let lane = this.lanes.get(name);
    if (!lane) {
      lane = make();
      this.lanes.set(name, lane);
      this.root.querySelector(`#${place}`).append(lane.root);
    }
    return lane;
  }

  // Times that pass while nothing happens.
  tick(now) {
    for (const lane of this.lanes.values()) lane.tick(now);
    this.sayRate();
  }

  // Lights the stage that a followed key is at, and no other.
  light(step) {
    for (const lit of this.root.querySelectorAll(".lit")) lit.classList.remove("lit");
    if (!step) return;
    const isQueue = ["queue", "waiting", "workers", "done"].includes(step.stage);
    const lane = this.lanes.get(`${isQueue ? "queue" : "informer"} ${step.lane}`);
    if (!lane) return;
    const stage = { deltas: "deltas", store: "store", handlers: "handlers", queue: "queue", waiting: "queue", workers: "workers", done: "workers" }[step.stage];
    lane.stages[stage]?.classList.add("lit");
    if (step.stage === "waiting") lane.fields.waiting?.parentElement.classList.add("lit");
  }

  // Which wires there are: from the server to each informer, from handlers to the queues that they feed, and back.
  connect(state) {
    const wanted = new Map();
    for (const informer of state.informers) {
      const lane = this.lanes.get(`informer ${informer.name}`);
      wanted.set(`in ${informer.name}`, [this.server, lane.stages.reflector, lane.passed.heard]);
      const feeds = new Set(informer.handlers.flatMap((handler) => handler.feeds));
      for (const name of feeds) {
        const queue = this.lanes.get(`queue ${name}`);
        if (queue) wanted.set(`feed ${informer.name} ${name}`, [lane.stages.handlers, queue.stages.queue, lane.passed.told && queue.passed.added]);
      }
    }
    for (const queue of state.queues) {
      const lane = this.lanes.get(`queue ${queue.name}`);
      wanted.set(`back ${queue.name}`, [lane.stages.workers, this.server, lane.passed.finished]);
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

// How often something passes, seen over a few seconds.
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

  // Lets times pass in which nothing was counted.
  idle(now) {
    const last = this.samples[this.samples.length - 1];
    if (last && now - last[0] > 900) this.add(now, last[1]);
  }
}

class Lane {
  constructor(name, label, stages) {
    this.root = element("article", "lane");
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

class InformerLane extends Lane {
  constructor(informer) {
    super(informer.name, "informer", [
      ["reflector", "reflector", null, "", [["version", "version"], ["last_heard", "heard"], ["relists", "relists"]]],
      ["deltas", "delta queue", "queued", "queued", [["heard", "so far"]]],
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
    const { version, queued, objects, heard, relists } = this.fields;
    say(version, informer.version || "–");
    say(queued, number(informer.queued));
    say(objects, number(informer.objects));
    say(heard, number(informer.counts.heard));
    say(relists, number(informer.relists));
    this.word = informer.watch === "watching" && !informer.synced ? "listing" : informer.watch;
    this.badge.dataset.state = WATCH[this.word] ?? "quiet";
    this.badge.title = informer.last_error ? `last error: ${informer.last_error}` : "";
    if (this.passed.heard) flash(this.arrows.deltas);
    if (this.passed.applied) flash(this.arrows.store);
    if (this.passed.told) flash(this.arrows.handlers);
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
      say(name, shortName(handler.name));
      name.title = handler.name;
      row.classList.toggle("behind", handler.pending > 100);
    });
  }

  tick(now) {
    this.rates.idle(now);
    const { last_heard, retry_at, handlers } = this.informer;
    say(this.badge, retry_at === null ? this.word : `${this.word} for ${span(Math.max(0, retry_at - now))}`);
    say(this.fields.last_heard, last_heard === null ? "never" : ago(now - last_heard));
    handlers.forEach((handler, index) => {
      const behind = handler.since === null ? "" : `, ${span(Math.max(0, now - handler.since))} behind`;
      say(this.handlers.children[index].lastChild, `${number(handler.pending)} pending${behind}`);
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

class QueueLane extends Lane {
  constructor(queue) {
    super(queue.name, "work queue", [
      ["queue", "work queue", "ready", "ready", [["waiting", "waiting"], ["failing", "failing"], ["rate", "adds/s"], ["retries", "retries"]]],
      ["workers", "workers", "processing", "in flight", [["longest", "longest"], ["done", "done/s"], ["finished", "finished"], ["failed", "failed"]]],
    ]);
    this.badge = element("p", "state");
    this.head.append(this.badge);
  }

  show(queue, now) {
    this.count(queue.counts, now);
    this.queue = queue;
    for (const field of ["ready", "waiting", "failing", "retries", "processing"]) say(this.fields[field], number(queue[field]));
    say(this.fields.finished, number(queue.counts.finished));
    say(this.fields.failed, number(queue.counts.failed));
    this.fields.failing.parentElement.classList.toggle("bad", queue.failing > 0);
    this.badge.hidden = !queue.shutting_down;
    say(this.badge, queue.shutting_down ? "shutting down" : "");
    this.badge.dataset.state = "quiet";
    if (this.passed.taken) flash(this.arrows.workers);
    this.tick(now);
  }

  tick(now) {
    this.rates.idle(now);
    say(this.fields.rate, rate(this.rates.per("added")));
    say(this.fields.done, rate(this.rates.per("finished")));
    const since = this.queue.longest_running;
    say(this.fields.longest, since === null ? "–" : span(Math.max(0, now - since)));
  }
}

// Handlers are called after the types that they are. What is before the last part of a path says little.
function shortName(name) {
  return name.replace(/\b(\w+::)+/g, "").replace(/::\{\{closure\}\}/g, "") || name;
}
