// Colours of jobs, users and names: Paul Tol's "muted" scheme, which readers who see few colours
// tell apart too, then lighter and darker tones of it. Package plot has the same.
import { hex, mix, rgb, shadesOf, type RGB, type Shades } from "../shared/colour.js";

const HUES = [
  "#cc6677",
  "#332288",
  "#ddcc77",
  "#117733",
  "#88ccee",
  "#882255",
  "#44aa99",
  "#999933",
  "#aa4499",
];
const TONES: [to: RGB, share: number][] = [
  [[0, 0, 0], 0],
  [[255, 255, 255], 0.38],
  [[20, 20, 20], 0.32],
];
const PALETTE = TONES.flatMap(([to, share]) => HUES.map(h => hex(mix(rgb(h), to, share))));

let shades: Shades[] | undefined;
document.documentElement.addEventListener("themechange", () => (shades = undefined));

// colour returns a colour of the page.
export function colour(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function shade(i: number): Shades {
  shades ??= shadesOf(PALETTE, rgb(colour("ground")));
  return shades[i % shades.length]!;
}

// numberOf gives equal texts equal numbers.
export function numberOf(text: string): number {
  let h = 7;
  for (let i = 0; i < text.length; i++) h = (h * 31 + text.charCodeAt(i)) >>> 0;
  return h;
}
