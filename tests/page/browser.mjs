// Starts a headless browser.

import { spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Driver } from "./webdriver.mjs";

// Starts chromedriver on a free port, and a browser with an empty profile in `scratch`. Adds the process to `children`.
export async function browser(children, scratch) {
  const child = spawn("chromedriver", ["--port=0"], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const port = await new Promise((found, failed) => {
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`chromedriver exited with ${code}`)));
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
