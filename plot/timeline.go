package plot

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	hare "github.com/hare-sched/hare"
)

// Timeline is what GPUs did until now, what they do, and what they are planned to do. Times count from the beginning
// of the picture.
type Timeline struct {
	Title string
	NowUs int64
	EndUs int64
	GPUs  []TimelineGPU
	Jobs  []string
	Spans []TimelineSpan
}

// TimelineGPU is a GPU by its name and type.
type TimelineGPU struct{ Name, Type string }

// TimelineSpan is the time for which a job has a GPU. One that begins now or later is planned, and one that ends after
// now goes on.
type TimelineSpan struct {
	Job, GPU     int // places in the lists of the timeline
	FromUs, ToUs int64
}

// SVG writes the timeline as a picture of a width, as the function SVG does.
func (t *Timeline) SVG(w io.Writer, opt Options) error {
	opt, err := opt.resolve()
	if err != nil {
		return err
	}
	s, err := t.scene()
	if err != nil {
		return err
	}
	return s.layout(opt, maxBars).writeSVG(w)
}

// HTML writes the timeline as a page, as the function HTML does.
func (t *Timeline) HTML(w io.Writer) error {
	s, err := t.scene()
	if err != nil {
		return err
	}
	return s.writeHTML(w)
}

// scene is the timeline as a schedule of jobs of one round.
func (t *Timeline) scene() (*scene, error) {
	s := &scene{inst: &hare.Instance{Jobs: make([]hare.Job, len(t.Jobs))}, res: &hare.Result{}, title: t.Title,
		endUs: max(1, t.EndUs, t.NowUs), jobs: make([]jobTimes, len(t.Jobs)), live: true, nowUs: t.NowUs,
		levels: hare.NewLevels(&hare.Cluster{})}
	for i, id := range t.Jobs {
		s.inst.Jobs[i] = hare.Job{ID: id, Rounds: 1, Tasks: 1, Sync: hare.Gang}
		s.jobs[i].spread = noSpread
	}
	order := make([]int, len(t.GPUs)) // by type
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.GPUs[a].Type, t.GPUs[b].Type) })
	laneOf := make([]int, len(t.GPUs))
	for at, i := range order {
		if n := len(s.types); n == 0 || s.types[n-1] != t.GPUs[i].Type {
			s.types = append(s.types, t.GPUs[i].Type)
		}
		laneOf[i] = at
		s.lanes = append(s.lanes, lane{gpu: t.GPUs[i].Name, typ: len(s.types) - 1})
	}
	for i, x := range t.Spans {
		from, to := max(0, x.FromUs), min(x.ToUs, s.endUs)
		if x.Job < 0 || x.Job >= len(t.Jobs) || x.GPU < 0 || x.GPU >= len(t.GPUs) || x.ToUs < x.FromUs {
			return nil, fmt.Errorf("plot: span %d is not one of a job on a GPU", i)
		}
		if to <= from {
			continue
		}
		sp := span{job: int32(x.Job), gang: true, rounds: 1, tasks: 1, startUs: from, holdUs: to - from, lastUs: to,
			counts: 1, spread: noSpread, running: x.FromUs < t.NowUs && x.ToUs > t.NowUs, planned: x.FromUs >= t.NowUs}
		l := &s.lanes[laneOf[x.GPU]]
		l.spans = append(l.spans, sp)
		j := &s.jobs[x.Job]
		if !j.seen || from < j.startUs {
			j.startUs = from
		}
		j.endUs, j.seen = max(j.endUs, to), true
	}
	for i := range s.lanes {
		slices.SortStableFunc(s.lanes[i].spans, func(a, b span) int { return cmp.Compare(a.startUs, b.startUs) })
	}
	return s, nil
}
