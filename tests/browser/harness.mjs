/**
 * A real JupyterLab or Notebook 7 in temporary folders, and Chromium that fails the test on any page error, console error or
 * request to another site. Nothing of the user's own Jupyter set-up is read or written. All helpers work in both.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { appendFileSync, readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cpuSecondsHere } from "./cpu.mjs";

export const ROOT = fileURLToPath(new URL("../../", import.meta.url));
export const SCREENSHOTS = join(ROOT, "build", "screenshots");
const { chromium } = createRequire(join(ROOT, "js", "package.json"))("playwright-core");

/**
 * Features of Chromium that cost time and serve no test. The first four start two more processes for each new page, for
 * windows that nobody sees and pages that nobody opens: 1 s of a processor instead of 0.5 s. The others are Playwright's:
 * Chromium heeds the last list alone.
 */
const WITHOUT = [
  "PreloadTopChromeWebUI",
  "WebUIOmniboxPopup",
  "WebUIOmniboxAimPopup",
  "SpareRendererForSitePerProcess",
  "AvoidUnnecessaryBeforeUnloadCheckSync",
  "DestroyProfileOnBrowserClose",
  "HttpsFirstBalancedModeAutoEnable",
  "HttpsUpgrades",
  "LensOverlay",
  "MediaRouter",
  "NetworkTimeServiceQuerying",
  "OptimizationHints",
  "PaintHolding",
  "PreconnectToSearch",
  "ThirdPartyStoragePartitioning",
];

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
  `--disable-features=${WITHOUT.join(",")}`,
];

/** Console errors that Jupyter itself writes, each with its reason. Nothing of ours belongs here. */
const NOISE = [
  {
    // JupyterLab asks each kernel that starts for the history of its inputs, and nothing of ours does; where that kernel is
    // restarted, nobody answers.
    pattern: /^page error: Error: Canceled future for history_request message before replies were done\n/,
  },
  {
    // JupyterLab's debugger asks each kernel that starts for its state; where that one is restarted, nobody answers.
    pattern: /^console error: Could not restore the debugger state: Canceled future for debug_request message/,
  },
  {
    // JupyterLab asks a kernel that starts for a subshell of its comms; where the notebook is closed meanwhile, nobody answers.
    pattern:
      /^page error: Per comm-target subshell creation failed: Error: Canceled future for create_subshell_request message before replies were done$/,
  },
  {
    // Notebook 7.6: its plugin for shortcuts looks up the schema of every plugin that the registry names, also where the
    // page has none. It throws with no extension of anybody installed, from its own bundle alone.
    pattern:
      /^page error: TypeError: Cannot read properties of undefined \(reading 'schema'\)\n(\s*at (?!.*labextension).*(\n|$))+$/,
  },
];

const WAIT = 60_000;
/** Servers and kernels start within seconds; on two processors beside other tests they may take longer. */
const START = 180_000;

/** Long waits look twenty times a second: at each frame, as by default, takes a fifteenth of a processor. */
const POLLING = { polling: 50 };

/** Every browser of this file, for the case that no test is there to close it. */
const browsers = [];

export function startBrowser(flags = []) {
  const shared = BROWSER && flags.length === 0;
  const browser = shared ? chromium.connectOverCDP(BROWSER) : chromium.launch(launchOptions(flags));
  browsers.push(browser);
  return browser;
}

/** Starts a browser that processes connect to, at its `address`, without a process between them and the browser. */
export async function launchBrowser() {
  const port = await freePort();
  const server = await chromium.launchServer(launchOptions([`--remote-debugging-port=${port}`]));
  return { address: `http://127.0.0.1:${port}`, pid: server.process().pid, close: () => server.close() };
}

function launchOptions(flags = []) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  return { executablePath, headless: true, args: [...FLAGS, ...flags] };
}

