package placement

import (
	"fmt"
	"slices"

	"github.com/hare-sched/hare"
)

// Found is a GPU that CheckRunning asks for by its name.
type Found struct {
	GPU  int // its number
	Type string
	Here bool   // whether the GPU is in service
	Held bool   // whether a job holds the GPU
	By   string // the job that does
}

// CheckRunning checks the GPUs on which a job that arrives says that it runs, and finds them. nodes
// gives all GPUs in service, for jobs with rules about nodes.
func CheckRunning(a *hare.Job, find func(name string) Found, nodes func() *Nodes) ([]int, *hare.InvalidError) {
	refuse := func(at, code, format string, args ...any) ([]int, *hare.InvalidError) {
		return nil, &hare.InvalidError{Pointer: "/job/progress/gpus" + at, Code: code, Detail: fmt.Sprintf(format, args...)}
	}
	if !a.Running() {
		return nil, nil
	}
	var gpus []int
	kind := ""
	for i, name := range a.Progress.GPUs {
		at, x := fmt.Sprintf("/%d", i), find(name)
		switch {
		case !x.Here:
			return refuse(at, "unknown_gpu", "no GPU %q is in service", hare.Clip(name))
		case x.Held:
			return refuse(at, "not_allowed", "job %q holds GPU %q", x.By, hare.Clip(name))
		case slices.Contains(gpus, x.GPU):
			return refuse(at, "duplicate_id", "GPU %q is listed twice", hare.Clip(name))
		case !slices.ContainsFunc(a.On, func(p hare.Profile) bool { return p.Type == x.Type }):
			return refuse(at, "not_allowed", "the job has no profile for GPU %q", hare.Clip(name))
		case i > 0 && x.Type != kind && !a.Mix:
			return refuse("", "not_allowed", "are of several types, which only a gang with mix may mix")
		}
		gpus, kind = append(gpus, x.GPU), x.Type
	}
	if !Matters(a) {
		return gpus, nil
	}
	ns := nodes()
	s := ns.Add(a)
	reason := ns.CheckRunning(s, gpus)
	ns.Drop(s)
	if reason != "" {
		return refuse("", "not_allowed", "%s: name the GPUs of each task together", reason)
	}
	return gpus, nil
}
