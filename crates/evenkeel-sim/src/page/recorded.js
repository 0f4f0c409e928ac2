import { element, number, setText, span } from "./format.js";

// Shows a recorded run: the timeline step by step, the processes as lanes, and the objects after each step.

const ROW = 26;
const AXIS = 18;
const SVG = "http://www.w3.org/2000/svg";
const MOVES = { first: () => 0, back: (at) => at - 1, forward: (at) => at + 1, last: () => lines.length - 1, failure: () => failing };
const KEYS = { ArrowLeft: "back", ArrowRight: "forward", ArrowUp: "back", ArrowDown: "forward", k: "back", j: "forward", Home: "first", End: "last", f: "failure" };

const run = JSON.parse(document.getElementById("run").textContent);
const lines = run.lines;
const failing = run.failure?.line ?? null;
const by = (id) => document.getElementById(id);
const [slider, list, objects, tracks] = [by("slider"), by("lines"), by("objects"), by("tracks")];
const lanes = laneNames();
let current = 0;
// Details that the reader has opened, by resource and key.
const opened = new Set();

// The cluster, the workload and the processes, in the order of the scenario.
function laneNames() {
  const named = new Set(lines.map((line) => line.process));
  const known = ["cluster", "workload", ...run.processes].filter((name) => named.has(name));
  return [...known, ...[...named].filter((name) => !known.includes(name))];
}

function kindOf(line, index) {
  const { what } = line;
  if (index === failing || what.startsWith("invariant broken")) return "failure";
  if (what.startsWith("logs: ")) return "log";
  if (/\bcrashes\b/.test(what) || /^ends: /.test(what) || /^restarts onto/.test(what)) return "crash";
  if (/^is paused|is stuck|its clock jumps|discards its history|the server restarts/.test(what)) return "pause";
  if (/^[a-z ]+ \S+.*: /.test(what) && !/: [23]\d\d$/.test(what)) return "fault";
  if (/^(create|update|patch|delete)\b/.test(what)) return "write";
  return "event";
}

// Formats a virtual time in microseconds: minutes, seconds, milliseconds.
function clock(micros) {
  const seconds = Math.floor(micros / 1e6);
  const two = (value) => String(value).padStart(2, "0");
  return `${Math.floor(seconds / 60)}:${two(seconds % 60)}.${String(Math.floor(micros / 1e3) % 1000).padStart(3, "0")}`;
}

function lifeOf(line) {
  return line.life > 1 ? `${line.process} (life ${line.life})` : line.process;
}

function showHead() {
  setText(by("scenario"), run.scenario);
  document.title = `${run.scenario} · evenkeel simulation`;
  setText(by("verdict"), run.failure ? "invariant broken" : "all invariants hold");
  by("verdict").dataset.state = run.failure ? "bad" : "good";
  const faults = Object.entries(run.faults).map(([fault, count]) => `${fault} ${count}`);
  const totals = [`${span(run.simulated / 1e3)} simulated`, `${number(run.steps)} steps`, `${number(run.requests)} requests`];
  setText(by("totals"), [...totals, faults.length ? `faults: ${faults.join(", ")}` : "no injected faults"].join(" · "));
  by("failure").hidden = !run.failure;
  if (run.failure) setText(by("message"), `${run.failure.invariant}: ${run.failure.message}`);
  const command = `EVENKEEL_SIM_REPLAY='${run.replay}' cargo test`;
  setText(by("replay").firstElementChild, command);
  by("replay").querySelector("button").addEventListener("click", (event) => {
    navigator.clipboard?.writeText(command).then(() => setText(event.target, "Copied"));
  });
  document.querySelector("[data-go=failure]").hidden = failing === null;
}

function showLines() {
  list.append(...lines.map((line, index) => {
    const row = element("li", kindOf(line, index));
    row.title = `step ${number(line.step)}`;
    row.append(element("span", "at", clock(line.at)), element("span", "process", lifeOf(line)), element("span", "what", line.what));
    row.addEventListener("click", () => go(index));
    return row;
  }));
}

