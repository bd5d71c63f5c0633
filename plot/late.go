package plot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hare-sched/hare/internal/words"
)

// mostLate is how many late jobs are named below a picture.
const mostLate = 6

// lateJobs returns the jobs that end after their deadlines, the latest first.
func (s *scene) lateJobs() []int32 {
	var late []int32
	for j := range s.jobs {
		if s.lateUs(int32(j)) > 0 {
			late = append(late, int32(j))
		}
	}
	slices.SortStableFunc(late, func(a, b int32) int { return cmp.Compare(s.lateUs(b), s.lateUs(a)) })
	return late
}

// lateWords names the latest jobs, and says by how much they are late.
func (s *scene) lateWords() string {
	late := s.lateJobs()
	var parts []string
	for _, j := range late[:min(len(late), mostLate)] {
		parts = append(parts, fmt.Sprintf("%s by %s", shortened(s.inst.Jobs[j].ID), words.Duration(s.lateUs(j))))
	}
	switch {
	case len(late) == 0:
		return ""
	case len(late) > mostLate:
		parts = append(parts, fmt.Sprintf("and %s more", plural(len(late)-mostLate, "job")))
	}
	return "late: " + strings.Join(parts, ", ")
}

// shortened cuts a long name in the middle.
func shortened(name string) string {
	if r := []rune(name); len(r) > 30 {
		return string(r[:15]) + "…" + string(r[len(r)-14:])
	}
	return name
}

// addOverdue adds the pieces of bars after the deadlines of late jobs.
func (c *chart) addOverdue(s *scene, scale float64) {
	for i := range c.rows {
		for k := range c.rows[i].bars {
			b := &c.rows[i].bars[k]
			if b.rows == inBlock || b.tone == setupTone || s.lateUs(b.job) == 0 {
				continue
			}
			x0 := max(b.x0, float64(s.inst.Jobs[b.job].DeadlineUs)*scale)
			if x0 >= b.x1 {
				continue
			}
			y, h := c.block(i, b)
			thick := min(3, max(1, h/5))
			o := overdue{rule: rect{c.plot.x + x0, y + h - thick, b.x1 - x0, thick}}
			if h >= 8 {
				o.hairline = rect{o.rule.x, o.rule.y - 1, o.rule.w, 1}
			}
			c.overdue = append(c.overdue, o)
		}
	}
}
