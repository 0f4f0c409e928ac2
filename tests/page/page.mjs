// Tests the live page in a browser: loading, updates, following a key, narrow screens, the dark scheme, an empty console, and a
// restart of the program. See run.sh.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { browser } from "./browser.mjs";
import { serve } from "./fake.mjs";

const TIMEOUT = 20000;
// The event count and the event rate that the page shows.
const EVENTS = `Number(document.querySelector("#server [data-field=received]").textContent.replace(/\\D/g, ""))`;
const RATE = `document.querySelector("#server [data-field=rate]").textContent`;

const { screenshots, wait, command } = readArguments(process.argv.slice(2));
const scratch = mkdtempSync(join(tmpdir(), "evenkeel-page-"));
const children = [];
let driver;
let failures = 0;

try {
  const url = await program(command);
  driver = await browser(children, scratch);
  await test(url);
  await testMadeUp();
} catch (error) {
  console.error(`FAILED  ${error.stack ?? error}`);
  failures += 1;
} finally {
  await driver?.quit().catch(() => {});
  for (const child of children) child.kill();
  rmSync(scratch, { recursive: true, force: true });
}
console.log(failures ? `${failures} checks failed` : "all checks passed");
process.exit(failures ? 1 : 0);

async function test(url) {
  await size(1440, 930);
  await scheme("light");
  await driver.open(url);
  await check("the page loads and is live", async () => {
    await until(`document.querySelector("#live").textContent === "live"`);
    await until(`document.querySelectorAll("#informers .card").length > 0`);
  });
  await check("informers and queues are shown by name", async () => {
    const names = await driver.run(`return [...document.querySelectorAll(".card h2")].map((name) => name.textContent)`);
    expect(names.length >= 2 && names.every((name) => name.length > 0), `names: ${names}`);
  });
  await check("counts increase", async () => {
    // A count, because ages change without events.
    const before = await driver.run(`return ${EVENTS}`);
    expect(before > 0, `${before} events`);
    await until(`${EVENTS} > ${before}`);
  });
  await check("rates decay while idle", async () => {
    await until(`${RATE} !== "0"`);
    children[0].kill("SIGSTOP");
    try {
      await until(`${RATE} === "0" && document.querySelector("#live").textContent === "live"`);
    } finally {
      children[0].kill("SIGCONT");
    }
  });
  await check("a hidden page closes its stream", async () => {
    await setVisible(false);
    await until(`document.querySelector("#live").textContent.startsWith("paused")`);
    const before = await driver.run(`return ${EVENTS}`);
    await new Promise((wake) => setTimeout(wake, 2000));
    expect((await driver.run(`return ${EVENTS}`)) === before, "it still receives updates");
    await setVisible(true);
    await until(`document.querySelector("#live").textContent === "live" && ${EVENTS} > ${before}`);
  });
  await check("arrows flash on events", () => until(`document.querySelector(".arrow[data-pass]")`));
  await check("wires connect the server, the queues and the workers", async () => {
    await until(`["in", "feed", "back"].every((kind) => document.querySelector("#wires path." + kind)?.getAttribute("d"))`);
  });
  await check("the watch state is shown as a word", async () => {
    await until(`[...document.querySelectorAll("[data-stage=reflector] .state")].every((state) => state.textContent === "watching")`);
  });
  await check("notifications are listed", () => until(`document.querySelectorAll("#notifications .key").length > 5`));
  await new Promise((wake) => setTimeout(wake, wait * 1000));
  await picture("light");

  let key;
  await check("clicking a key follows it", async () => {
    key = await driver.run(`const key = document.querySelector("#notifications .key"); key.click(); return key.textContent`);
    await until(`document.querySelector("#followed-title").textContent === ${JSON.stringify(key)}`);
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });
  await check("the stage of the key is highlighted", () => until(`document.querySelectorAll(".stage.lit").length === 1`));
  await check("steps are in order, and new ones are appended", async () => {
    const before = await driver.run(`return document.querySelectorAll("#steps li").length`);
    await until(`document.querySelectorAll("#steps li").length > ${before}`, 60000);
    const ids = await driver.run(`return [...document.querySelectorAll("#steps li")].map((step) => Number(step.dataset.id))`);
    expect(ids.every((id, index) => index === 0 || id > ids[index - 1]), `step ids: ${ids}`);
    const text = await driver.run(`return document.querySelector("#steps").innerText`);
    expect(/cause: \w+ \S+/.test(text), `no step has a cause: ${text}`);
  });
  await picture("following-light");
  await scheme("dark");
  await picture("following-dark");
  await scheme("light");
  await check("the address contains the followed key", async () => {
    await driver.open(`${url}#${encodeURIComponent(key)}`);
    await driver.refresh();
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });
  await check("a key can be followed and unfollowed by keyboard", async () => {
    await driver.run(`document.querySelector("#unfollow").click()`);
    await until(`document.querySelector("#followed").hidden`);
    await driver.type("#key", `${key}\uE007`);
    await until(`!document.querySelector("#followed").hidden && document.querySelectorAll("#steps li").length > 3`);
  });
  await check("a key with markup is shown as text", async () => {
    const markup = "<img src=x onerror=document.title='x'>";
    await driver.run(`const key = document.querySelector("#key"); key.value = arguments[0]; key.form.requestSubmit()`, markup);
    await until(`document.querySelector("#followed-title").textContent === ${JSON.stringify(markup)}`);
    expect((await driver.run(`return document.querySelectorAll("#followed img").length`)) === 0, "it became an element");
    await driver.run(`const field = document.querySelector("#key"); field.value = arguments[0]; field.form.requestSubmit()`, key);
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });

  await check("a key that is too long is rejected while the page stays live", async () => {
    const long = "x".repeat(2000);
    await driver.run(`const key = document.querySelector("#key"); key.value = arguments[0]; key.form.requestSubmit()`, long);
    await until(`/too long/.test(document.querySelector("#position").textContent)`);
    const before = await driver.run(`return ${EVENTS}`);
    await until(`${EVENTS} > ${before}`);
    expect((await driver.run(`return document.querySelector("#live").textContent`)) === "live", "it is not live");
  });
  await check("a step of another key does not change the stage of the followed key", async () => {
    const stage = await driver.run(`
      const { Followed } = await import("./lists.js");
      const step = { id: 1, at: 0, source: "work", stage: "done", key: "default/a", version: "", text: "reconciled", failed: false, cause: null };
      const followed = new Followed(() => {});
      followed.reset("default/a");
      return followed.add([step, { ...step, id: 2, stage: "queue", key: "default/owner" }], 0).stage`);
    expect(stage === "done", `the stage is ${stage}`);
    await driver.open(`${url}#${encodeURIComponent(key)}`);
    await driver.refresh();
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });
  await check("live regions contain no ages", async () => {
    const inside = await driver.run(`return document.querySelectorAll("[role=status] time, [aria-live] time").length`);
    expect(inside === 0, `${inside} ages are in live regions`);
    await until(`/ago$/.test(document.querySelector("#since").textContent)`);
  });

  const light = await background();
  await scheme("dark");
  await check("the dark scheme is dark and the light one is light", async () => {
    const dark = await background();
    expect(dark !== light, `both are ${light}`);
    expect(brightness(light) > 200 && brightness(dark) < 60, `light ${light}, dark ${dark}`);
  });
  await driver.run(`document.querySelector("#unfollow").click()`);
  await until(`document.querySelectorAll("#notifications .key").length > 5`);
  await picture("dark");

  for (const width of [360, 768, 1100]) {
    await size(width, 800);
    await check(`the page fits ${width} pixels`, async () => {
      const inner = await driver.run(`return innerWidth`);
      expect(inner === width, `the window is ${inner} wide`);
      const over = await driver.run(`
        const wide = [...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > innerWidth + 1);
        return [document.documentElement.scrollWidth - innerWidth, wide.map((node) => node.tagName + "." + node.className).slice(0, 5)]`);
      expect(over[0] <= 0 && over[1].length === 0, `too wide: ${JSON.stringify(over)}`);
    });
  }
  await size(360, 800);
  await picture("phone-dark", true);
  await driver.run(`document.querySelector("#notifications .key").click()`);
  await until(`document.querySelectorAll("#steps li").length > 3`);
  await scheme("light");
  await picture("phone-following-light", true);
  await check("reduced motion disables animations", async () => {
    await size(1440, 930);
    await driver.media([{ name: "prefers-reduced-motion", value: "reduce" }]);
    // An arrow flashes briefly, so one script finds and checks it.
    await until(`[...document.querySelectorAll(".arrow[data-pass]")].some((arrow) => getComputedStyle(arrow).animationName === "none")`);
  });
  await check("the console is empty", () => expectEmptyConsole());
  await check("the page shows a lost connection", async () => {
    children[0].kill();
    await until(`document.querySelector("#live").dataset.state === "bad"`);
    expect(/lost|stopped/.test(await driver.run(`return document.querySelector("#live").textContent`)), "the text does not name the cause");
  });
  await check("the page resets after a restart of the program", async () => {
    await driver.run(`for (const row of document.querySelectorAll(".card, #steps li, #notifications li, #errors li")) row.dataset.old = ""`);
    const again = await program([...command, "--listen", new URL(url).host]);
    expect(again === url, `the address is ${again}`);
    await until(`document.querySelector("#live").textContent === "live" && document.querySelectorAll("#steps li").length > 3`);
    const old = await driver.run(`return document.querySelectorAll("[data-old]").length`);
    expect(old === 0, `${old} rows are from the previous run`);
  });
}

