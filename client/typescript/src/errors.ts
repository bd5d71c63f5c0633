/** The base class of all errors of this package. */
export class HareError extends Error {
  override name = "HareError";
}

/** One fault of a request; pointer (RFC 6901) says where it is. */
export interface Fault {
  pointer: string;
  code: string;
  detail: string;
}

/** The server refused a call (RFC 9457). */
export class Problem extends HareError {
  override name = "Problem";
  /** The code is stable, and "" where a proxy before the server refused. */
  readonly code: string;
  readonly detail: string;
  /** The id of the request in the server's log. */
  readonly requestId: string;
  readonly errors: Fault[];

  constructor(
    readonly status: number,
    document: { code?: string; detail?: string; title?: string; request_id?: string; errors?: Fault[] },
    /** The seconds of Retry-After; 0 where the server does not send it. */
    readonly retryAfter = 0,
  ) {
    const what = document.detail || document.title || "refused";
    super(
      `${status}: ${what}${document.code ? ` (${document.code})` : ""}` +
        `${document.request_id ? `, request ${document.request_id}` : ""}`,
    );
    this.code = document.code ?? "";
    this.detail = document.detail ?? "";
    this.requestId = document.request_id ?? "";
    this.errors = document.errors ?? [];
  }

  static async of(response: Response): Promise<Problem> {
    let document: ConstructorParameters<typeof Problem>[1] = {
      title: response.statusText,
      request_id: response.headers.get("X-Request-Id") ?? "",
    };
    try {
      const text = await response.text();
      if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) {
        document = JSON.parse(text);
      }
    } catch {
      // The answer is incomplete: only its status is known.
    }
    const after = Number(response.headers.get("Retry-After") ?? "0");
    return new Problem(response.status, document, after > 0 ? after : 0);
  }

  /** Tells whether the server did nothing, so that even a call that is not idempotent may be repeated. */
  get refused(): boolean {
    return (
      ["busy", "draining", "rate", "quota", "too_many_streams"].includes(this.code) ||
      (this.status === 429 && this.retryAfter > 0)
    );
  }

  /** Tells whether the same call may succeed later. */
  get transient(): boolean {
    if ([429, 502, 504].includes(this.status)) return this.code !== "limit";
    // The same call would reach its deadline again.
    if (this.status === 503) return this.code !== "deadline";
    return this.status === 409 && this.retryAfter > 0;
  }
}

/** The server refused an event of a session; a refused event changes nothing. */
export class EventRefused extends HareError {
  override name = "EventRefused";
  constructor(
    readonly seq: number | null,
    readonly error: { status: number; pointer: string; code: string; detail: string; expected?: number },
  ) {
    super(`event ${seq}: ${error.pointer}: ${error.detail} (${error.code})`);
  }
}
