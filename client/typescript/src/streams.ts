import { HareError } from "./errors.js";

/** Yields lines without their line breaks. Text without a line break at the end is ignored. */
export async function* lines(chunks: AsyncIterable<Uint8Array>, maxLength: number): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of chunks) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = parts.pop() ?? "";
    for (const line of parts) yield line.endsWith("\r") ? line.slice(0, -1) : line;
    if (rest.length > maxLength) throw new HareError(`a line of the answer is longer than ${maxLength} characters`);
  }
}

/** One server-sent event; its id is 0 where the server sends none. */
export interface Message {
  id: number;
  event: string;
  data: string;
}

/** Yields events that have data (HTML standard, 9.2.6); an incomplete event is ignored. */
export async function* messages(chunks: AsyncIterable<Uint8Array>, maxLength: number): AsyncGenerator<Message> {
  let id = 0;
  let event = "";
  let data: string[] = [];
  let size = 0;
  for await (const line of lines(chunks, maxLength)) {
    size += line.length;
    if (size > maxLength) throw new HareError(`an event is longer than ${maxLength} characters`);
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

/** Yields the chunks of a body and calls onChunk for each. The body is cancelled when the loop ends. */
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
    await reader.cancel().catch(() => undefined); // the body may have failed already
  }
}