// Pages of a made-up program: ten kinds with failing keys, and ten kinds without any key.
async function testMadeUp() {
  await scheme("light");
  await driver.media([]);
  let server = await serve(false);
  await size(1280, 800);
  await driver.open(server.url);
  await check("ten kinds fit one screen, below the keys that need attention", async () => {
    await until(`document.querySelectorAll(".card").length === 20`);
    const [top, bottom] = await driver.run(`
      const boxes = [...document.querySelectorAll(".card")].map((card) => card.getBoundingClientRect());
      return [document.querySelector("#attention").getBoundingClientRect().top, Math.max(...boxes.map((box) => box.bottom))]`);
    expect(top < 100 && bottom <= 800, `keys start at ${top}, kinds end at ${bottom}`);
  });
  await check("failing keys come first, with error, attempts, next try and reason", async () => {
    const row = await driver.run(`return [...document.querySelector("#attention-keys tr").children].map((cell) => cell.textContent)`);
    expect(row[0] === "failing" && row[3] === "12" && /admission webhook/.test(row[4]) && /^in /.test(row[5]) && /updated/.test(row[6]), `${row}`);
    const order = await driver.run(`return [...document.querySelectorAll("#attention-keys .state")].map((state) => state.textContent)`);
    expect(order.indexOf("parked") > order.lastIndexOf("failing") && order.indexOf("ready") > order.indexOf("parked"), `${order}`);
  });
  await check("long errors keep the rows low", async () => {
    const heights = await driver.run(`return [...document.querySelectorAll("#attention-keys tr")].map((row) => row.getBoundingClientRect().height)`);
    expect(Math.max(...heights) < 70, `${heights}`);
  });
  await check("durations, failures and planned requeues are shown for each queue", async () => {
    const row = await driver.run(`return [...document.querySelectorAll("#durations-rows tr")][1].innerText.split("\t")`);
    expect(row.length === 6 && row[1] === "6.4 ms" && row[4] === "1" && row[5] === "20", `${row}`);
  });
  await check("a standby is shown as such", () => until(`document.querySelector("#role").textContent === "standby" && /pod-a leads/.test(document.querySelector("#role").title)`));
  await picture("ten-kinds");
  await check("an object without recent steps is shown with its stores", async () => {
    await driver.run(`const key = document.querySelector("#key"); key.value = "default/old"; key.form.requestSubmit()`);
    await until(`/stored by deployments.apps @17/.test(document.querySelector("#position").textContent)`);
  });
  server.close();
  server = await serve(true);
  await driver.open(server.url);
  await check("empty lists are one line", async () => {
    await until(`document.querySelectorAll("li.none").length === 2`);
    const heights = await driver.run(`return [...document.querySelectorAll("li.none")].map((row) => row.getBoundingClientRect().height)`);
    expect(heights.every((height) => height > 0 && height < 40), `heights: ${heights}`);
    expect(!(await driver.run(`return document.querySelector("#attention-none").hidden`)), "an empty table says so");
  });
  await size(360, 800);
  await check("ten kinds fit 360 pixels", async () => {
    const over = await driver.run(`return document.documentElement.scrollWidth - innerWidth`);
    expect(over <= 0, `${over} pixels too wide`);
  });
  await picture("ten-kinds-phone", true);
  server.close();
}

