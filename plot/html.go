package plot

import (
	"io"
	"slices"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot/web"
)

// maxPageSpans limits the entries of a page, which take about 6 bytes each.
const maxPageSpans = 8_000_000

// page is what the script draws: PageData in plot/web/src/gantt/data.ts. The times of lanes
// are multiples of Unit microseconds.
type page struct {
	Title      string   `json:"title"`
	Figures    string   `json:"figures"`
	Size       string   `json:"size"`
	Unit       int64    `json:"unit"`
	End        int64    `json:"end"`           // in microseconds
	Now        *int64   `json:"now,omitempty"` // of a timeline
	Types      []string `json:"types"`
	Counts     []string `json:"counts"` // the GPUs of each type
	Palette    []string `json:"palette"`
	Legend     []int32  `json:"legend"`
	LegendHead string   `json:"legendHead"`
	// Jobs are [id, weight, sync, rounds, tasks, release, start, end] in microseconds, and a pageJob where there is
	// more to say.
	Jobs  []any `json:"jobs"`
	Lanes []any `json:"lanes"` // [gpu, type, [away from, to (−1: for ever), …], spans]
	// Nodes are [name, [racks, coarse to fine], lanes, [reservations]] in the order of the lanes, where nodes matter
	// to the instance.
	Nodes []any `json:"nodes,omitempty"`
	// Levels are the names of the levels of the cluster, fine to coarse, where the spread of rounds matters.
	Levels []string `json:"levels,omitempty"`
	// Reserved are the reservations: [from, to, for whom].
	Reserved []any `json:"reserved,omitempty"`
	// Late are the jobs that end after their deadlines, the latest first.
	Late []int32 `json:"late,omitempty"`
	// spans are those of the lanes, as encodeSpans says.
	spans []byte
}

// pageJob is what few jobs have.
type pageJob struct {
	GPUs     int64 `json:"gpus,omitempty"`     // of a task, where it has several
	Deadline int64 `json:"deadline,omitempty"` // in microseconds
	// Shapes are [tasks, GPUs of a task, units of a round].
	Shapes [][3]int64 `json:"shapes,omitempty"`
	// Elapsed is how long ago the work began that runs at time 0; nil where none runs.
	Elapsed *int64 `json:"elapsed,omitempty"`
	User    string `json:"user,omitempty"`
}

func (s *scene) writeHTML(w io.Writer) error {
	data := s.page()
	page := web.Page{Kind: web.Gantt, Title: data.Title, Data: data, Binary: data.spans}
	return page.Write(w)
}

func (s *scene) page() *page {
	p := &page{Title: s.title, Types: s.types, Counts: make([]string, len(s.types)), End: s.endUs}
	p.Figures, p.Size = s.headlines()
	if s.live {
		p.Now = &s.nowUs
	}
	spans := 0
	count := make([]int, len(s.types))
	for i := range s.lanes {
		spans += len(s.lanes[i].spans)
		count[s.lanes[i].typ]++
	}
	for i, n := range count {
		p.Counts[i] = thousandsOf(n)
	}
	stride := (spans + maxPageSpans - 1) / maxPageSpans
	if stride > 1 {
		p.Size += s.sampled(stride)
	}
	for _, c := range palette {
		p.Palette = append(p.Palette, hex(c))
	}
	p.Legend, p.LegendHead = s.legendJobs()
	if p.Legend == nil {
		p.Legend = []int32{}
	}
	nodes, shown := s.sample(stride)
	for _, n := range nodes {
		racks, reserved := n.racks, n.reserved
		if racks == nil {
			racks = []string{}
		}
		if reserved == nil {
			reserved = []int32{}
		}
		p.Nodes = append(p.Nodes, []any{n.name, racks, n.lanes, reserved})
	}
	for _, r := range s.reserved {
		p.Reserved = append(p.Reserved, []any{r.fromUs, r.untilUs, r.who})
	}
	p.Late = s.lateJobs()
	if slices.ContainsFunc(shown, func(l *lane) bool {
		return slices.ContainsFunc(l.spans, func(sp span) bool { return sp.spread != noSpread })
	}) {
		p.Levels = s.levels.Names
	}
	p.Unit = unitOf(shown)
	p.Jobs = make([]any, len(s.inst.Jobs))
	for i := range s.inst.Jobs {
		j := &s.inst.Jobs[i]
		job := []any{j.ID, hare.FormatMicros(j.WeightMicro), j.Sync.String(), j.Rounds, j.Tasks,
			j.ReleaseUs, s.jobs[i].startUs, s.jobs[i].endUs}
		if more, ok := pageJobOf(j); ok {
			job = append(job, more)
		}
		p.Jobs[i] = job
	}
	for _, l := range shown {
		away := make([]int64, 0, 2*len(l.away))
		for _, a := range l.away {
			end := int64(-1)
			if a.EndUs != hare.Forever {
				end = a.EndUs / p.Unit
			}
			away = append(away, a.StartUs/p.Unit, end)
		}
		p.Lanes = append(p.Lanes, []any{l.gpu, l.typ, away, len(l.spans)})
	}
	p.spans = encodeSpans(shown, p.Unit)
	return p
}

// pageJobOf returns what a page says about a job beyond the usual, if anything.
func pageJobOf(j *hare.Job) (more pageJob, ok bool) {
	if g := j.TaskGPUs(); g > 1 && j.Shapes == nil {
		more.GPUs = g
	}
	more.Deadline = j.DeadlineUs
	for i := range j.Shapes {
		more.Shapes = append(more.Shapes, [3]int64{j.Shapes[i].Tasks, j.Shapes[i].TaskGPUs(), j.Shapes[i].Counts})
	}
	if j.Running() {
		more.Elapsed = &j.Progress.ElapsedUs
	}
	more.User = userOf(j)
	return more, more.User != "" || more.GPUs > 0 || more.Deadline > 0 || more.Shapes != nil || more.Elapsed != nil
}

// userOf returns whose job it is; "" where nobody says.
func userOf(j *hare.Job) string {
	if j.Hints != nil {
		for _, c := range j.Hints.Class {
			if c.Name == "user" {
				return c.Value
			}
		}
	}
	if len(j.Users) > 0 {
		return j.Users[0]
	}
	return ""
}

// unitOf returns the greatest unit that divides all times of the lanes.
func unitOf(lanes []*lane) int64 {
	var unit int64
	with := func(v int64) {
		for v != 0 {
			unit, v = v, unit%v
		}
	}
	for _, l := range lanes {
		for _, a := range l.away {
			with(a.StartUs)
			if a.EndUs != hare.Forever {
				with(a.EndUs)
			}
		}
		for i := range l.spans {
			sp := &l.spans[i]
			with(sp.startUs)
			with(sp.periodUs)
			with(sp.holdUs)
			with(sp.syncUs)
			with(sp.setupUs)
		}
	}
	return max(1, unit)
}