/** What differs between the two: the program, the name of its settings, the address of a notebook. */
const APPS = {
  lab: {
    title: "JupyterLab",
    module: "jupyterlab",
    traits: "LabApp",
    path: (path) => `/lab/tree/${path}`,
    query: "&reset",
  },
  notebook: {
    title: "Notebook 7",
    module: "notebook",
    traits: "JupyterNotebookApp",
    path: (path) => `/notebooks/${path}`,
    query: "",
  },
};

/** The JupyterLab that `run.mjs` started for this and other files, one after the other; without one each starts its own. */
const SHARED = process.env.TAPEDEBUG_LAB;
/** The browser that `run.mjs` started: each test has a context of its own in it. */
const BROWSER = process.env.TAPEDEBUG_BROWSER;

// run.mjs adds it to the time of the servers that it started
if (process.env.TAPEDEBUG_TELL_CPU) process.once("exit", () => console.log(`# ${cpuSecondsHere()} CPU s`));

export const startLab = () => (SHARED ? borrowLab(JSON.parse(SHARED)) : startServer(APPS.lab));
export const startNotebook = () => startServer(APPS.notebook);

/** Starts a server whose notebooks are in `root`; `stop()` ends it and removes everything. */
async function startServer(app) {
  const { log, stop, ...server } = await launchServer(app);
  return { ...handles(app, server), log, stop };
}

/** A JupyterLab as if it had just been started: without kernels, notebooks, settings and workspaces of the file before. */
async function borrowLab(server) {
  const clear = async () => {
    const ask = (path, method) =>
      fetch(`${server.origin}/api/${path}`, { method, headers: { Authorization: `token ${server.token}` } });
    let listed = await ask("kernels", "GET");
    for (let i = 0; i < 10 && !listed.ok; i += 1) {
      await new Promise((resolve) => setTimeout(resolve, 500)); // one of them was ending just then
      listed = await ask("kernels", "GET");
    }
    const kernels = await listed.json();
    await Promise.all(kernels.map(({ id }) => ask(`kernels/${id}`, "DELETE")));
    for (const name of EMPTIED) {
      for (const entry of await readdir(join(server.home, name)))
        await rm(join(server.home, name, entry), { recursive: true, force: true, maxRetries: 5 });
    }
    await writeSettings(server.home);
  };
  await clear();
  return { ...handles(APPS.lab, server), log: () => readFileSync(server.logFile, "utf8"), stop: clear };
}

/** What tests do with a server, whoever started it. */
function handles(app, { home, origin, token }) {
  const root = join(home, "notebooks");
  return {
    root,
    origin,
    url: (path) => `${origin}${app.path(path)}?token=${token}${app.query}`,
    add: (from, to) => cp(from, join(root, to)),
    write: (name, notebook) => writeFile(join(root, name), JSON.stringify(notebook)),
  };
}

/** Folders of a server that the next file finds empty. */
const EMPTIED = ["notebooks", "settings", "workspaces"];

async function writeSettings(home) {
  const folder = join(home, "settings", "@jupyterlab", "apputils-extension");
  await mkdir(folder, { recursive: true });
  await writeFile(
    join(folder, "notification.jupyterlab-settings"),
    JSON.stringify({ fetchNews: "false", checkForUpdates: false, doNotDisturbMode: true }),
  );
}

export const launchLab = () => launchServer(APPS.lab);

