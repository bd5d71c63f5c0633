// Tests with Chromium that pages of other origins can neither change nor read anything of a server that asks for
// no keys. Each attack is made on a server that allows everything too, which shows that the browser does not stop it.
import assert from "node:assert/strict";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { desk, launch, open, serve } from "./browser.js";

let browser: Browser;
let hare: { url: string; stop: () => void };
let naive: Server;
let seen: string[] = []; // the requests that changed something at the naive server
let session = "";

const cluster = { nodes: [{ name: "a", gpus: { V100: 1 } }] };
const names = ["evil.example", "rebound.example", "hare.example"];

before(async () => {
  naive = createServer((request, response) => {
    let body = "";
    request.on("data", piece => (body += piece));
    request.on("end", () => {
      if (body || request.method === "DELETE")
        seen.push(`${request.method} ${request.headers["content-type"] ?? "no type"}`);
      const page =
        request.url === "/page" ? "<!doctype html><title>page</title>" : '{"sessions":[{"id":"secret"}]}';
      response.setHeader("Content-Type", request.url === "/page" ? "text/html" : "application/json");
      response.end(page);
    });
  });
  await new Promise<void>(done => naive.listen(0, "127.0.0.1", done));
  browser = await launch(
    `--host-resolver-rules=${names.map(name => `MAP ${name} 127.0.0.1`).join(",")}`,
    // This test is about the server: not all browsers keep pages from private addresses, and this one does not keep
    // pages of private addresses from others.
    "--disable-features=LocalNetworkAccessChecks,HttpsUpgrades",
  );
  hare = await serve("--allow-host", "hare.example");
  const made = await fetch(`${hare.url}/v1/sessions`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ cluster }),
  });
  session = ((await made.json()) as { id: string }).id;
});
after(async () => {
  await hare?.stop();
  naive?.close();
  await browser?.close();
});

const portOf = (server: Server) => (server.address() as AddressInfo).port;

// state returns all that a page could change.
async function state(): Promise<string> {
  const parts = ["sessions", "clusters", "solves"].map(async what =>
    (await fetch(`${hare.url}/v1/${what}`)).text(),
  );
  return (await Promise.all(parts)).join();
}

// attack sends all that a page can send to a server, and returns what the page could read.
function attack(page: Page, target: string): Promise<string[]> {
  return page.evaluate(
    async ([target, session]) => {
      const cluster = { nodes: [{ name: "a", gpus: { V100: 1 } }] };
      const make = JSON.stringify({ cluster });
      const agent = JSON.stringify({
        protocol: 3,
        name: "evil",
        incarnation: "0123456789abcdef",
        devices: [{ type: "V100" }],
      });
      const answers: string[] = [];
      const send = async (path: string, init: RequestInit) => {
        try {
          answers.push(await (await fetch(target + path, init)).text());
        } catch (e) {
          answers.push(String(e));
        }
      };
      const json = { "Content-Type": "application/json" };
      for (const body of [
        new Blob([make]),
        make,
        new URLSearchParams({ [make]: "" }),
        new Blob([make], json as object),
      ])
        await send("/v1/sessions", { method: "POST", mode: "no-cors", body });
      await send("/v1/clusters/evil/agents", { method: "POST", mode: "no-cors", body: new Blob([agent]) });
      await send("/v1/sessions", { method: "POST", headers: json, body: make });
      await send(`/v1/sessions/${session}`, { method: "DELETE" });
      await send("/v1/sessions", {});
      await send("/v1/sessions", { mode: "no-cors" });
      navigator.sendBeacon(`${target}/v1/sessions`, new Blob([make]));
      // A form whose text is JSON, as {"cluster": …, "x": "="}.
      const frame = document.createElement("iframe");
      frame.name = "answer";
      document.body.appendChild(frame);
      const form = document.body.appendChild(document.createElement("form"));
      Object.assign(form, {
        method: "POST",
        enctype: "text/plain",
        target: "answer",
        action: `${target}/v1/sessions`,
      });
      const field = form.appendChild(document.createElement("input"));
      field.name = make.replace(/}$/, ',"x":"');
      field.value = '"}';
      const loaded = new Promise(done => (frame.onload = done));
      form.submit();
      await loaded;
      try {
        answers.push(frame.contentDocument!.body.innerText);
      } catch (e) {
        answers.push(String(e));
      }
      return answers;
    },
    [target, session] as const,
  );
}

test("a page of another origin changes and reads nothing", async () => {
  const old = await state();
  assert.ok(old.includes(session));
  const [port, other] = [new URL(hare.url).port, portOf(naive)];
  for (const [from, host] of [
    ["evil.example", "127.0.0.1"], // another site
    ["localhost", "localhost"], // another port of the same site
    ["evil.example", "hare.example"], // to such names this browser sends no Sec-Fetch-Site
  ] as const) {
    const page = await browser.newPage();
    await page.goto(`http://${from}:${other}/page`);
    const answers = await attack(page, `http://${host}:${port}`);
    for (const text of answers) assert.ok(!text.includes(session), `${from} read ${text} of ${host}`);
    assert.equal(await state(), old, `${from} changed ${host}`);
    await page.close();
  }
  // The browser lets the same requests pass to a server that allows them.
  const page = await browser.newPage();
  await page.goto(`http://localhost:${other}/page`);
  seen = [];
  await attack(page, `http://127.0.0.1:${other}`);
  for (const request of ["POST no type", "POST text/plain", "POST text/plain;charset=UTF-8"])
    assert.ok(seen.includes(request), `${request} is not among ${seen.join(", ")}`);
  await page.close();
});

test("a name that points here afterwards changes and reads nothing", async () => {
  const old = await state();
  for (const [port, reads] of [
    [new URL(hare.url).port, false],
    [String(portOf(naive)), true],
  ] as const) {
    // The page comes from elsewhere, and then its name points to 127.0.0.1.
    const origin = `http://rebound.example:${port}`;
    const page = await browser.newPage();
    await page.route(`${origin}/page`, route => route.fulfill({ contentType: "text/html", body: "<body>" }));
    await page.goto(`${origin}/page`);
    seen = [];
    const answers = await attack(page, origin);
    if (reads) {
      assert.ok(answers.some(text => text.includes("secret")));
      assert.ok(seen.includes("DELETE no type"), seen.join());
    } else {
      for (const text of answers) assert.match(text, /"unknown_host"|^TypeError/);
      assert.ok(answers.some(text => text.includes("--allow-host rebound.example")));
    }
    await page.close();
  }
  assert.equal(await state(), old);
});

test("/docs of the server itself changes what the user asks for", async () => {
  for (const url of [hare.url, hare.url.replace("127.0.0.1", "hare.example")]) {
    const old = await state();
    const { page, faults } = await open(browser, `${url}/docs`, desk);
    const call = page.locator("article#createSession");
    await call.locator("summary").click();
    await call.getByRole("button", { name: "Try it" }).click();
    await call.locator("pre", { hasText: "201 Created" }).waitFor();
    assert.deepEqual(faults, []);
    assert.notEqual(await state(), old);
    await page.context().close();
  }
  // A link of a page of another site leads to the page.
  const page = await browser.newPage();
  await page.goto(`http://evil.example:${portOf(naive)}/page`);
  await page.evaluate(url => (location.href = url), `${hare.url}/docs`);
  await page.locator("article").first().waitFor();
  await page.close();
});
