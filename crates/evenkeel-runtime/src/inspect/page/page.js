// Updates the page from one event stream: a full report first, then changes.

import { Attention } from "./attention.js";
import { Followed, Lists } from "./lists.js";
import { Picture } from "./picture.js";
import { Rings } from "./rings.js";
import { ago, setText } from "./format.js";

// The connection counts as lost after this many milliseconds without an event.
const SILENCE = 12000;
// The server refuses longer keys, in bytes.
const KEY_LENGTH = 1024;
const REFUSED = "not connected: the program has stopped, or too many pages are open";

const live = document.getElementById("live");
const silenceTime = document.getElementById("silence");
const form = document.getElementById("follow");
const picture = new Picture(document.getElementById("picture"));
const attention = new Attention(follow);
const lists = new Lists(follow);
const rings = new Rings();
const followed = new Followed(() => follow(null));

let source = null;
let key = null;
let run = null;
// The clock of the program minus the clock of this page.
let offset = 0;
let lastReceived = performance.now();
let isLost = false;
let isRefused = false;

function now() {
  return performance.now() + offset;
}

function follow(name) {
  const wanted = name || null;
  location.hash = wanted === null ? "" : `#${encodeURIComponent(wanted)}`;
  if (wanted === key) return;
  key = wanted;
  form.elements.key.value = key ?? "";
  resetFollowed();
  picture.light(null);
  connect();
}

// Clears the steps of the followed key.
function resetFollowed() {
  if (isTooLong()) followed.reset(key, "The key is too long.");
  else followed.reset(key);
}

function isTooLong() {
  return key !== null && new TextEncoder().encode(key).length > KEY_LENGTH;
}

// A browser limits the connections to a server across all tabs, so a hidden tab closes its stream.
function connect() {
  source?.close();
  source = null;
  if (document.hidden) return setState("paused while hidden", "quiet");
  source = new EventSource(key === null || isTooLong() ? "events" : `events?follow=${encodeURIComponent(key)}`);
  source.onmessage = (message) => {
    alive();
    receive(JSON.parse(message.data));
  };
  source.addEventListener("alive", alive);
  source.onerror = lost;
}

function alive() {
  lastReceived = performance.now();
  isLost = false;
  setState("live", "good");
  setText(silenceTime, "");
}

function lost() {
  isLost = true;
  isRefused = source?.readyState === EventSource.CLOSED;
  if (run === null) setState(REFUSED, "bad");
  else tick();
  // The browser reconnects by itself, unless the server refused the stream.
  if (isRefused) setTimeout(() => isLost && source && connect(), 2000);
}

function setState(word, kind) {
  setText(live, word);
  live.dataset.state = kind;
  document.body.classList.toggle("lost", kind === "bad");
}

function receive(update) {
  offset = update.now - performance.now();
  if (run !== update.run) {
    if (run !== null) {
      picture.reset();
      attention.reset();
      lists.reset();
      rings.reset();
    }
    run = update.run;
  }
  if (update.first) {
    resetFollowed();
    picture.light(null);
  }
  setText(document.getElementById("program"), update.program || "inspect");
  document.title = `${update.program || "inspect"} · evenkeel`;
  document.getElementById("empty").hidden = update.informers.length + update.queues.length > 0;
  picture.root.hidden = update.informers.length + update.queues.length === 0;
  picture.show(update);
  attention.show(update);
  lists.add(update);
  if (update.rings) rings.show(update.rings);
  if (update.follow && update.follow.key === key) picture.light(followed.add(update.follow.steps, update.now, update.follow.stored));
}

function tick() {
  if (source === null) return;
  const silence = performance.now() - lastReceived;
  if (run !== null && (isLost || silence > SILENCE)) {
    setState(isLost && isRefused ? REFUSED : "connection lost", "bad");
    setText(silenceTime, `last update ${ago(silence)}`);
    return;
  }
  if (run === null) return;
  picture.tick(now());
  attention.tick(now());
  lists.tick(now());
  followed.tick(now());
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  follow(form.elements.key.value.trim());
});

// Returns the key in the fragment of the address.
function keyOfAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
}

window.addEventListener("hashchange", () => follow(keyOfAddress()));
document.addEventListener("visibilitychange", () => {
  lastReceived = performance.now();
  isLost = false;
  setText(silenceTime, "");
  connect();
});
setInterval(tick, 1000);
key = keyOfAddress();
form.elements.key.value = key ?? "";
resetFollowed();
connect();
