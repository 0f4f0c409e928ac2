// A server of the page with a made-up report: ten kinds, keys with long errors, a standby. The report does not change.

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const CRATES = join(dirname(fileURLToPath(import.meta.url)), "../../crates");
// The files of the live page, and those that it shares with the page of a recorded run.
const FOLDERS = [join(CRATES, "evenkeel-runtime/src/inspect/page"), join(CRATES, "evenkeel-base/src/page")];
const TYPES = { html: "text/html", css: "text/css", js: "text/javascript", svg: "image/svg+xml" };
const KINDS = ["deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch", "services", "endpointslices.discovery.k8s.io", "configmaps", "databases.storage.example.com"];
const LONG = "applying the Deployment default/web: the server refused the request: admission webhook \"policy.example.com\" denied it: containers must not run as root, images must come from registry.example.com, and limits of memory are required for every container (422)";

// The report, with or without keys and notifications.
export function report(isQuiet) {
  const informers = KINDS.map((name, index) => ({
    name, kind: name.split(".")[0], watch: index === 3 ? "backing off" : "watching", retry_at: index === 3 ? 90000 : null, synced: index !== 3,
    objects: index * 1371, version: String(88123 + index), queued: 0, last_received: 60000 - index * 900, relists: index % 3,
    last_error: index === 3 ? LONG : null, consistency: null,
    handlers: [{ name: "enqueue_key", pending: index, since: null, feeds: [name] }],
    counts: { received: 100, applied: 90, notified: 90, added: 0, dequeued: 0, finished: 0, failed: 0, planned: 0 },
  }));
  const queues = KINDS.map((name, index) => ({
    name, ready: index, in_flight: index % 3, delayed: 2 * index, failing: index % 4, longest_running: 59000, shutting_down: false,
    durations: { count: 512, p50: 3.2 * (index + 1), p99: 120 * (index + 1), max: 900 * (index + 1) },
    counts: { received: 0, applied: 0, notified: 0, added: 100, dequeued: 90, finished: 88, failed: index % 4, planned: 20 * index },
  }));
  const states = ["failing", "failing", "gave up", "parked", "in flight", "ready", "scheduled"];
  const rows = Array.from({ length: 24 }, (_, index) => {
    const state = states[Math.min(states.length - 1, Math.floor(index / 4))];
    const fails = state === "failing" || state === "gave up";
    return {
      key: `team-${index % 5}/a-service-with-a-long-name-${index}`, queue: KINDS[index % 10], state, since: 50000 + index * 100,
      next: state === "failing" || state === "scheduled" ? 70000 + index * 7000 : null, attempts: fails ? 12 - index : 0,
      error: fails ? LONG : null, why: "Deployment team-1/a-service-with-a-long-name updated",
    };
  });
  return {
    now: 61000, run: 1, program: "operator", first: true, informers, queues,
    keys: isQuiet ? { rows: [], tracked: 0 } : { rows, tracked: 240 },
    election: { leads: false, identity: "pod-b", leader: "pod-a" },
    notifications: isQuiet ? [] : [{ id: 1, at: 60000, informer: KINDS[0], what: "update", key: "default/web", version: "5" }],
    errors: isQuiet ? [] : [{ id: 2, at: 60000, component: KINDS[0], key: "default/web", error: LONG, count: 12 }], notes: [],
    follow: { key: "default/old", steps: [], stored: [{ informer: KINDS[0], version: "17" }] },
  };
}

// Serves the page on a free port. Returns its address, and a function that ends it.
export function serve(isQuiet) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    if (path === "/events") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(`data: ${JSON.stringify(report(isQuiet))}\n\n`);
      const beat = setInterval(() => response.write("event: alive\ndata: \n\n"), 2000);
      request.on("close", () => clearInterval(beat));
      return;
    }
    const name = path === "/" ? "index.html" : path.slice(1);
    try {
      const paths = FOLDERS.map((folder) => join(folder, name.replaceAll("/", "")));
      const text = readFileSync(paths.find((path) => existsSync(path)) ?? paths[0]);
      response.writeHead(200, { "content-type": TYPES[name.split(".").pop()] }).end(text);
    } catch {
      response.writeHead(404).end();
    }
  });
  return new Promise((listening) => server.listen(0, "127.0.0.1", () => listening({ url: `http://127.0.0.1:${server.address().port}/`, close: () => server.closeAllConnections() || server.close() })));
}
