// Tests the page of a schedule in Chromium, with pages that hare makes.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { HUES, PALETTE } from "../src/shared/palette.js";
import { desk, frame, hare, keepsTheRules, launch, open, pages, phone, root, violations } from "./browser.js";

let browser: Browser;
const LEFT = 118; // width of the names in pixels, as in main.ts

before(async () => {
  const example = (name: string) => join(root, "testdata/examples", name);
  hare("plot", example("windows.instance.json"), example("windows.result.json"), "-o", "windows.html");
  // The cluster has 250 nodes and 2,000 GPUs of two types; there are 250 gangs.
  const jobs = Array.from({ length: 250 }, (_, i) => ({
    id: `train-${i}`,
    rounds: 1000 + (i % 7) * 100,
    tasks: 8,
    sync: "gang",
    on: { V100: { compute_s: 2, sync_s: 0.2 }, T4: { compute_s: 5, sync_s: 0.2 } },
  }));
  const cluster = {
    nodes: [
      { name: "t", count: 125, gpus: { T4: 8 } },
      { name: "v", count: 125, gpus: { V100: 8 } },
    ],
  };
  writeFileSync(
    join(pages, "many.instance.json"),
    JSON.stringify({ hare: "instance/v1", name: "2,000 GPUs", cluster, jobs }),
  );
  hare(
    "solve",
    "-q",
    "many.instance.json",
    "--bound",
    "machine",
    "--work-limit",
    "1",
    "-o",
    "many.result.json",
  );
  hare("plot", "many.instance.json", "many.result.json", "-o", "many.html");
  // Four tasks of 8 GPUs fill two racks of two nodes each; then eight tasks of 4 GPUs do.
  const on = { A100: { compute_s: 10 } };
  const nodes = ["r1", "r2"].map(rack => ({ name: rack[1], count: 2, gpus: { A100: 8 }, labels: { rack } }));
  writeFileSync(
    join(pages, "nodes.instance.json"),
    JSON.stringify({
      hare: "instance/v1",
      name: "nodes",
      cluster: { nodes },
      jobs: [
        { id: "wide", weight: 2, sync: "rigid", tasks: 4, gpus_per_task: 8, on },
        { id: "half", sync: "rigid", tasks: 8, gpus_per_task: 4, on },
      ],
    }),
  );
  hare(
    "solve",
    "-q",
    "nodes.instance.json",
    "--bound",
    "machine",
    "--work-limit",
    "1",
    "-o",
    "nodes.result.json",
  );
  hare("plot", "nodes.instance.json", "nodes.result.json", "-o", "nodes.html");
  // Job run holds its GPU for 10 s more. Job next then needs 4 s of setup and 10 s, and ends 4 s
  // after its deadline. The GPU of the other node is reserved.
  writeFileSync(
    join(pages, "fields.instance.json"),
    JSON.stringify({
      hare: "instance/v1",
      name: "fields",
      cluster: {
        topology: ["zone", "rack"],
        nodes: ["a", "b"].map(name => ({ name, gpus: { A100: 1 }, labels: { zone: "e", rack: name } })),
        reservations: [{ nodes: { node: "b" }, until_s: 30, users: ["ops"] }],
      },
      jobs: [
        {
          id: "run",
          sync: "rigid",
          on: { A100: { compute_s: 15 } },
          progress: { gpus: ["a/0"], elapsed_s: 5 },
        },
        { id: "next", sync: "rigid", deadline_s: 20, on: { A100: { compute_s: 10, switch_s: 4 } } },
      ],
    }),
  );
  hare(
    "solve",
    "-q",
    "fields.instance.json",
    "--bound",
    "machine",
    "--work-limit",
    "1",
    "-o",
    "fields.result.json",
  );
  hare("plot", "fields.instance.json", "fields.result.json", "-o", "fields.html");
  // One job of two users after the other on the one GPU: the first of ann, the others of <b>ob.
  writeFileSync(
    join(pages, "users.instance.json"),
    JSON.stringify({
      hare: "instance/v1",
      name: "users",
      cluster: { nodes: [{ name: "a", gpus: { A100: 1 } }] },
      jobs: ["ann", "<b>ob", "<b>ob"].map((user, i) => ({
        id: `lm-${i}`,
        weight: 9 - i,
        sync: "rigid",
        class: { user },
        on: { A100: { compute_s: 10 } },
      })),
    }),
  );
  hare("solve", "-q", "users.instance.json", "--work-limit", "1", "-o", "users.result.json");
  hare("plot", "users.instance.json", "users.result.json", "-o", "users.html");
  browser = await launch();
});
after(() => browser?.close());