/** Starts a server in folders of its own. */
async function launchServer(app) {
  const home = await mkdtemp(join(tmpdir(), "tapedebug-lab-"));
  const folder = async (...names) => {
    const path = join(home, ...names);
    await mkdir(path, { recursive: true });
    return path;
  };
  const root = await folder("notebooks");
  const settings = await folder("settings");
  await writeSettings(home);
  // the extension as it stands in this tree, whether or not the package is installed
  await symlink(join(ROOT, "tapedebug", "labextension"), join(await folder("share", "labextensions"), "tapedebug"));
  const port = await freePort();
  const token = `t${Math.random().toString(36).slice(2)}`;
  const env = {
    ...process.env,
    HOME: home,
    IPYTHONDIR: await folder("ipython"),
    JUPYTER_CONFIG_DIR: await folder("config"),
    JUPYTER_DATA_DIR: await folder("data"),
    JUPYTER_RUNTIME_DIR: await folder("runtime"),
    JUPYTER_PATH: join(home, "share"),
    PYTHONPATH: [ROOT, process.env.PYTHONPATH].filter(Boolean).join(":"),
  };
  const server = spawn(
    process.env.PYTHON ?? "python",
    [
      "-m",
      app.module,
      "--no-browser",
      "--allow-root",
      "--ip=127.0.0.1",
      `--port=${port}`,
      "--ServerApp.port_retries=0",
      `--IdentityProvider.token=${token}`,
      `--ServerApp.root_dir=${root}`,
      `--${app.traits}.expose_app_in_browser=True`,
      `--${app.traits}.workspaces_dir=${await folder("workspaces")}`,
      `--${app.traits}.user_settings_dir=${settings}`,
    ],
    { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] },
  );
  const logFile = join(home, "log.txt");
  await writeFile(logFile, "");
  const note = (data) => appendFileSync(logFile, data);
  server.stdout.on("data", note);
  server.stderr.on("data", note);
  const log = () => readFileSync(logFile, "utf8");
  // whatever becomes of the test, the server and its kernels do not outlive it
  process.once("exit", () => server.kill("SIGTERM"));
  process.once("SIGTERM", () => process.exit(143));
  const origin = `http://127.0.0.1:${port}`;
  try {
    await ready(`${origin}/api/status?token=${token}`, server, app.title, log);
  } catch (error) {
    // a server or browser that runs on would keep this file from ending
    server.kill("SIGKILL");
    for (const browser of await Promise.allSettled(browsers)) await browser.value?.close();
    await rm(home, { recursive: true, force: true, maxRetries: 5 });
    throw error;
  }
  return {
    pid: server.pid,
    home,
    origin,
    token,
    logFile,
    log,
    stop: async () => {
      const ended = new Promise((resolve) => server.once("exit", resolve));
      server.kill("SIGTERM"); // ends the kernels, too
      const stuck = setTimeout(() => server.kill("SIGKILL"), 10_000);
      await ended;
      clearTimeout(stuck);
      await rm(home, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Opens a page; `finish()` fails on what went wrong in it meanwhile. */
export async function openPage(browser, lab, path, { width = 1400, height = 900, dark = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light" });
  const page = await context.newPage();
  page.setDefaultTimeout(WAIT);
  const problems = [];
  const note = (problem) => NOISE.some(({ pattern }) => pattern.test(problem)) || problems.push(problem);
  // an error without a stack (a rejection with a plain value, a ResizeObserver that loops) has a message alone
  page.on("pageerror", (error) => note(`page error: ${error.stack || error}`));
  page.on("console", (message) => message.type() === "error" && note(`console error: ${message.text()}`));
  page.on("request", (request) => {
    const url = request.url();
    if (
      /^(https?|wss?):/.test(url) &&
      !url.startsWith(lab.origin) &&
      !url.startsWith(lab.origin.replace("http", "ws"))
    ) {
      problems.push(`request to another site: ${url}`);
    }
  });
  await page.goto(lab.url(path));
  await page.waitForFunction(() => globalThis.jupyterapp !== undefined, undefined, POLLING);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
  if (dark) await setTheme(page, "JupyterLab Dark");
  return {
    page,
    problems,
    finish: async () => {
      await context.close();
      assert.deepEqual(problems, []);
    },
  };
}

/** Closes the notebook in front and opens another one in its page: to load JupyterLab anew takes six seconds of a processor. */
export async function openInstead(page, path) {
  await page.evaluate(async (other) => {
    const { shell, commands } = globalThis.jupyterapp;
    shell.currentWidget.dispose(); // asks nothing, unlike the command that closes it
    await commands.execute("docmanager:open", { path: other });
  }, path);
  await page.waitForFunction((wanted) => globalThis.jupyterapp.shell.currentWidget?.context?.path === wanted, path);
  await page.waitForSelector(".jp-Notebook .jp-Cell");
}

export async function setTheme(page, theme) {
  await page.evaluate(
    (name) => globalThis.jupyterapp.commands.execute("apputils:change-theme", { theme: name }),
    theme,
  );
  const dark = theme.includes("Dark");
  await page.waitForFunction(
    (want) =>
      (document.body.dataset.jpThemeLight === "false") === want && !document.getElementById("jupyterlab-splash"),
    dark,
  );
}

export function command(page, id, args = {}) {
  return page.evaluate(
    async ([name, values]) => {
      await globalThis.jupyterapp.commands.execute(name, values); // what it returns may be a widget, and does not travel
    },
    [id, args],
  );
}

/** The kernel of the open notebook is there and has nothing to do. */
export async function kernelIdle(page) {
  await page.waitForFunction(
    () => {
      const panel = globalThis.jupyterapp.shell.currentWidget;
      return panel?.sessionContext?.session?.kernel?.status === "idle";
    },
    undefined,
    { ...POLLING, timeout: START },
  );
}

export async function runAll(page, timeout = 180_000) {
  await kernelIdle(page);
  await command(page, "notebook:run-all-cells");
  await page.waitForFunction(
    () => {
      const panel = globalThis.jupyterapp.shell.currentWidget;
      const cells = panel.content.widgets.filter((cell) => cell.model.type === "code");
      return (
        panel.sessionContext.session?.kernel?.status === "idle" &&
        cells.every((cell) => cell.model.executionState !== "running" && cell.model.executionCount !== null)
      );
    },
    undefined,
    { ...POLLING, timeout },
  );
}

/** Runs code in the notebook's kernel, in no cell, and returns what it prints. */
export async function python(page, code) {
  return page.evaluate(async (source) => {
    const { shell } = globalThis.jupyterapp;
    const panel = [shell.currentWidget, ...shell.widgets("main")].find((widget) => widget?.sessionContext);
    const future = panel.sessionContext.session.kernel.requestExecute({ code: source, store_history: false });
    let text = "";
    future.onIOPub = (message) => {
      if (message.header.msg_type === "stream") text += message.content.text;
      if (message.header.msg_type === "error") text += message.content.traceback.join("\n");
    };
    await future.done;
    return text;
  }, code);
}

export async function screenshot(page, name) {
  await mkdir(SCREENSHOTS, { recursive: true });
  await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`) });
}

/** A notebook of code cells. */
export function notebook(...sources) {
  return {
    nbformat: 4,
    nbformat_minor: 5,
    metadata: { kernelspec: { name: "python3", display_name: "Python 3", language: "python" } },
    cells: sources.map((source, number) => codeCell(source, number)),
  };
}

export function codeCell(source, number, outputs = []) {
  const executed = outputs.length > 0 ? number + 1 : null;
  return { cell_type: "code", id: `cell-${number}`, metadata: {}, execution_count: executed, source, outputs };
}

async function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function ready(url, server, title, log) {
  let failure;
  server.once("error", (error) => (failure = error));
  const until = Date.now() + START;
  while (Date.now() < until) {
    if (failure !== undefined) throw new Error(`${title} cannot be started: ${failure.message}`);
    if (server.exitCode !== null) throw new Error(`${title} ended at once (${server.exitCode}):\n${log()}`);
    const response = await fetch(url).catch(() => null);
    if (response?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${title} did not start within ${START / 1000} s:\n${log()}`);
}

/** Brings an element to the middle of the view and waits until the notebook has stopped moving. */
export async function show(locator) {
  for (let i = 0; i < 3; i += 1) {
    await locator.evaluate((element) => element.scrollIntoView({ block: "center", behavior: "instant" }));
    await locator.page().waitForTimeout(150);
  }
}
