// Keeps the page up to date: one stream of events, which says everything first and then what is new.

import { Followed, Lists } from "./lists.js";
import { Picture } from "./picture.js";
import { ago, say } from "./words.js";

const SILENCE = 12000;
// The server refuses to follow a key of more bytes than this.
const KEY_LENGTH = 1024;
const REFUSED = "no connection: the program is gone, or too many pages are open";

const live = document.getElementById("live");
const silenceTime = document.getElementById("silence");
const form = document.getElementById("follow");
const picture = new Picture(document.getElementById("picture"));
const lists = new Lists(follow);
const followed = new Followed(() => follow(null));

let source = null;
let key = null;
let run = null;
// What time it is for the program when it is 0 here.
let offset = 0;
let heard = performance.now();
let isGone = false;
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
  startAnew();
  picture.light(null);
  connect();
}

// Forgets the steps of the key that is followed.
function startAnew() {
  if (isTooLong()) followed.reset(key, "That is too long for a key.");
  else followed.reset(key);
}

function isTooLong() {
  return key !== null && new TextEncoder().encode(key).length > KEY_LENGTH;
}

// A browser opens only a few connections to a server, for all tabs together: one that nobody sees has none.
function connect() {
  source?.close();
  source = null;
  if (document.hidden) return state("paused while nobody looks", "quiet");
  source = new EventSource(key === null || isTooLong() ? "events" : `events?follow=${encodeURIComponent(key)}`);
  source.onmessage = (message) => {
    alive();
    receive(JSON.parse(message.data));
  };
  source.addEventListener("alive", alive);
  source.onerror = gone;
}

function alive() {
  heard = performance.now();
  isGone = false;
  state("live", "good");
  say(silenceTime, "");
}

function gone() {
  isGone = true;
  isRefused = source?.readyState === EventSource.CLOSED;
  if (run === null) state(REFUSED, "bad");
  else tick();
  // A browser comes back by itself, unless it was refused.
  if (isRefused) setTimeout(() => isGone && source && connect(), 2000);
}

function state(word, kind) {
  say(live, word);
  live.dataset.state = kind;
  document.body.classList.toggle("gone", kind === "bad");
}

function receive(news) {
  offset = news.now - performance.now();
  if (run !== news.run) {
    if (run !== null) {
      picture.reset();
      lists.reset();
    }
    run = news.run;
  }
  if (news.first) {
    startAnew();
    picture.light(null);
  }
  say(document.getElementById("program"), news.program || "inspect");
  document.title = `${news.program || "inspect"} · evenkeel`;
  document.getElementById("empty").hidden = news.informers.length + news.queues.length > 0;
  picture.root.hidden = news.informers.length + news.queues.length === 0;
  picture.show(news);
  lists.add(news);
  if (news.follow && news.follow.key === key) picture.light(followed.add(news.follow.steps, news.now));
}

function tick() {
  if (source === null) return;
  const silence = performance.now() - heard;
  if (run !== null && (isGone || silence > SILENCE)) {
    state(isGone && isRefused ? REFUSED : "the program is gone", "bad");
    say(silenceTime, `last heard ${ago(silence)}`);
    return;
  }
  if (run === null) return;
  picture.tick(now());
  lists.tick(now());
  followed.tick(now());
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  follow(form.elements.key.value.trim());
});

// The key that the address names.
function named() {
  try {
    return decodeURIComponent(location.hash.slice(1)) || null;
  } catch {
    return null;
  }
}

window.addEventListener("hashchange", () => follow(named()));
document.addEventListener("visibilitychange", () => {
  heard = performance.now();
  isGone = false;
  say(silenceTime, "");
  connect();
});
setInterval(tick, 1000);
key = named();
form.elements.key.value = key ?? "";
startAnew();
connect();
