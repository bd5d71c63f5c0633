package advice

import (
	"cmp"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// What is believed of jobs that nobody knows more of.
const (
	// roundsOfJob is how many rounds the policy believes that a job has before it has learned
	// better: a job whose duration is given has rounds of an eighth of it.
	roundsOfJob = 8
	// limitShare says that a job of which only the limit is known is expected to take a
	// quarter of it, until the jobs that end tell better.
	limitShare = 4
	// noLimitUs is the limit of a job that has none.
	noLimitUs = 24 * 3600 * 1_000_000
)

// Spec makes the job that a session gets: rigid, with its tasks, and with what is believed of its
// duration on each of the types. Seconds of the job count first; otherwise the job takes a quarter of
// its limit on its slowest type, and the speeds tell the other types. Spec returns nil where the job
// can use none of the types. The caller adds where the job may run.
func Spec(j *history.Job, types []string, speeds *history.Speeds) *hare.Job {
	out := &hare.Job{ID: j.ID, WeightMicro: 1e6, Sync: hare.Rigid, Tasks: j.GPUs}
	switch {
	case j.PerTask > 1 && j.GPUs%j.PerTask == 0:
		out.Tasks, out.GPUsPerTask = j.GPUs/j.PerTask, j.PerTask
	case j.PerTask != 1 && j.Nodes > 0 && j.GPUs%j.Nodes == 0:
		out.Tasks, out.DistinctNodes = j.Nodes, j.Nodes > 1
		if g := j.GPUs / j.Nodes; g > 1 {
			out.GPUsPerTask = g
		}
	}
	slowest := ""
	usable := make([]string, 0, len(types))
	for _, t := range types {
		if j.Type == "" || strings.EqualFold(j.Type, t) {
			usable = append(usable, t)
			if slowest == "" || slower(j, speeds, t, slowest) {
				slowest = t
			}
		}
	}
	limit := cmp.Or(j.LimitUs, noLimitUs)
	fastestUs := int64(0)
	for _, t := range usable {
		us := secondsOn(j, t)
		if us == 0 {
			us, _ = speeds.Time(j, slowest, t, max(1, limit/limitShare))
		}
		us = min(max(us, roundsOfJob), hare.MaxExact)
		out.On = append(out.On, hare.Profile{Type: t, ComputeUs: us / roundsOfJob})
		if fastestUs == 0 || us < fastestUs {
			fastestUs = us
		}
	}
	if len(out.On) == 0 {
		return nil
	}
	out.Hints = &hare.JobHints{EstimateUs: fastestUs, Class: []hare.ClassLabel{
		{Name: "name", Value: short(j.Name)}, {Name: "user", Value: short(j.User)}}}
	return out
}

// Demand adds to a job that Spec made what its tasks take of the CPUs and the memory of their nodes, in
// equal shares. A share is rounded down, so that a job that fills a node fits there.
func Demand(spec *hare.Job, j *history.Job, cpus, memory bool) {
	if cpus {
		spec.CPUMilliPerTask = j.CPUMilli / spec.Tasks
	}
	if memory {
		spec.MemoryMiBPerTask = j.MemoryMiB / spec.Tasks
	}
}

// ExpectedUs is how long a job that Spec made is believed to take on a type; 0 where it cannot run there.
func ExpectedUs(spec *hare.Job, gpuType string) int64 {
	for i := range spec.On {
		if spec.On[i].Type == gpuType {
			return spec.On[i].DurationUs() * roundsOfJob
		}
	}
	return 0
}

// slower reports whether the job is slower on the first type than on the second.
func slower(j *history.Job, speeds *history.Speeds, a, b string) bool {
	us, _ := speeds.Time(j, a, b, 1_000_000)
	return us < 1_000_000
}

// secondsOn is the time that the job's comment gives for a type, by its name or else by the word for it, such as v100
// for Tesla-V100-SXM2-16GB.
func secondsOn(j *history.Job, gpuType string) (us int64) {
	word := history.TypeWord(gpuType)
	for _, d := range j.Seconds {
		if strings.EqualFold(d.Type, gpuType) {
			return d.Us
		}
		if word != "" && strings.EqualFold(d.Type, word) {
			us = d.Us
		}
	}
	return us
}

// short cuts a label of a class to the length that sessions take.
func short(text string) string {
	if runes := []rune(strings.ToValidUTF8(text, "?")); len(runes) > hare.MaxClassText {
		return string(runes[:hare.MaxClassText])
	}
	return strings.ToValidUTF8(text, "?")
}
