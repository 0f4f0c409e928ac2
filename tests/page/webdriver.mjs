// A minimal WebDriver client: controls a browser over HTTP.

export class Driver {
  static async start(server, flags) {
    const driver = new Driver(server);
    const capabilities = {
      alwaysMatch: {
        browserName: "chrome",
        "goog:chromeOptions": { args: flags },
        "goog:loggingPrefs": { browser: "ALL" },
      },
    };
    const { sessionId } = await driver.call("POST", "/session", { capabilities });
    driver.base = `${server}/session/${sessionId}`;
    return driver;
  }

  constructor(base) {
    this.base = base;
  }

  async call(method, path, body) {
    const response = await fetch(this.base + path, { method, body: body && JSON.stringify(body), headers: { "content-type": "application/json" } });
    const { value } = await response.json();
    if (!response.ok) throw new Error(`${path}: ${value.error}: ${value.message}`);
    return value;
  }

  open(url) {
    return this.call("POST", "/url", { url });
  }

  refresh() {
    return this.call("POST", "/refresh", {});
  }

  // Runs a script in the page.
  run(script, ...args) {
    return this.call("POST", "/execute/sync", { script, args });
  }

  // Types into a field by keyboard events.
  async type(selector, text) {
    const found = await this.call("POST", "/element", { using: "css selector", value: selector });
    const [id] = Object.values(found);
    await this.call("POST", `/element/${id}/clear`, {});
    await this.call("POST", `/element/${id}/value`, { text });
  }

  log() {
    return this.call("POST", "/se/log", { type: "browser" });
  }

  devtools(cmd, params) {
    return this.call("POST", "/goog/cdp/execute", { cmd, params });
  }

  // Sets the viewport size exactly; a window cannot be narrower than 500 pixels.
  metrics(width, height) {
    return this.devtools("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  }

  media(features) {
    return this.devtools("Emulation.setEmulatedMedia", { features });
  }

  async screenshot(whole) {
    const { data } = await this.devtools("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole });
    return Buffer.from(data, "base64");
  }

  quit() {
    return this.call("DELETE", "", undefined);
  }
}
