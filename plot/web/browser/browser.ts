// Shared code of the tests in Chromium: the browser, the pages that hare makes, and
// the rules that every page must keep.
import assert from "node:assert/strict";
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

export function need(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: run scripts/web.sh test`);
  return value;
}

export const root = need("HARE_ROOT");
export const pages = need("HARE_PAGES");
mkdirSync(pages, { recursive: true });

// hare runs the program and returns its output.
export function hare(...args: string[]): string {
  return execFileSync(need("HARE"), args, {
    cwd: pages,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
  });
}

export function launch(...args: string[]): Promise<Browser> {
  // Chromium's sandbox does not run as root.
  return chromium.launch({
    executablePath: need("CHROMIUM"),
    args: ["--no-sandbox", "--disable-dev-shm-usage", ...args],
  });
}

export const desk: BrowserContextOptions = { viewport: { width: 1280, height: 800 } };
export const phone: BrowserContextOptions = {
  viewport: { width: 390, height: 780 },
  hasTouch: true,
  isMobile: true,
};

// Opened is a page and the faults that were noted on it.
export interface Opened {
  page: Page;
  faults: string[];
}

// open loads a page, by the name of a file or by an address of a server, and notes
// errors and every request to another origin.
export async function open(
  browser: Browser,
  address: string,
  options: BrowserContextOptions,
): Promise<Opened> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const url = address.startsWith("http") ? address : "file://" + join(pages, address);
  const faults: string[] = [];
  page.on("pageerror", e => faults.push(`error: ${e.message}`));
  page.on("console", m => {
    if (m.text().includes("getImageData")) return; // only the tests read the canvas
    if (m.type() === "error" || m.type() === "warning") faults.push(`${m.type()}: ${m.text()}`);
  });
  page.on("request", r => {
    const own = url.startsWith("http") ? r.url().startsWith(new URL(url).origin) : r.url() === url;
    if (!own) faults.push(`request to ${r.url()}`);
  });
  await page.goto(url, { waitUntil: url.startsWith("http") ? "networkidle" : "load" });
  await frame(page);
  return { page, faults };
}

// frame waits until the page has drawn its latest state.
export async function frame(page: Page): Promise<void> {
  await page.evaluate(
    () => new Promise<void>(done => requestAnimationFrame(() => requestAnimationFrame(() => done()))),
  );
}

const axe = readFileSync(createRequire(join(root, "plot/web/package.json")).resolve("axe-core"), "utf8");

// violations returns what axe finds on a page.
export async function violations(page: Page): Promise<string[]> {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  return page.evaluate(async () => {
    const run = (globalThis as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } }).axe.run();
    type Violation = { id: string; nodes: { html: string; failureSummary: string }[] };
    return (await run).violations.map(v => `${v.id}: ${v.nodes[0]!.html} ${v.nodes[0]!.failureSummary}`);
  });
}

// Text is a text on a page and its contrast.
interface Text {
  text: string;
  contrast: number;
}

// faint lists the texts whose contrast is below 4.5, the least of WCAG AA.
async function faint(page: Page): Promise<Text[]> {
  return page.evaluate(() => {
    const rgb = (s: string) => (s.match(/[\d.]+/g) ?? []).map(Number);
    const light = (c: number[]) => {
      const [r, g, b] = c.map(v =>
        v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
      );
      return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
    };
    const out: { text: string; contrast: number }[] = [];
    for (const e of document.querySelectorAll<HTMLElement>("body *")) {
      const text = [...e.childNodes]
        .filter(n => n.nodeType === 3)
        .map(n => n.textContent!.trim())
        .join("");
      if (!text || !e.checkVisibility({ visibilityProperty: true }) || e.closest("svg, noscript, script"))
        continue;
      let behind: HTMLElement | null = e;
      let ground = [255, 255, 255];
      for (; behind; behind = behind.parentElement) {
        const c = rgb(getComputedStyle(behind).backgroundColor);
        if (c.length === 3 || c[3]! > 0) {
          ground = c.slice(0, 3);
          break;
        }
      }
      const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(ground)];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      if (contrast < 4.5) out.push({ text: text.slice(0, 40), contrast });
    }
    return out;
  });
}

// ground returns the colour behind a page.
function ground(page: Page): Promise<string> {
  return page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
}

// keepsTheRules checks the rules of every page: it is one file, has a viewport, does
// not scroll sideways, has legible texts in light and dark, remembers the switch
// between them, and has a name for each control.
export async function keepsTheRules(browser: Browser, address: string): Promise<void> {
  for (const [size, options] of [
    ["desk", desk],
    ["phone", phone],
  ] as const) {
    const grounds: string[] = [];
    for (const colorScheme of ["light", "dark"] as const) {
      const where = `${address}, ${size}, ${colorScheme}`;
      const { page, faults } = await open(browser, address, { ...options, colorScheme });
      const name = address.replace(/^https?:\/\/[^/]*/, "server").replace(/\W+/g, "-");
      await page.screenshot({ path: join(pages, `${name}-${size}-${colorScheme}.png`) });
      assert.deepEqual(faults, [], where);
      assert.ok((await page.title()) !== "", `${where}: no title`);
      assert.equal(await page.locator("h1").count(), 1, `${where}: one head`);
      assert.equal(await page.locator('meta[name="viewport"]').count(), 1, `${where}: no viewport`);
      assert.ok(
        await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
        `${where}: scrolls sideways`,
      );
      if (size === "desk") assert.deepEqual(await faint(page), [], `${where}: texts of too little contrast`);
      const nameless = await page.evaluate(() =>
        [...document.querySelectorAll<HTMLInputElement>("button, input, select, textarea, a[href]")]
          .filter(e => !(e.ariaLabel || e.textContent?.trim() || e.labels?.length))
          .map(e => e.outerHTML.slice(0, 80)),
      );
      assert.deepEqual(nameless, [], `${where}: controls without names`);
      grounds.push(await ground(page));
      const button = page.locator("button.theme");
      assert.equal(await button.getAttribute("aria-pressed"), String(colorScheme === "dark"), where);
      await button.click();
      const turned = await ground(page);
      assert.notEqual(turned, grounds[grounds.length - 1], `${where}: the switch changes nothing`);
      if (size === "desk") {
        // Chromium under load may lose for good what a page stores within milliseconds before the page is loaded
        // again, so that the button is then pressed again.
        for (let again = 0; again < 5; again++) {
          await page.waitForTimeout(100 * again);
          await page.reload();
          if ((await ground(page)) === turned) break;
          await button.click();
        }
        await page.reload();
        assert.equal(await ground(page), turned, `${where}: the switch is forgotten`);
      }
      await page.context().close();
    }
    assert.notEqual(grounds[0], grounds[1], `${address}, ${size}: dark is as light`);
  }
}

export interface Server {
  url: string;
  stop: () => Promise<void>; // returns when the server has ended
}

// serve runs `hare serve` on a free port.
export async function serve(...args: string[]): Promise<Server> {
  const always = ["serve", "--listen", "127.0.0.1:0", "--max-time", "2s"];
  const child: ChildProcess = spawn(need("HARE"), [...always, ...args], {
    cwd: pages,
    stdio: ["ignore", "ignore", "pipe"],
  });
  const url = await new Promise<string>((found, failed) => {
    let text = "";
    child.stderr!.on("data", (d: Buffer) => {
      text += d.toString();
      const address = /msg=listening address=(\S+)/.exec(text);
      if (address) found(`http://${address[1]}`);
    });
    child.on("exit", () => failed(new Error(`hare serve ended: ${text}`)));
  });
  const ended = new Promise<void>(done => child.on("exit", () => done()));
  const stop = () => {
    child.kill();
    return ended;
  };
  return { url, stop };
}
