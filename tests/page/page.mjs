// Looks at the page of the inspector as a person would: does it load, do its numbers move, can a key be followed, does it fit on
// a phone, does it have a dark side, does the console stay empty, and what becomes of it when the program goes and comes back. See
// run.sh.

import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Driver } from "./webdriver.mjs";

const PATIENCE = 20000;
// How many events the page knows of, and how many come in a second.
const EVENTS = `Number(document.querySelector("#server [data-field=heard]").textContent.replace(/\\D/g, ""))`;
const RATE = `document.querySelector("#server [data-field=rate]").textContent`;

const { screenshots, wait, command } = readArguments(process.argv.slice(2));
const scratch = mkdtempSync(join(tmpdir(), "evenkeel-page-"));
const children = [];
let driver;
let failures = 0;

try {
  const url = await program(command);
  driver = await browser();
  await test(url);
} catch (error) {
  console.error(`FAILED  ${error.stack ?? error}`);
  failures += 1;
} finally {
  await driver?.quit().catch(() => {});
  for (const child of children) child.kill();
  rmSync(scratch, { recursive: true, force: true });
}
console.log(failures ? `${failures} of the checks failed` : "all is well");
process.exit(failures ? 1 : 0);

async function test(url) {
  await size(1440, 930);
  await scheme("light");
  await driver.open(url);
  await check("the page loads and is live", async () => {
    await until(`document.querySelector("#live").textContent === "live"`);
    await until(`document.querySelectorAll("#informers .lane").length > 0`);
  });
  await check("informers and queues are there, by name", async () => {
    const lanes = await driver.run(`return [...document.querySelectorAll(".lane h2")].map((name) => name.textContent)`);
    expect(lanes.length >= 2 && lanes.every((name) => name.length > 0), `lanes: ${lanes}`);
  });
  await check("numbers move", async () => {
    // A count: times pass by themselves.
    const before = await driver.run(`return ${EVENTS}`);
    expect(before > 0, `there were ${before} events`);
    await until(`${EVENTS} > ${before}`);
  });
  await check("rates go down while nothing is heard", async () => {
    await until(`${RATE} !== "0"`);
    children[0].kill("SIGSTOP");
    try {
      await until(`${RATE} === "0" && document.querySelector("#live").textContent === "live"`);
    } finally {
      children[0].kill("SIGCONT");
    }
  });
  await check("a page that nobody sees lets go of its stream", async () => {
    await shown(false);
    await until(`document.querySelector("#live").textContent.startsWith("paused")`);
    const before = await driver.run(`return ${EVENTS}`);
    await new Promise((wake) => setTimeout(wake, 2000));
    expect((await driver.run(`return ${EVENTS}`)) === before, "it is still being told");
    await shown(true);
    await until(`document.querySelector("#live").textContent === "live" && ${EVENTS} > ${before}`);
  });
  await check("arrows light up when something passes", () => until(`document.querySelector(".arrow[data-pass]")`));
  await check("wires lead from the server to the workers and back", async () => {
    await until(`["in", "feed", "back"].every((kind) => document.querySelector("#wires path." + kind)?.getAttribute("d"))`);
  });
  await check("the watch has a state in words", async () => {
    await until(`[...document.querySelectorAll("[data-stage=reflector] .state")].every((state) => state.textContent === "watching")`);
  });
  await check("notifications come", () => until(`document.querySelectorAll("#notifications .key").length > 5`));
  await new Promise((wake) => setTimeout(wake, wait * 1000));
  await picture("light");

  let key;
  await check("a key is followed when it is clicked", async () => {
    key = await driver.run(`const key = document.querySelector("#notifications .key"); key.click(); return key.textContent`);
    await until(`document.querySelector("#followed-title").textContent === ${JSON.stringify(key)}`);
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });
  await check("its stage is lit in the picture", () => until(`document.querySelectorAll(".stage.lit").length === 1`));
  await check("its steps are in order, and new ones come", async () => {
    const before = await driver.run(`return document.querySelectorAll("#steps li").length`);
    await until(`document.querySelectorAll("#steps li").length > ${before}`, 60000);
    const ids = await driver.run(`return [...document.querySelectorAll("#steps li")].map((step) => Number(step.dataset.id))`);
    expect(ids.every((id, place) => place === 0 || id > ids[place - 1]), `the steps are ${ids}`);
    const text = await driver.run(`return document.querySelector("#steps").innerText`);
    expect(/because \w+ \S+/.test(text), `no step says why: ${text}`);
  });
  await picture("following-light");
  await scheme("dark");
  await picture("following-dark");
  await scheme("light");
  await check("the address of the page remembers the key", async () => {
    await driver.open(`${url}#${encodeURIComponent(key)}`);
    await driver.refresh();
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });
  await check("a key can be typed, with the keyboard alone, and let go", async () => {
    await driver.run(`document.querySelector("#unfollow").click()`);
    await until(`document.querySelector("#followed").hidden`);
    await driver.type("#key", `${key}\uE007`);
    await until(`!document.querySelector("#followed").hidden && document.querySelectorAll("#steps li").length > 3`);
  });
  await check("a key that looks like markup is text", async () => {
    const evil = "<img src=x onerror=document.title='x'>";
    await driver.run(`const key = document.querySelector("#key"); key.value = arguments[0]; key.form.requestSubmit()`, evil);
    await until(`document.querySelector("#followed-title").textContent === ${JSON.stringify(evil)}`);
    expect((await driver.run(`return document.querySelectorAll("#followed img").length`)) === 0, "it became an element");
    await driver.run(`const field = document.querySelector("#key"); field.value = arguments[0]; field.form.requestSubmit()`, key);
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });

  await check("a key that is too long is said to be, and the program is not gone", async () => {
    const long = "x".repeat(2000);
    await driver.run(`const key = document.querySelector("#key"); key.value = arguments[0]; key.form.requestSubmit()`, long);
    await until(`/too long/.test(document.querySelector("#place").textContent)`);
    const before = await driver.run(`return ${EVENTS}`);
    await until(`${EVENTS} > ${before}`);
    expect((await driver.run(`return document.querySelector("#live").textContent`)) === "live", "it is not live");
  });
  await check("a step of another key says nothing of where this one is", async () => {
    const stage = await driver.run(`
      const { Followed } = await import("./lists.js");
      const step = { id: 1, at: 0, lane: "work", stage: "done", key: "default/a", version: "", text: "it went well", failed: false, because: null };
      const followed = new Followed(() => {});
      followed.reset("default/a");
      return followed.add([step, { ...step, id: 2, stage: "queue", key: "default/owner" }], 0).stage`);
    expect(stage === "done", `it is at the stage ${stage}`);
    await driver.open(`${url}#${encodeURIComponent(key)}`);
    await driver.refresh();
    await until(`document.querySelectorAll("#steps li").length > 3`);
  });
  await check("what changes each second is in no live region", async () => {
    const inside = await driver.run(`return document.querySelectorAll("[role=status] time, [aria-live] time").length`);
    expect(inside === 0, `${inside} times are`);
    await until(`/ago$/.test(document.querySelector("#since").textContent)`);
  });

  const light = await ground();
  await scheme("dark");
  await check("dark is dark and light is light", async () => {
    const dark = await ground();
    expect(dark !== light, `both are ${light}`);
    expect(brightness(light) > 200 && brightness(dark) < 60, `light ${light}, dark ${dark}`);
  });
  await driver.run(`document.querySelector("#unfollow").click()`);
  await until(`document.querySelectorAll("#notifications .key").length > 5`);
  await picture("dark");

  for (const width of [360, 768, 1100]) {
    await size(width, 800);
    await check(`${width} pixels are wide enough`, async () => {
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
  await check("whoever wants no motion gets none", async () => {
    await size(1440, 930);
    await driver.media([{ name: "prefers-reduced-motion", value: "reduce" }]);
    // An arrow is lit for a moment only, so it is found and looked at in one go.
    await until(`[...document.querySelectorAll(".arrow[data-pass]")].some((arrow) => getComputedStyle(arrow).animationName === "none")`);
  });
  await check("nothing is on the console", () => empty());
  await check("the page says when the program is gone", async () => {
    children[0].kill();
    await until(`document.querySelector("#live").dataset.state === "bad"`);
    expect(/gone/.test(await driver.run(`return document.querySelector("#live").textContent`)), "it does not say so");
  });
  await check("when the program is there again, the page begins anew", async () => {
    await driver.run(`for (const row of document.querySelectorAll(".lane, #steps li, #notifications li, #errors li")) row.dataset.old = ""`);
    const again = await program([...command, "--listen", new URL(url).host]);
    expect(again === url, `it is at ${again}`);
    await until(`document.querySelector("#live").textContent === "live" && document.querySelectorAll("#steps li").length > 3`);
    const old = await driver.run(`return document.querySelectorAll("[data-old]").length`);
    expect(old === 0, `${old} lines are of the program that is gone`);
  });
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

function expect(truth, otherwise) {
  if (!truth) throw new Error(otherwise);
}

async function until(condition, patience = PATIENCE) {
  const end = Date.now() + patience;
  while (Date.now() < end) {
    if (await driver.run(`return Boolean(${condition})`)) return;
    await new Promise((wake) => setTimeout(wake, 50));
  }
  throw new Error(`this did not come true: ${condition}`);
}

async function empty() {
  const lines = (await driver.log()).filter((line) => line.level !== "DEBUG" && line.level !== "INFO");
  expect(lines.length === 0, lines.map((line) => line.message).join("\n"));
}

// Has the page believe that it is seen, or that it is not.
function shown(isShown) {
  return driver.run(`
    Object.defineProperty(document, "hidden", { configurable: true, value: !arguments[0] });
    document.dispatchEvent(new Event("visibilitychange"));`, isShown);
}

function ground() {
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
  // What is being drawn is to be drawn.
  await driver.run(`return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`);
  if (!screenshots) return;
  mkdirSync(screenshots, { recursive: true });
  writeFileSync(join(screenshots, `${name}.png`), await driver.screenshot(whole));
}

// Starts the program and waits for the address that it prints.
function program(command) {
  const [name, ...rest] = command;
  const child = spawn(name, rest, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  return new Promise((found, failed) => {
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`${name} ended with ${code} and no address`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const url = line.match(/http:\/\/\S+/);
      if (url) found(url[0]);
    });
  });
}

// Starts chromedriver on a port that is free, and a browser that knows nothing.
async function browser() {
  const child = spawn("chromedriver", ["--port=0"], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const port = await new Promise((found, failed) => {
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`chromedriver ended with ${code}`)));
    createInterface({ input: child.stdout }).on("line", (line) => {
      const port = line.match(/started successfully on port (\d+)/);
      if (port) found(port[1]);
    });
  });
  return Driver.start(`http://127.0.0.1:${port}`, [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    `--user-data-dir=${join(scratch, "profile")}`,
  ]);
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
