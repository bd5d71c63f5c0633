package plot

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/words"
)

// headlines returns the two lines under the title.
func (s *scene) headlines() (figures, size string) {
	var parts []string
	if v := s.res.Value; v != nil {
		of := "weighted JCT "
		switch s.res.Objective {
		case hare.ObjectiveJCTAndTardiness:
			of = "JCT and tardiness "
		case hare.ObjectiveMakespan:
			of = "makespan in seconds "
		}
		parts = append(parts, of+amount(*v))
		switch b := s.res.Bound; {
		case b == nil:
			parts = append(parts, "no lower bound")
		case v.Cmp(*b) == 0:
			parts = append(parts, "proved optimal")
		case b.Sign() <= 0:
			parts = append(parts, "no useful lower bound")
		default:
			parts = append(parts, "lower bound "+amount(*b), gapWords(*v, *b))
		}
	}
	gpus := len(s.lanes)
	if s.live {
		return "", fmt.Sprintf("%s · %s · %s until now, and %s of the plan", plural(len(s.inst.Jobs), "job"),
			plural(gpus, "GPU"), words.Duration(s.nowUs), words.Duration(s.endUs-s.nowUs))
	}
	size = fmt.Sprintf("%s · %s · makespan %s", plural(len(s.inst.Jobs), "job"), plural(gpus, "GPU"),
		words.Duration(s.endUs))
	return strings.Join(parts, " · "), size + s.deadlines()
}

// deadlines says how many deadlines are met, where jobs have some, and how late the other jobs
// are.
func (s *scene) deadlines() string {
	some, met, late := 0, 0, int64(0)
	for i := range s.inst.Jobs {
		if j := &s.inst.Jobs[i]; j.DeadlineUs > 0 && s.jobs[i].seen {
			some++
			by := s.lateUs(int32(i))
			if by == 0 {
				met++
			}
			late = min(late+by, hare.MaxExact)
		}
	}
	if some == 0 {
		return ""
	}
	text := fmt.Sprintf(" · %s of %s met", thousandsOf(met), plural(some, "deadline"))
	if late > 0 {
		text += ", late by " + words.Duration(late) + " in sum"
	}
	return text
}

// when is a time of a timeline as people say it.
func (s *scene) when(us int64) string {
	switch d := us - s.nowUs; {
	case d < 0:
		return words.Duration(-d) + " ago"
	case d > 0:
		return "in about " + words.Duration(d)
	}
	return "now"
}

// jobWords describes a job in one line, for a tooltip.
func (s *scene) jobWords(job int32) string {
	j, t := &s.inst.Jobs[job], &s.jobs[job]
	if s.live {
		return fmt.Sprintf("%s: %s to %s", j.ID, s.when(t.startUs), s.when(t.endUs))
	}
	text := fmt.Sprintf("%s: weight %s, %s to %s", j.ID, hare.FormatMicros(j.WeightMicro), words.Duration(t.startUs),
		words.Duration(t.endUs))
	if j.Shapes != nil && len(t.shapes) > 0 {
		var shapes []string
		for _, i := range t.shapes {
			shapes = append(shapes, shapeWords(j, i))
		}
		text += ", " + someOf(shapes)
	}
	if t.spread != noSpread && t.seen {
		text += ", spread: " + s.spreadWords(t.spread)
	}
	if late := s.lateUs(job); late > 0 {
		text += ", late by " + words.Duration(late)
	}
	return text
}

// shapeWords describes a shape of a job by its position in shapes, which counts from 0.
func shapeWords(j *hare.Job, i int32) string {
	shape := j.Shape(int(i))
	text := fmt.Sprintf("shape %d (%s", i, plural(int(shape.Tasks), "task"))
	if g := shape.TaskGPUs(); g > 1 {
		text += " of " + plural(int(g), "GPU")
	}
	return text + ")"
}

// spreadWords says over which level the rounds of a job spread at most.
func (s *scene) spreadWords(level int) string {
	name := s.levels.Names[level]
	if name == hare.LevelAny {
		return name
	}
	return "one " + name[strings.LastIndexByte(name, '/')+1:]
}

// gapWords says value/bound − 1 in words, rounded up so that the words stay true.
func gapWords(value, bound hare.Amount) string {
	if value.Cmp(bound) < 0 {
		return "value below the bound: not a feasible schedule"
	}
	// n is the gap in tenths of a percent.
	n := new(big.Int).Mul(new(big.Int).Sub(value.Big(), bound.Big()), big.NewInt(1000))
	n.Add(n, new(big.Int).Sub(bound.Big(), big.NewInt(1)))
	n.Div(n, bound.Big())
	q, r := new(big.Int).QuoRem(n, big.NewInt(10), new(big.Int))
	return fmt.Sprintf("at most %s.%s %% above the best possible plan", thousands(q.String()), r)
}

// amount formats a to about six digits.
func amount(a hare.Amount) string {
	x := a.Float()
	switch {
	case x >= 100_000 || x <= -100_000:
		return thousands(fmt.Sprintf("%.0f", x))
	case x >= 1000 || x <= -1000:
		return thousands(trimZeros(fmt.Sprintf("%.1f", x)))
	}
	return trimZeros(fmt.Sprintf("%.4f", x))
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousandsOf(n) + " " + what
}

func thousandsOf(n int) string { return thousands(strconv.Itoa(n)) }

// sampled is added to a headline if not every GPU is drawn.
func (s *scene) sampled(stride int) string {
	what := "GPU"
	if len(s.nodes) > 0 {
		what = "node"
	}
	return fmt.Sprintf(" · one %s in %d is drawn", what, stride)
}

// legendJobs returns all scheduled jobs or, of many, the heaviest; ties keep the order
// of the instance.
func (s *scene) legendJobs() (jobs []int32, head string) {
	for j := range s.jobs {
		if s.jobs[j].seen {
			jobs = append(jobs, int32(j))
		}
	}
	if len(jobs) <= maxLegendJobs {
		return jobs, ""
	}
	slices.SortStableFunc(jobs, func(a, b int32) int {
		return cmp.Compare(s.inst.Jobs[b].WeightMicro, s.inst.Jobs[a].WeightMicro)
	})
	jobs = jobs[:heaviestShown]
	if s.inst.Jobs[jobs[0]].WeightMicro == s.inst.Jobs[jobs[heaviestShown-1]].WeightMicro {
		return jobs, "first jobs:"
	}
	return jobs, "heaviest jobs:"
}

// mostNamed is how many users or jobs of a reservation are named.
const mostNamed = 4

func someOf(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s more", strings.Join(names[:mostNamed], ", "), thousandsOf(len(names)-mostNamed))
}
