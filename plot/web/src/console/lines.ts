// Lines over time, drawn by uPlot.
import uPlot from "uplot";
import { duration, time } from "../shared/axis.js";
import { colour } from "./palette.js";
import { clock, figure } from "./words.js";

export interface Line {
  name: string;
  values: (number | null)[];
  colour: string; // of the page
  steps?: boolean;
  dashed?: boolean;
}

// lines draws into a box and returns what removes the chart. x is in seconds: of the epoch, or
// since a beginning where `since` is set.
export function lines(box: HTMLElement, x: number[], all: Line[], height: number, since = false): () => void {
  const [faint, line] = [colour("faint"), colour("line")];
  const font = `11px ${getComputedStyle(box).fontFamily}`;
  const axis = { stroke: faint, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  const plot = new uPlot(
    {
      width: Math.max(200, box.clientWidth),
      height,
      cursor: { y: false },
      legend: { live: true },
      scales: { x: { time: !since } },
      axes: [
        {
          ...axis,
          size: 30,
          space: 70,
          values: (_, at) =>
            at.map(v =>
              since ? time(v * 1e6, (at[1] ?? 1) * 1e6 - (at[0] ?? 0) * 1e6 || 1e6) : clock(v * 1e3, v * 1e3),
            ),
        },
        { ...axis, size: 64, space: 24, values: (_, at) => at.map(v => figure(v)) },
      ],
      series: [
        {
          label: since ? "after" : "at",
          value: (_, v) => (v === null ? "" : since ? duration(v * 1e6) : clock(v * 1e3, Date.now())),
        },
        ...all.map(l => ({
          label: l.name,
          stroke: colour(l.colour),
          width: 1.5,
          ...(l.dashed ? { dash: [6, 4] } : {}),
          points: { show: false },
          spanGaps: true,
          ...(l.steps ? { paths: uPlot.paths.stepped!({ align: 1 }) } : {}),
          value: (_: uPlot, v: number | null) => (v === null ? "" : figure(v)),
        })),
      ],
    },
    [x, ...all.map(l => l.values)],
    box,
  );
  const see = new ResizeObserver(() => plot.setSize({ width: Math.max(200, box.clientWidth), height }));
  see.observe(box);
  return () => {
    see.disconnect();
    plot.destroy();
  };
}
