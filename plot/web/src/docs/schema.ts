// Describes in words the parts of an OpenAPI document that the page shows.

export interface Schema {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  items?: Schema;
  prefixItems?: Schema[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  description?: string;
  default?: unknown;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
}

export interface Parameter {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema?: Schema;
}

export interface Operation {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { description: string; content?: Record<string, { schema?: Schema }> }>;
}

export interface Specification {
  info: { description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

// Words are text, or the name of a document to link to.
export type Words = (string | { name: string })[];

// kind describes the values that a schema allows.
export function kind(s: Schema): Words {
  if (s.$ref) return [{ name: s.$ref.split("/").pop()! }];
  if (s.enum) return [s.enum.map(x => JSON.stringify(x)).join(" | ")];
  if (s.oneOf) return s.oneOf.flatMap((x, i) => [...(i ? [" or "] : []), ...kind(x)]);
  if (s.type === "array" && s.prefixItems)
    return ["[", ...s.prefixItems.flatMap((x, i) => [...(i ? [", "] : []), ...kind(x)]), "]"];
  if (s.type === "array") return ["array of ", ...kind(s.items ?? {})];
  if (s.type === "object" && typeof s.additionalProperties === "object")
    return ["map of ", ...kind(s.additionalProperties)];
  return [Array.isArray(s.type) ? s.type.join(" or ") : (s.type ?? "anything")];
}

// limits describes the default and the range of a schema; "" where it has neither.
export function limits(s: Schema): string {
  return [
    s.default !== undefined && `default ${JSON.stringify(s.default)}`,
    s.minimum !== undefined && `≥ ${s.minimum}`,
    s.exclusiveMinimum !== undefined && `> ${s.exclusiveMinimum}`,
    s.maximum !== undefined && `≤ ${s.maximum}`,
  ]
    .filter(Boolean)
    .join(", ");
}

// fill replaces the {parameters} of a path by values; missing holds the names of
// parameters without a value.
export function fill(path: string, values: Record<string, string>): { path: string; missing: string[] } {
  const missing: string[] = [];
  const filled = path.replace(/\{(\w+)\}/g, (whole, name: string) => {
    if (!values[name]) missing.push(name);
    return values[name] ? encodeURIComponent(values[name]) : whole;
  });
  return { path: filled, missing };
}
