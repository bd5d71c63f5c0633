// indent formats JSON without parsing its numbers, which may have more digits than a
// double holds. Lists without nested values stay on one line.
export function indent(text: string): string {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let out = "";
  let depth = 0;
  const line = () => "\n" + " ".repeat(depth);
  for (let i = 0; i < tokens.length; i++) {
    const t = tokens[i]!;
    if (t === "[" || t === "{") {
      let end = i + 1;
      while (end < tokens.length && !"[{]}".includes(tokens[end]!)) end++;
      const close = tokens[end] ?? "";
      if ((t === "[" && close === "]") || (end === i + 1 && close !== "" && "]}".includes(close))) {
        out += tokens
          .slice(i, end + 1)
          .map(x => (x === "," ? ", " : x))
          .join("");
        i = end;
      } else {
        depth++;
        out += t + line();
      }
    } else if (t === "]" || t === "}") {
      depth--;
      out += line() + t;
    } else if (t === ",") out += t + line();
    else out += t === ":" ? ": " : t;
  }
  return out;
}
