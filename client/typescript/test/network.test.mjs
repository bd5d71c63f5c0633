// The installed package against a network that loses, cuts and refuses.
// HARE_FAKE starts client/conformance/fake.py.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { Hare, HareError, Problem } from "hare-client";

let fake;
let base;
const instance = { hare: "instance/v1" }; // the fake does not look at it

before(async () => {
  fake = spawn(process.env.PYTHON, [process.env.HARE_FAKE, process.env.HARE_RESULT], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  for await (const line of createInterface({ input: fake.stdout })) {
    base = line;
    break;
  }
});
after(() => fake.stdin.end());

const client = (mode, more = {}) => new Hare({ url: `${base}/${mode}`, backoff: 0.001, ...more });
const stats = async (mode) => (await fetch(`${base}/${mode}/_stats`)).json();
const all = async (from) => {
  const out = [];
  for await (const x of from) out.push(x);
  return out;
};

for (const mode of ["lossy", "busy", "proxy"]) {
  test(`solved once: ${mode}`, async () => {
    const result = await client(mode).solve(instance);
    assert.ok(result.value >= result.bound);
    assert.equal((await stats(mode)).solved, 1);
  });
}

test("events resume", async () => {
  const seen = [];
  await client("cut").solve(instance, undefined, { progress: (e) => seen.push(e) });
  assert.deepEqual(
    seen.map((e) => e.id),
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
  );
  assert.equal(seen[2].value, 97);
  assert.equal(seen[2]["é"], "ü");
  assert.equal(seen[2].type, "incumbent");
  assert.equal(seen[8].termination, "gap");
  assert.deepEqual((await stats("cut")).resumed.slice(0, 3), [0, 2, 3]);
});

test("an idle stream is broken", async () => {
  const hare = client("quiet", { idleTimeout: 0.1 });
  const { id } = await hare.submit(instance);
  assert.deepEqual(
    (await all(hare.events(id, 6))).map((e) => e.id),
    [7, 8, 9],
  );
  assert.equal((await stats("quiet")).resumed.length, 2);
});

test("an aborted solve is cancelled", async () => {
  const stop = new AbortController();
  const why = new Error("enough");
  await assert.rejects(
    client("slow").solve(instance, undefined, { progress: () => stop.abort(why), signal: stop.signal }),
    why,
  );
  assert.equal((await stats("slow")).cancelled.length, 1);
  const thrown = client("slow").solve(instance, undefined, {
    progress: () => {
      throw why;
    },
  });
  await assert.rejects(thrown, why);
  assert.equal((await stats("slow")).cancelled.length, 2);
});

test("wait", async () => {
  const hare = client("slow");
  const { id } = await hare.submit(instance, undefined, { key: "mine" });
  assert.equal((await hare.submit(instance, undefined, { key: "mine" })).id, id);
  assert.equal((await hare.get(id)).status, "running");
  await assert.rejects(hare.wait(id, AbortSignal.timeout(50)), { name: "TimeoutError" });
  setTimeout(() => hare.cancel(id), 50);
  assert.equal((await hare.wait(id)).status, "succeeded");
  assert.equal(await hare.schedule(id, "text/csv"), "job,round\nbert,0\n");
  await hare.delete(id);
});

test("lists, scenarios", async () => {
  assert.deepEqual(
    (await all(client("plain").solves({ status: "failed" }))).map((s) => s.id),
    ["l0a", "l0b", "l1a", "l1b", "l2a", "l2b"],
  );
  for (const mode of ["plain", "busy"]) {
    assert.deepEqual(
      (await all(client(mode).whatIf({ base: instance, scenarios: [] }))).map((s) => s.id),
      ["more", "less"],
    );
  }
});

test("simulations", async () => {
  const ask = { policies: ["srtf", "kueue"] };
  for (const mode of ["plain", "busy"]) {
    assert.equal((await client(mode).simulate(ask)).status, "deadline");
    assert.deepEqual(
      (await all(client(mode).followSimulation(ask))).map((l) => l.line),
      ["progress", "run", "summary"],
    );
  }
  const seen = [];
  await assert.rejects(
    async () => {
      for await (const line of client("cut").followSimulation(ask)) seen.push(line);
    },
    { status: 422, code: "stalled" },
  );
  assert.equal(seen.length, 2);
  await assert.rejects(all(client("half").followSimulation(ask)), HareError);
});

test("what must happen once is sent once", async () => {
  for (const mode of ["lossy", "proxy"]) {
    await assert.rejects(client(mode).createSession({ nodes: [] }), HareError);
    assert.equal((await stats(mode)).calls["POST /v1/sessions"], 1);
  }
});

test("a long way off", async () => {
  const began = Date.now();
  await assert.rejects(client("away").version(), (p) => {
    assert.ok(p instanceof Problem);
    assert.deepEqual([p.status, p.code, p.retryAfter, p.requestId], [503, "busy", 3600, "r1"]);
    return true;
  });
  assert.ok(Date.now() - began < 5000);
});

test("nobody listens", () =>
  assert.rejects(new Hare({ url: "http://127.0.0.1:9", backoff: 0.001, retries: 1 }).version(), HareError));

test("key", async () => {
  await client("plain", { key: "hare_x" }).solve(instance);
  const { headers } = await stats("plain");
  assert.equal(headers.authorization, "Bearer hare_x");
  assert.equal(headers["idempotency-key"].length, 32);
  assert.throws(() => new Hare({ url: "ftp://x" }), HareError);
  assert.throws(() => new Hare({ url: "http://hare.example", key: "hare_x" }), HareError);
});

test("no TLS there fails at once", async () => {
  const hare = new Hare({ url: `https${base.slice("http".length)}/plain`, backoff: 60 });
  const began = Date.now();
  await assert.rejects(hare.solve(instance), HareError);
  assert.ok(Date.now() - began < 20_000);
});

test("an error names the address", async () => {
  const nobody = new Hare({ url: "http://127.0.0.1:1", retries: 0 });
  await assert.rejects(nobody.solve(instance), /POST http:\/\/127\.0\.0\.1:1\/v1\/solves: /);
});
