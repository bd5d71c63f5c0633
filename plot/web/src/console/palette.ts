// Colours of jobs, users and names.
import { rgb, shadesOf, type Shades } from "../shared/colour.js";
import { PALETTE } from "../shared/palette.js";

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