// Draws the lanes. A line has the same distance from the next one, whatever the time between them.
function drawLanes() {
  const width = tracks.clientWidth;
  const height = AXIS + lanes.length * ROW;
  tracks.setAttribute("height", height);
  tracks.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const x = (index) => 10 + (lines.length < 2 ? 0 : (index * (width - 20)) / (lines.length - 1));
  const y = (line) => AXIS + lanes.indexOf(line.process) * ROW + ROW / 2;
  const parts = [];
  const add = (tag, attributes, text) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    parts.push(node);
  };
  for (const [from, to] of lives()) add("line", { class: "life", x1: x(from), x2: Math.max(x(to), x(from) + 0.1), y1: y(lines[from]), y2: y(lines[from]) });
  let label = -Infinity;
  const seen = new Set();
  lines.forEach((line, index) => {
    const [kind, left] = [kindOf(line, index), x(index)];
    if (left - label > 90 && left < width - 50) {
      add("text", { x: left, y: 11 }, clock(line.at));
      label = left;
    }
    // Of many lines in one place one is drawn.
    const place = `${Math.round(left)} ${kind} ${line.process}`;
    if (!seen.has(place)) parts.push(mark(kind, left, y(line)));
    seen.add(place);
  });
  add("line", { class: "cursor", x1: 0, x2: 0, y1: AXIS - 4, y2: height });
  tracks.replaceChildren(...parts);
  placeCursor();
  tracks.onclick = (event) => {
    const at = (event.clientX - tracks.getBoundingClientRect().left - 10) / (width - 20);
    go(Math.round(at * (lines.length - 1)));
  };
}

