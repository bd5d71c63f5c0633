// Paul Tol's "muted" scheme, which readers who see few colours tell apart too, then lighter and darker tones of it.
// Package plot has the same.
import { hex, mix, rgb, type RGB } from "./colour.js";

export const HUES = [
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
export const PALETTE = TONES.flatMap(([to, share]) => HUES.map(h => hex(mix(rgb(h), to, share))));

// LEVELS are places in the palette from light to dark, for what has an order.
export const LEVELS = [4, 6, 7, 0, 5];