const picture = (page: Page) => page.evaluate(() => document.querySelector("canvas")!.toDataURL());

// at returns the colour of the canvas at a place of the screen.
async function at(page: Page, x: number, y: number): Promise<string> {
  return page.evaluate(
    ([x, y]) => {
      const c = document.querySelector("canvas")!;
      const box = c.getBoundingClientRect();
      const [r, g, b] = c
        .getContext("2d")!
        .getImageData(
          ((x! - box.left) * c.width) / box.width,
          ((y! - box.top) * c.height) / box.height,
          1,
          1,
        ).data;
      return "#" + [r, g, b].map(v => v!.toString(16).padStart(2, "0")).join("");
    },
    [x, y],
  );
}

async function box(page: Page): Promise<{ x: number; y: number; width: number; height: number }> {
  return (await page.locator("canvas").boundingBox())!;
}

test("pages of schedules keep the rules of all pages", async () => {
  await keepsTheRules(browser, "windows.html");
  await keepsTheRules(browser, "fields.html");
});

// The first GPU is busy to 2.5 s of 16.25 s, then runs job a; see TestPNGPlaces.
test("a bar is where its task is, and says what it is", async () => {
  const { page, faults } = await open(browser, "windows.html", desk);
  const b = await box(page);
  const x = (seconds: number) => b.x + LEFT + (seconds / 16.25) * (b.width - LEFT);
  assert.equal(await at(page, x(3.5), b.y + 6), "#cc6677");
  assert.equal(await at(page, x(12), b.y + 6), "#ddcc77");
  assert.equal(await at(page, x(15), b.y + 6), "#f3f5f8");
  const tip = page.locator("#tip");
  for (const [seconds, says] of [
    [1, /^n-0\/0 · out of service or busy$/],
    [3.5, /^a\nround 1 of/],
    [15, /^n-0\/0 · idle$/],
  ] as const) {
    await page.mouse.move(x(seconds), b.y + 6);
    assert.match((await tip.textContent())!, says);
  }
  await page.mouse.move(b.x + LEFT + 1, b.y + b.height - 4);
  assert.ok(await tip.isHidden());
  await page.mouse.click(x(3.5), b.y + 6);
  assert.match((await page.locator("#about").textContent())!, /^a · /);
  await page.keyboard.press("Escape");
  assert.ok(await page.locator("#chosen").isHidden());
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("a tap shows what a pointer would, and it stays", async () => {
  const { page } = await open(browser, "windows.html", phone);
  const b = await box(page);
  const left = 62; // width of the names in pixels on narrow screens
  await page.touchscreen.tap(b.x + left + (3.5 / 16.25) * (b.width - left), b.y + 18 + 6);
  await page.waitForTimeout(300);
  assert.match((await page.locator("#tip").textContent())!, /^a\n/);
  assert.ok(await page.locator("#tip").isVisible());
  assert.ok(await page.locator("#chosen").isVisible());
  await page.context().close();
});

test("fingers scroll rows, move in time and zoom, and the page stays as it is", async () => {
  const { page } = await open(browser, "many.html", phone);
  const touch = await page.context().newCDPSession(page);
  const b = await box(page);
  const [x, y] = [b.x + 200, b.y + 200];
  // swipe moves fingers from the first places to the last.
  const swipe = async (...frames: [number, number][][]) => {
    const points = (f: [number, number][]) => f.map(([dx, dy], id) => ({ x: x + dx, y: y + dy, id }));
    await touch.send("Input.dispatchTouchEvent", { type: "touchStart", touchPoints: points(frames[0]!) });
    for (const f of frames.slice(1)) {
      await touch.send("Input.dispatchTouchEvent", { type: "touchMove", touchPoints: points(f) });
      await page.waitForTimeout(20);
    }
    await touch.send("Input.dispatchTouchEvent", { type: "touchEnd", touchPoints: [] });
    await frame(page);
  };
  const top = () => page.evaluate(() => document.querySelector("#rows")!.scrollTop);
  await swipe([[0, 0]], [[0, -20]], [[0, -60]], [[0, -120]]);
  await page.waitForFunction(() => document.querySelector("#rows")!.scrollTop > 50);
  const before = [await picture(page), await top()];
  await swipe(
    [
      [-20, 0],
      [20, 0],
    ],
    [
      [-40, 0],
      [40, 0],
    ],
    [
      [-100, 0],
      [100, 0],
    ],
  );
  const zoomed = await picture(page);
  assert.notEqual(zoomed, before[0], "pinch");
  await swipe([[0, 0]], [[-20, 0]], [[-60, 0]], [[-120, 0]]);
  assert.notEqual(await picture(page), zoomed, "swipe");
  assert.equal(await page.evaluate(() => visualViewport!.scale), 1, "the page itself was zoomed");
  await page.context().close();
});

test("jobs and GPUs are found while one types", async () => {
  const { page } = await open(browser, "many.html", desk);
  const before = await picture(page);
  await page.keyboard.press("/");
  await page.keyboard.type("train-24", { delay: 5 });
  await frame(page);
  assert.equal(await page.locator("#hits li").count(), 11); // train-24 and train-240 to 249
  assert.match((await page.locator("#count").textContent())!, /^11 jobs/);
  assert.notEqual(await picture(page), before, "what matches does not stand out");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  assert.match((await page.locator("#about").textContent())!, /^train-240 · gang · .* on 8 GPUs$/);
  assert.ok(await page.locator("#found").isHidden());
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#find").inputValue(), "");
  await page.keyboard.type("v-124/7");
  await page.keyboard.press("Enter");
  await frame(page);
  // The last of 2,000 rows is visible, with its name.
  const seen = await page.evaluate(() => {
    const s = document.querySelector("#rows")!;
    return s.scrollTop + s.clientHeight >= s.scrollHeight - 30;
  });
  assert.ok(seen, "the GPU is not in sight");
  await page.keyboard.press("Escape");
  await page.keyboard.type("no such thing");
  assert.match((await page.locator("#count").textContent())!, /no job and no GPU/);
  await page.context().close();
});

test("all of 2,000 GPUs can be reached, by wheel and by keys", async () => {
  const { page, faults } = await open(browser, "many.html", desk);
  const b = await box(page);
  const under = async (y: number) => {
    await page.mouse.move(b.x + b.width - 30, b.y + y);
    return (await page.locator("#tip").textContent())!;
  };
  assert.match(await under(1), /^t-0\/0 |\nt-0\/0 /);
  for (let i = 0; i < 40; i++) await page.mouse.wheel(0, 400);
  await page.waitForFunction(() => {
    const s = document.querySelector("#rows")!;
    return s.scrollTop + s.clientHeight >= s.scrollHeight - 1;
  });
  await frame(page);
  assert.match(await under(b.height - 26 - 1), /v-124\/7/); // the axis has a height of 26
  await page.locator("canvas").focus();
  await page.keyboard.press("Home");
  await page.waitForFunction(() => document.querySelector("#rows")!.scrollTop === 0);
  await page.keyboard.press("End");
  await page.waitForFunction(() => document.querySelector("#rows")!.scrollTop > 1000);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("zoom, by keys, buttons and wheel, and back", async () => {
  const { page } = await open(browser, "many.html", desk);
  await page.mouse.move(0, 0);
  const whole = await picture(page);
  const differs = async (act: () => Promise<unknown>, what: string) => {
    await act();
    await frame(page);
    assert.notEqual(await picture(page), whole, what);
    await page.locator("#all").click();
    await page.mouse.move(0, 0);
    await frame(page);
    assert.equal(await picture(page), whole, `back from ${what}`);
  };
  await differs(() => page.locator("canvas").press("+"), "the key +");
  await differs(() => page.locator("#in").click(), "the button +");
  const b = await box(page);
  await differs(async () => {
    await page.mouse.move(b.x + 600, b.y + 100);
    await page.keyboard.down("Control");
    await page.mouse.wheel(0, -300);
    await page.keyboard.up("Control");
    await page.waitForTimeout(100);
  }, "ctrl and the wheel");
  await page.locator("#rowh").fill("14");
  await frame(page);
  assert.notEqual(await picture(page), whole, "the height of rows");
  await page.context().close();
});

test("every control is reached by the keyboard", async () => {
  const { page } = await open(browser, "windows.html", desk);
  const reached: string[] = [];
  for (let i = 0; i < 20; i++) {
    await page.keyboard.press("Tab");
    reached.push(
      await page.evaluate(
        () =>
          document.activeElement!.id || document.activeElement!.className || document.activeElement!.tagName,
      ),
    );
  }
  for (const id of ["find", "out", "in", "all", "rowh", "theme", "chart"])
    assert.ok(reached.includes(id), `${id}: ${reached.join(" ")}`);
  await page.context().close();
});

test("the GPUs of a task are one block, and nodes and racks have brackets", async () => {
  const { page, faults } = await open(browser, "nodes.html", desk);
  const b = await box(page);
  const left = LEFT + 40 + 34; // and the names of nodes and racks, as in paint.ts
  const x = (seconds: number) => b.x + left + (seconds / 20) * (b.width - left);
  // Rows of one node have the same height and no gaps.
  const rows = await page.evaluate(() => {
    const room = document.querySelector("#rows")!.clientHeight - 26;
    return Math.max(2, Math.min(22, Math.floor((4 * (room - 2 - 2 - 6)) / 32) / 4));
  });
  // Where two bars overlap in a part of a pixel, its colour is rounded twice.
  const near = async (x: number, y: number, want: string) => {
    const got = await at(page, x, y);
    const channel = (colour: string, i: number) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
    const off = Math.max(...[0, 1, 2].map(i => Math.abs(channel(got, i) - channel(want, i))));
    assert.ok(off <= 4, `${got} at ${x}, ${y}; want ${want}`);
  };
  const [ground, wide, half] = ["#f3f5f8", "#cc6677", "#332288"];
  for (let gpu = 1; gpu < 8; gpu++) {
    const seam = b.y + gpu * rows;
    await near(x(9), seam, wide!);
    await near(x(19), seam, gpu === 4 ? ground! : half!);
  }
  await page.mouse.move(x(5), b.y + rows / 2);
  assert.match(
    (await page.locator("#tip").textContent())!,
    /1-0\/0 · A100 · r1 · one of the 8 GPUs of a task/,
  );
  assert.deepEqual(faults, []);
  await page.screenshot({ path: join(pages, "nodes.png") });
  await page.context().close();
});

test("rows fold to nodes and types, and unfold, by keys and by pointer", async () => {
  for (const options of [desk, phone]) {
    const { page, faults } = await open(browser, "many.html", options);
    const slider = page.locator("#rowh");
    const said = async () => {
      await frame(page);
      return [await slider.getAttribute("aria-valuetext"), await page.locator("#fold").textContent()].join();
    };
    assert.equal(await said(), "2 pixels,");
    await slider.press("Home");
    assert.equal(await said(), "types,types");
    const b = await box(page);
    const [x, y] = [b.x + 70 + LEFT, b.y + 30];
    const tone = await at(page, x, y);
    assert.notEqual(tone, "#f3f5f8", "no use is drawn");
    if (options === desk) {
      await page.mouse.move(x, y);
      assert.match(
        (await page.locator("#tip").textContent())!,
        /^T4\n1,000 of 1,000 GPUs busy at .*\npress to unfold$/,
      );
    }
    assert.deepEqual(await violations(page), []);
    await page.screenshot({ path: join(pages, `folded-${options === desk ? "desk" : "phone"}.png`) });
    // A job that is found stands out in the rows of all GPUs.
    const press = () => (options === desk ? page.mouse.click(x, y) : page.touchscreen.tap(x, y));
    await press();
    assert.equal(await said(), "nodes,nodes");
    await press();
    assert.equal(await said(), "14 pixels,");
    await slider.press("Home");
    await page.locator("#find").fill("train-7");
    await frame(page);
    assert.notEqual(await at(page, x, y), tone, "what matches does not stand out");
    await page.keyboard.press("Enter");
    assert.equal(await said(), "14 pixels,");
    assert.deepEqual(faults, []);
    await page.context().close();
  }
});

test("jobs are coloured by user, and one user's stand out", async () => {
  const { page, faults } = await open(browser, "users.html", desk);
  const b = await box(page);
  const bar = (seconds: number) =>
    at(page, b.x + LEFT + 40 + (seconds / 30) * (b.width - LEFT - 40) - 40, b.y + 6);
  const bars = async () => {
    await page.mouse.move(0, 0);
    await frame(page);
    return [await bar(8), await bar(18), await bar(28)];
  };
  assert.deepEqual(await bars(), HUES.slice(0, 3));
  const { palette } = JSON.parse((await page.locator("#data").textContent())!) as { palette: string[] };
  assert.deepEqual(PALETTE, palette, "the console and plots have different colours");
  const by = page.getByLabel("colour by");
  assert.deepEqual(await by.locator("option").allInnerTexts(), ["job", "user", "weight"]);
  await by.selectOption("user");
  assert.deepEqual(await bars(), ["#332288", "#cc6677", "#cc6677"]);
  await page.getByRole("button", { name: "<b>ob" }).press("Enter");
  const [ann, bob] = await bars();
  assert.notEqual(ann, "#332288");
  assert.equal(bob, "#cc6677");
  assert.equal(await page.getByRole("button", { name: "<b>ob" }).getAttribute("aria-pressed"), "true");
  assert.deepEqual(await violations(page), []);
  await by.selectOption("weight");
  assert.deepEqual(await bars(), ["#999933", "#44aa99", "#88ccee"]);
  assert.deepEqual(faults, []);
  await page.context().close();
});

test("running work, setups, deadlines and reservations are drawn", async () => {
  const { page, faults } = await open(browser, "fields.html", desk);
  const b = await box(page);
  const left = LEFT + 40 + 28 + 28; // and the names of nodes, racks and zones, as in paint.ts
  const x = (seconds: number) => b.x + left + (seconds / 24) * (b.width - left);
  // The rows are 22 pixels high, and the bars 18.
  const [ground, next, late] = ["#f3f5f8", "#332288", "#c2160c"];
  assert.equal(await at(page, x(12), b.y + 11), next);
  assert.equal(await at(page, x(12), b.y + 4), ground);
  assert.equal(await at(page, x(16), b.y + 4), next);
  assert.equal(await at(page, x(16), b.y + 18), next);
  assert.equal(await at(page, x(22), b.y + 18), late);
  const below = b.y + 22 + 6 + 11; // the other rack begins 6 pixels below
  for (const [seconds, y, says] of [
    [5, b.y + 11, /^run\nruns at time 0, since 5 s before\na\/0 · A100 · e\/a\nspread: one node\n/],
    [12, b.y + 11, /^next\na\/0 · setup of the GPU for the job\n10 s to 14 s \(4 s\)$/],
    [22, b.y + 11, /\nafter a setup of 4 s|deadline 20 s: late by 4 s$/],
    [12, below, /^b\/0 · idle\nreserved for ops, 0 to 30 s$/],
  ] as const) {
    await page.mouse.move(x(seconds), y);
    assert.match((await page.locator("#tip").textContent())!, says);
  }
  assert.match(await page.locator("#legend").innerText(), /late:\s*next by 4 s/);
  assert.deepEqual(faults, []);
  await page.context().close();
});
