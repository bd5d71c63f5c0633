/** The client of Hare. `Hare` is where to begin; docs/reference/http.md#clients shows it. */
export * from "./client.js";
export * from "./errors.js";
/** Types and operations made from the specification. */
export * as generated from "./generated/index.js";
export type {
  Agent,
  BoundResult,
  Cluster,
  Instance,
  Job,
  ManagedCluster,
  ManagedHistoryRow,
  ManagedJob,
  NewManagedJob,
  Options,
  Report,
  Result,
  Session,
  WhatIfLine,
  WhatIfRequest,
} from "./generated/index.js";
