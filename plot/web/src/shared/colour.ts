// Colours of jobs on a light or a dark page.

export type RGB = readonly [number, number, number];

// rgb parses "#rrggbb" and the computed form "rgb(r, g, b)".
export function rgb(text: string): RGB {
  if (text.startsWith("#")) return [1, 3, 5].map(i => parseInt(text.slice(i, i + 2), 16)) as unknown as RGB;
  return (text.match(/[\d.]+/g) ?? ["0", "0", "0"]).slice(0, 3).map(Number) as unknown as RGB;
}

export function hex(c: RGB): string {
  return "#" + c.map(v => Math.round(v).toString(16).padStart(2, "0")).join("");
}

// mix blends the given share of b into a.
export function mix(a: RGB, b: RGB, share: number): RGB {
  return a.map((v, i) => v * (1 - share) + b[i]! * share) as unknown as RGB;
}

// luminance and contrast are defined as in WCAG 2.
export function luminance(c: RGB): number {
  const [r, g, b] = c.map(v =>
    v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4,
  ) as unknown as RGB;
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

export function contrast(a: RGB, b: RGB): number {
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}

const BLACK: RGB = [20, 20, 20];
const WHITE: RGB = [255, 255, 255];

// onDark lightens a colour until it contrasts with a dark background.
export function onDark(c: RGB, ground: RGB, least = 3): RGB {
  for (let share = 0; share < 1; share += 0.05) {
    const lighter = mix(c, WHITE, share);
    if (contrast(lighter, ground) >= least) return lighter;
  }
  return WHITE;
}

// inkOn returns the text colour with the greater contrast on c.
export function inkOn(c: RGB): RGB {
  return contrast(BLACK, c) >= contrast(WHITE, c) ? BLACK : WHITE;
}

// Shades are the colours of one job.
export interface Shades {
  fill: string;
  sync: string; // for the time in which the job synchronises
  ink: string; // colour of text on fill
}

// shadesOf returns the shades of a palette on a background.
export function shadesOf(palette: readonly string[], ground: RGB): Shades[] {
  const dark = luminance(ground) < 0.2;
  return palette.map(text => {
    const fill = dark ? onDark(rgb(text), ground) : rgb(text);
    return { fill: hex(fill), sync: hex(mix(fill, ground, 0.55)), ink: hex(inkOn(fill)) };
  });
}