// Each kind has a shape, so that it is readable without colour.
function mark(kind, x, y) {
  const shape = {
    write: `M${x - 4} ${y - 4}h8v8h-8z`,
    fault: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`,
    pause: `M${x} ${y - 6}l6 6l-6 6l-6 -6z`,
    crash: `M${x - 6} ${y - 4}l2 -2l4 4l4 -4l2 2l-4 4l4 4l-2 2l-4 -4l-4 4l-2 -2l4 -4z`,
    failure: `M${x} ${y - 8}l8 14h-16z`,
  }[kind] ?? `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0`;
  const node = document.createElementNS(SVG, "path");
  node.setAttribute("class", kind);
  node.setAttribute("d", shape);
  return node;
}

// The lives of processes: from a start to the last line of the same life.
function lives() {
  const found = new Map();
  lines.forEach((line, index) => {
    if (!run.processes.includes(line.process)) return;
    const life = found.get(lifeOf(line)) ?? [index, index];
    // A life goes on until the end of the run, unless it crashes.
    life[1] = index;
    found.set(lifeOf(line), life);
  });
  for (const name of run.processes) {
    const own = [...found.values()].filter(([from]) => lines[from].process === name);
    const last = own[own.length - 1];
    if (last && kindOf(lines[last[1]], last[1]) !== "crash") last[1] = lines.length - 1;
  }
  return found.values();
}

function placeCursor() {
  const cursor = tracks.querySelector(".cursor");
  const left = 10 + (lines.length < 2 ? 0 : (current * (tracks.clientWidth - 20)) / (lines.length - 1));
  cursor?.setAttribute("transform", `translate(${left} 0)`);
}

// Returns the objects after a line, by resource and key, each with the object before if this line has changed it.
function objectsAfter(index) {
  const now = new Map();
  for (const change of run.changes) {
    if (change.line > index) break;
    const place = `${change.resource} ${change.key}`;
    const before = now.get(place)?.object ?? null;
    const isNew = change.line === index && index > 0;
    if (change.object === null && !isNew) now.delete(place);
    else now.set(place, { ...change, before, isNew });
  }
  for (const [place, change] of now) if (change.object === null && !change.isNew) now.delete(place);
  return now;
}

// Returns the fields in which two values differ, with their path.
function differences(before, after, path = "") {
  const isTree = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isTree(before) || !isTree(after)) return JSON.stringify(before) === JSON.stringify(after) ? [] : [{ path, before, after }];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((name) => differences(before[name] ?? null, after[name] ?? null, path ? `${path}.${name}` : name));
}

function showObjects() {
  const now = [...objectsAfter(current)].sort(([a], [b]) => (a < b ? -1 : 1));
  const alive = now.filter(([, { object }]) => object !== null).length;
  setText(by("objects-count"), run.changes.length ? `${number(alive)} after this step` : "not recorded");
  objects.replaceChildren(...now.map(([place, change]) => objectRow(place, change)));
  if (!now.length) objects.append(element("p", "none", "None."));
  objects.querySelector(".created, .changed, .deleted")?.scrollIntoView({ block: "nearest" });
}

function objectRow(place, { resource, key, object, before, isNew }) {
  const kind = !isNew ? "" : object === null ? "deleted" : before === null ? "created" : "changed";
  const row = element("details", kind);
  const summary = element("summary");
  summary.append(element("span", "resource", `${resource} `), element("span", "key", key), element("span", "badge", kind));
  row.append(summary);
  if (kind === "changed") {
    const changes = element("ol");
    for (const { path, before: old, after } of differences(before, object)) {
      const item = element("li");
      const values = element("span");
      if (old !== null) values.append(element("span", "before", JSON.stringify(old)), " ");
      if (after !== null) values.append(element("span", "after", JSON.stringify(after)));
      item.append(element("span", "field", path), values);
      changes.append(item);
    }
    row.append(changes);
  }
  row.append(element("pre", "", JSON.stringify(object ?? before, null, 2)));
  row.open = kind === "changed" || opened.has(place);
  summary.addEventListener("click", () => (row.open ? opened.delete(place) : opened.add(place)));
  return row;
}

function go(index) {
  const rows = list.children;
  if (!rows.length) return;
  rows[current].removeAttribute("aria-current");
  current = Math.min(lines.length - 1, Math.max(0, index));
  const row = rows[current];
  row.setAttribute("aria-current", "step");
  for (let number = 0; number < rows.length; number += 1) rows[number].classList.toggle("later", number > current);
  row.scrollIntoView({ block: "nearest" });
  slider.value = current;
  const line = lines[current];
  setText(by("position"), `${number(current + 1)} of ${number(lines.length)} · ${clock(line.at)} · step ${number(line.step)}`);
  for (const [name, isOff] of [["first", current === 0], ["back", current === 0], ["forward", current === lines.length - 1], ["last", current === lines.length - 1]]) {
    document.querySelector(`[data-go=${name}]`).disabled = isOff;
  }
  placeCursor();
  showObjects();
  const address = `#${current + 1}`;
  if (location.hash !== address) history.replaceState(null, "", address);
}

function lineOfAddress() {
  const wanted = Number(location.hash.slice(1));
  return Number.isInteger(wanted) && wanted > 0 ? wanted - 1 : null;
}

showHead();
showLines();
by("names").append(element("p", "time"), ...lanes.map((name) => element("p", "", name)));
slider.max = Math.max(0, lines.length - 1);
slider.addEventListener("input", () => go(Number(slider.value)));
for (const button of document.querySelectorAll("[data-go]")) {
  button.addEventListener("click", () => go(MOVES[button.dataset.go](current)));
}
document.addEventListener("keydown", (event) => {
  const move = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!move || event.ctrlKey || event.metaKey || event.altKey || (move === "failure" && failing === null)) return;
  event.preventDefault();
  go(MOVES[move](current));
});
window.addEventListener("hashchange", () => go(lineOfAddress() ?? current));
new ResizeObserver(drawLanes).observe(tracks);
drawLanes();
go(lineOfAddress() ?? failing ?? 0);
