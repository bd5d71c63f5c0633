// Bars of a chart as pixels: a chart may have more of them than a canvas can draw in a frame.

// packed returns the colour "#rrggbb" as a pixel without opacity.
export function packed(hex: string): number {
  const v = parseInt(hex.slice(1), 16);
  return ((v & 255) << 16) | (v & 0xff00) | (v >> 16);
}

// opaque returns a packed colour with an opacity of 0 to 1.
export function opaque(colour: number, opacity = 1): number {
  return ((Math.round(opacity * 255) << 24) | colour) >>> 0;
}

export class Raster {
  private readonly canvas = document.createElement("canvas");
  private readonly g = this.canvas.getContext("2d", { willReadFrequently: true })!;
  private image: ImageData | null = null;
  private pixels = new Uint32Array(0);
  private ratio = 1;
  private width = 0;
  private height = 0;

  // begin forgets what was drawn. Sizes are in CSS pixels, of which each has ratio pixels.
  begin(width: number, height: number, ratio: number): void {
    [this.width, this.height] = [
      Math.max(1, Math.round(width * ratio)),
      Math.max(1, Math.round(height * ratio)),
    ];
    this.ratio = ratio;
    if (this.image?.width === this.width && this.image.height === this.height) {
      this.pixels.fill(0);
      return;
    }
    [this.canvas.width, this.canvas.height] = [this.width, this.height];
    this.image = this.g.createImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  // rect fills a rectangle, at least one pixel wide and high, less `gap` pixels at its right side.
  rect(x: number, y: number, width: number, height: number, colour: number, gap = 0): void {
    const { ratio, pixels } = this;
    const left = Math.max(0, Math.round(x * ratio));
    const right = Math.min(this.width, Math.max(left + 1, Math.round((x + width) * ratio) - gap));
    const top = Math.round(y * ratio);
    const bottom = Math.min(this.height, Math.max(top + 1, Math.round((y + height) * ratio)));
    const wide = right - left;
    for (let row = Math.max(0, top); row < bottom; row++) {
      const from = row * this.width + left;
      if (wide > 24) pixels.fill(colour, from, from + wide);
      else for (let i = from; i < from + wide; i++) pixels[i] = colour;
    }
  }

  // draw copies what was drawn to a canvas whose unit is a CSS pixel.
  draw(g: CanvasRenderingContext2D): void {
    this.g.putImageData(this.image!, 0, 0);
    g.drawImage(this.canvas, 0, 0, this.width / this.ratio, this.height / this.ratio);
  }
}
