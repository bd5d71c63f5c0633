package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
	"github.com/hare-sched/hare/model"
)

func reason(m *model.Model, i int, code, detail string) hare.Reason {
	return hare.Reason{Pointer: fmt.Sprintf("/jobs/%d", i), Job: m.Instance.Jobs[i].ID, Code: code, Detail: detail}
}

// infeasibility says why a job can never run. The code is "" if nothing is proved.
func infeasibility(m *model.Model, j *model.Job) (code, detail string) {
	if len(j.Modes) == 0 {
		return "no_gpu",
			"no GPU that is ever in service has a profile of this job: add a type to \"on\" or a node to the cluster"
	}
	widest, fits := int64(0), false
	var together int64
	for _, md := range j.Modes {
		hold := md.ComputeUs
		if j.Sync == hare.Gang {
			hold = md.DurationUs()
		}
		if j.Sync == hare.Rigid {
			hold = md.DurationUs() * j.Rounds
		}
		var n int64
		for c := range m.Classes {
			if m.Classes[c].Type != md.Type {
				continue
			}
			if longestWindow(m.Classes[c].Windows) >= hold {
				n += int64(len(m.Classes[c].GPUs))
				fits = true
			}
		}
		widest = max(widest, n)
		together += n
	}
	if j.Mix {
		widest = together
	}
	switch {
	case !fits:
		return "window_too_short", "every window of service is shorter than one " + unitOf(j.Sync) +
			": lengthen a window or shorten the rounds"
	case j.Sync != hare.Relaxed && widest < j.Tasks:
		return "too_wide",
			fmt.Sprintf("%d GPUs are needed together, at most %d can ever serve: "+
				"lower \"tasks\", add GPUs, or use sync relaxed", j.Tasks, widest)
	case j.Sync != hare.Relaxed:
		if most := maxSimultaneous(m, j); most < j.Tasks {
			return "never_together",
				fmt.Sprintf("%d GPUs are needed together, at most %d are ever in service together for one %s: "+
					"widen windows, lower \"tasks\", or use sync relaxed", j.Tasks, most, unitOf(j.Sync))
		}
	}
	return "", ""
}

// maxSimultaneous returns the greatest number of GPUs on which one round of a gang, or
// all rounds of a rigid job, could start at the same time if each GPU were held for no
// longer than its own type needs. It takes O(windows log windows).
func maxSimultaneous(m *model.Model, j *model.Job) int64 {
	type change struct{ at, gpus int64 }
	most := int64(0)
	var starts []change
	count := func() {
		slices.SortFunc(starts, func(a, b change) int {
			return cmp.Or(cmp.Compare(a.at, b.at),
				cmp.Compare(a.gpus, b.gpus))
		})
		n := int64(0)
		for _, x := range starts {
			n += x.gpus
			most = max(most, n)
		}
	}
	for _, md := range j.Modes {
		hold := md.DurationUs()
		if j.Sync == hare.Rigid {
			hold *= j.Rounds
		}
		if !j.Mix {
			starts = starts[:0]
		}
		for c := range m.Classes {
			if m.Classes[c].Type != md.Type {
				continue
			}
			n := int64(len(m.Classes[c].GPUs))
			for _, w := range m.Classes[c].Windows {
				from := max(w.StartUs, j.ReleaseUs)
				if w.EndUs-hold < from {
					continue
				}
				starts = append(starts, change{from, n})
				if w.EndUs != hare.Forever {
					starts = append(starts, change{w.EndUs - hold + 1, -n})
				}
			}
		}
		if !j.Mix {
			count()
		}
	}
	if j.Mix {
		count()
	}
	return most
}

func unitOf(s hare.Sync) string {
	switch s {
	case hare.Gang:
		return "round"
	case hare.Rigid:
		return "run of all rounds, which a rigid job needs in one piece"
	}
	return "task"
}

func longestWindow(ws []hare.Window) int64 {
	longest := int64(0)
	for _, w := range ws {
		if w.EndUs == hare.Forever {
			return math.MaxInt64
		}
		longest = max(longest, w.EndUs-w.StartUs)
	}
	return longest
}

// Infeasible lists the jobs that can never run, each with the proof in words: no GPU in
// service has a profile of the job, no window is as long as one task, round or rigid
// block, or the gang is wider than the GPUs that may serve it together. It takes O(jobs
// · classes).
//
// Where nodes matter, a job is also listed if no node has room for a task, or if the nodes
// that the job may use never have room for its gang.
func Infeasible(m *model.Model) []hare.Reason {
	if HasShapes(m) {
		return infeasibleInShapes(m)
	}
	if m.Placed {
		return infeasibleOnNodes(m, room.DependenciesOf(m).Head)
	}
	return infeasibleInClasses(m)
}

// infeasibleInClasses is Infeasible where nodes do not matter.
func infeasibleInClasses(m *model.Model) []hare.Reason {
	var out []hare.Reason
	for i := range m.Jobs {
		if room.IsFixed(&m.Jobs[i]) {
			continue
		}
		if code, detail := infeasibility(m, &m.Jobs[i]); code != "" {
			out = append(out, reason(m, i, code, detail))
		}
	}
	return out
}