async function check(what, body) {
  try {
    await body();
    console.log(`ok      ${what}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED  ${what}: ${error.message}`);
    await picture(`failed-${failures}`);
  }
}

function expect(condition, message) {
  if (!condition) throw new Error(message);
}

async function until(condition, timeout = TIMEOUT) {
  const end = Date.now() + timeout;
  while (Date.now() < end) {
    if (await driver.run(`return Boolean(${condition})`)) return;
    await new Promise((wake) => setTimeout(wake, 50));
  }
  throw new Error(`timed out waiting for: ${condition}`);
}

async function expectEmptyConsole() {
  const lines = (await driver.log()).filter((line) => line.level !== "DEBUG" && line.level !== "INFO");
  expect(lines.length === 0, lines.map((line) => line.message).join("\n"));
}

// Simulates a visible or a hidden tab.
function setVisible(isVisible) {
  return driver.run(`
    Object.defineProperty(document, "hidden", { configurable: true, value: !arguments[0] });
    document.dispatchEvent(new Event("visibilitychange"));`, isVisible);
}

function background() {
  return driver.run(`return getComputedStyle(document.body).backgroundColor`);
}

function brightness(colour) {
  const parts = colour.match(/\d+/g).map(Number);
  return (parts[0] + parts[1] + parts[2]) / 3;
}

function scheme(value) {
  return driver.media([{ name: "prefers-color-scheme", value }]);
}

function size(width, height) {
  return driver.metrics(width, height);
}

async function picture(name, whole = false) {
  // Waits for pending rendering.
  await driver.run(`return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`);
  if (!screenshots) return;
  mkdirSync(screenshots, { recursive: true });
  writeFileSync(join(screenshots, `${name}.png`), await driver.screenshot(whole));
}

// Starts the program and returns the address that it prints.
function program(command) {
  const [name, ...rest] = command;
  const child = spawn(name, rest, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  return new Promise((found, failed) => {
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`${name} exited with ${code} before it printed an address`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const url = line.match(/http:\/\/\S+/);
      if (url) found(url[0]);
    });
  });
}

function readArguments(given) {
  const left = [...given];
  const options = { "--screenshots": null, "--wait": "0" };
  while (left[0] in options) options[left.shift()] = left.shift();
  if (!left.length || left[0].startsWith("--")) {
    console.error("run.sh [--screenshots FOLDER] [--wait SECONDS] PROGRAM [ARGUMENT...]");
    process.exit(2);
  }
  return { screenshots: options["--screenshots"], wait: Number(options["--wait"]), command: left };
}
