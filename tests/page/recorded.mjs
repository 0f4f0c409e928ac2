// Tests the page of a recorded run in a browser: steps forward and back, lanes, objects, the failing step, narrow screens, the dark
// scheme, and an empty console. See recorded.sh.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { browser } from "./browser.mjs";

const CURRENT = `[...document.querySelectorAll("#lines li")].findIndex((row) => row.hasAttribute("aria-current"))`;
const COUNT = `document.querySelectorAll("#lines li").length`;
const CURSOR = `document.querySelector("#tracks .cursor").getBoundingClientRect().left`;
const KEYS = { left: "\uE012", right: "\uE014", home: "\uE011", end: "\uE010" };

const left = process.argv.slice(2);
const screenshots = left[0] === "--screenshots" ? left.splice(0, 2)[1] : null;
if (left.length !== 1) {
  console.error("recorded.sh [--screenshots FOLDER] PAGE");
  process.exit(2);
}
const scratch = mkdtempSync(join(tmpdir(), "evenkeel-page-"));
const children = [];
let driver;
let failures = 0;

try {
  driver = await browser(children, scratch);
  await test(pathToFileURL(resolve(left[0])).href);
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
  await driver.metrics(1440, 930);
  await scheme("light");
  await driver.open(url);
  const run = await driver.run(`return JSON.parse(document.getElementById("run").textContent)`);
  const last = run.lines.length - 1;

  await check("the page opens at the failing step", async () => {
    equal(await at(), run.failure.line);
    expect(await driver.run(`return document.querySelector("#lines [aria-current]").classList.contains("failure")`), "it is not marked");
    equal(await text("#verdict"), "invariant broken");
    expect((await text("#message")).includes(run.failure.message), "the message is missing");
  });
  await picture("failure-light");
  await check("all lines are listed, with time, process and life", async () => {
    equal(await driver.run(`return ${COUNT}`), run.lines.length);
    const second = run.lines.findIndex((line) => line.life === 2);
    expect(second > 0, "the run has no second life");
    equal(await driver.run(`return document.querySelectorAll("#lines .process")[arguments[0]].textContent`, second), `${run.lines[second].process} (life 2)`);
  });
  await check("arrow keys step forward and back", async () => {
    await press(KEYS.home);
    equal(await at(), 0);
    await press(KEYS.right, KEYS.right, KEYS.right, KEYS.left);
    equal(await at(), 2);
    await press(KEYS.left, KEYS.left, KEYS.left);
    equal(await at(), 0);
    await press(KEYS.end, KEYS.right);
    equal(await at(), last);
    await press("f");
    equal(await at(), run.failure.line);
  });
  await check("buttons step forward and back, and are disabled at the ends", async () => {
    await click("first");
    expect(await driver.run(`return document.querySelector("[data-go=back]").disabled`), "back is enabled at the start");
    await click("forward");
    await click("forward");
    await click("back");
    equal(await at(), 1);
    await click("last");
    expect(await driver.run(`return document.querySelector("[data-go=forward]").disabled`), "forward is enabled at the end");
  });
  await check("the slider and a click on a line choose a step", async () => {
    await driver.run(`const slider = document.querySelector("#slider"); slider.value = 4; slider.dispatchEvent(new Event("input"))`);
    equal(await at(), 4);
    await driver.run(`document.querySelectorAll("#lines li")[2].click()`);
    equal(await at(), 2);
    equal(await driver.run(`return Number(document.querySelector("#slider").value)`), 2);
  });
  await check("every process has a lane, and the cursor moves along", async () => {
    const names = await driver.run(`return [...document.querySelectorAll("#names p:not(.time)")].map((name) => name.textContent)`);
    expect([...run.processes, "cluster"].every((name) => names.includes(name)), `lanes: ${names}`);
    await press(KEYS.home);
    const start = await driver.run(`return ${CURSOR}`);
    await press(KEYS.end);
    expect((await driver.run(`return ${CURSOR}`)) > start + 500, "it stays");
    expect((await driver.run(`return document.querySelectorAll("#tracks .crash").length`)) > 0, "no crash is drawn");
    const broken = run.lines.filter((line) => line.what.startsWith("invariant broken")).length;
    expect(broken > 0, "the run has no failure");
    equal(await driver.run(`return document.querySelectorAll("#tracks .failure").length`), broken);
    expect((await driver.run(`return document.querySelectorAll("#tracks .life").length`)) >= 2, "lives are missing");
  });
  await check("a click on a lane chooses the step there", async () => {
    const line = await driver.run(`
      const box = document.querySelector("#tracks").getBoundingClientRect();
      document.querySelector("#tracks").dispatchEvent(new MouseEvent("click", { clientX: box.left + box.width / 2, clientY: box.top + 30 }));
      return ${CURRENT}`);
    expect(Math.abs(line - last / 2) <= 1, `line ${line} of ${last}`);
  });
  const changed = run.changes.find((change) => change.line > 0 && change.object !== null && run.changes.some((other) => other.line < change.line && other.key === change.key && other.resource === change.resource));
  await check("objects are those after the step, and changes show both values", async () => {
    await driver.run(`document.querySelectorAll("#lines li")[arguments[0]].click()`, changed.line);
    const row = `[...document.querySelectorAll("#objects details")].find((row) => row.querySelector(".key").textContent === ${JSON.stringify(changed.key)} && row.querySelector(".resource").textContent.trim() === ${JSON.stringify(changed.resource)})`;
    equal(await driver.run(`return ${row}.className`), "changed");
    const fields = await driver.run(`return [...${row}.querySelectorAll("li")].map((field) => field.textContent)`);
    expect(fields.some((field) => field.startsWith("metadata.resourceVersion")), `fields: ${fields}`);
    await picture("change-light");
    await press(KEYS.right);
    equal(await driver.run(`return ${row}.className`), "");
  });
  await check("before the first step there are only the first objects", async () => {
    await press(KEYS.home);
    const first = run.changes.filter((change) => change.line === 0 && change.object !== null).length;
    equal(await driver.run(`return document.querySelectorAll("#objects details").length`), first);
  });
  await check("the address has the step", async () => {
    await driver.open(`${url}#3`);
    await driver.refresh();
    equal(await at(), 2);
  });
  await check("the dark scheme is dark", async () => {
    const light = await driver.run(`return getComputedStyle(document.body).backgroundColor`);
    await scheme("dark");
    const dark = await driver.run(`return getComputedStyle(document.body).backgroundColor`);
    expect(dark !== light, `both are ${light}`);
  });
  await press("f");
  await picture("failure-dark");
  for (const width of [360, 768, 1100]) {
    await driver.metrics(width, 800);
    await check(`the page fits ${width} pixels`, async () => {
      const over = await driver.run(`return document.documentElement.scrollWidth - innerWidth`);
      expect(over <= 0, `${over} pixels too wide`);
    });
    if (width === 360) await picture("phone-dark", true);
  }
  await check("the console is empty", async () => {
    const lines = (await driver.log()).filter((line) => line.level !== "DEBUG" && line.level !== "INFO");
    expect(lines.length === 0, lines.map((line) => line.message).join("\n"));
  });
}

// Presses keys on the page.
async function press(...keys) {
  const found = await driver.call("POST", "/element", { using: "css selector", value: "#lines" });
  const [id] = Object.values(found);
  await driver.call("POST", `/element/${id}/value`, { text: keys.join("") });
}

function click(move) {
  return driver.run(`document.querySelector("[data-go=" + arguments[0] + "]").click()`, move);
}

function at() {
  return driver.run(`return ${CURRENT}`);
}

function text(selector) {
  return driver.run(`return document.querySelector(arguments[0]).textContent`, selector);
}

function scheme(value) {
  return driver.media([{ name: "prefers-color-scheme", value }]);
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

function equal(found, expected) {
  expect(found === expected, `${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`);
}

async function picture(name, whole = false) {
  await driver.run(`return new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))`);
  if (!screenshots) return;
  mkdirSync(screenshots, { recursive: true });
  writeFileSync(join(screenshots, `recorded-${name}.png`), await driver.screenshot(whole));
}
