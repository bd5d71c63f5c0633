package slurm

import (
	"slices"
	"testing"

	"github.com/hare-sched/hare"
)

// TestTypesAreKept lets plans alternate: jobs keep the types that they were given while they lose
// little by this, and no type gets more jobs than the plan gives it.
func TestTypesAreKept(t *testing.T) {
	spec := func(tasks, v100, t4 int64) *hare.Job {
		j := &hare.Job{Tasks: tasks}
		for i, s := range []int64{v100, t4} {
			if s > 0 {
				j.On = append(j.On, hare.Profile{Type: []string{"v100", "t4"}[i], ComputeUs: s * 1e6 / 8})
			}
		}
		return j
	}
	type row struct {
		spec  *hare.Job
		plan  string
		start int64
		given string
		want  string
	}
	alike := spec(1, 100, 100)
	for name, rows := range map[string][]row{
		"alike jobs swap":      {{alike, "v100", 0, "t4", "t4"}, {alike, "t4", 0, "v100", "v100"}},
		"nothing given":        {{alike, "v100", 0, "", "v100"}, {alike, "t4", 0, "", "t4"}},
		"a large gain":         {{spec(1, 100, 300), "v100", 0, "t4", "v100"}, {spec(1, 100, 300), "t4", 0, "", "t4"}},
		"a small gain":         {{spec(1, 100, 105), "v100", 0, "t4", "t4"}, {spec(1, 100, 105), "t4", 0, "", "v100"}},
		"a late slot":          {{alike, "v100", 0, "t4", "v100"}, {alike, "t4", 50, "", "t4"}},
		"the type is gone":     {{spec(1, 100, 0), "v100", 0, "t4", "v100"}, {alike, "t4", 0, "", "t4"}},
		"no slot for a wide":   {{spec(4, 100, 100), "v100", 0, "t4", "v100"}, {alike, "t4", 0, "", "t4"}},
		"others lose too much": {{alike, "v100", 0, "t4", "v100"}, {spec(1, 300, 100), "t4", 0, "", "t4"}},
		"one slot for three": {{alike, "v100", 0, "t4", "v100"}, {alike, "v100", 0, "t4", "v100"},
			{alike, "t4", 0, "t4", "t4"}},
		"the plan has no types": {{alike, "", -1, "t4", ""}},
	} {
		var list []entryAdvice
		given, specs := map[int64]string{}, map[int64]*hare.Job{}
		for i, r := range rows {
			a := entryAdvice{entry: int64(i), startS: r.start}
			if r.plan != "" {
				a.types = []string{r.plan}
			}
			list, given[a.entry], specs[a.entry] = append(list, a), r.given, r.spec
		}
		count := func() map[string]int {
			n := map[string]int{}
			for _, a := range list {
				n[slices.Concat(a.types, []string{""})[0]]++
			}
			return n
		}
		before := count()
		keepTypes(list, given, specs)
		for gpuType, n := range count() {
			if n > before[gpuType] {
				t.Errorf("%s: %d jobs on %s, the plan has %d", name, n, gpuType, before[gpuType])
			}
		}
		for i, r := range rows {
			if got := slices.Concat(list[i].types, []string{""})[0]; got != r.want {
				t.Errorf("%s: job %d gets %q in place of %q", name, i, got, r.want)
			}
		}
	}
}
