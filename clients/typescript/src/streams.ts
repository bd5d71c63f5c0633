import { HareError } from "./errors.js";

/** Cuts at newlines. What the end of the stream cuts is no line. */
export async function* lines(chunks: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const line of parts) yield line.endsWith("\r") ? line.slice(0, -1) : line;
    if (rest.length > most) throw new HareError(`a line of the answer is longer than ${most} characters`);
  }
}

/** One server-sent event; id is 0 without one. */
export interface Message {
  id: number;
  event: string;
  data: string;
}

/** Events that have data (HTML standard, 9.2.6); half an event counts for nothing. */
export async function* messages(chunks: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Message> {
  let id = 0;
  let event = "";
  let data: string[] = [];
  let size = 0;
  for await (const line of lines(chunks, most)) {
    size += line.length;
    if (size > most) throw new HareError(`an event is longer than ${most} characters`);
    if (line === "") {
      if (data.length > 0) yield { id, event, data: data.join("\n") };
      [id, event, data, size] = [0, "", [], 0];
      continue;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "id" && /^\d{1,15}$/.test(value)) id = Number(value);
    else if (name === "event") event = value;
    else if (name === "data") data.push(value);
  }
}

/** The chunks of a body; onChunk is called for each. Leaving the loop cancels it. */
export async function* chunks(body: ReadableStream<Uint8Array>, onChunk: () => void): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      onChunk();
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined); // it may have failed already
  }
}
