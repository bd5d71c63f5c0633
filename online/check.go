package online

import (
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// CheckArrival checks a job_arrived event by itself. The policy checks what depends
// on the state of the session, such as whether a job of the same name is active.
func CheckArrival(e *hare.Event) *hare.InvalidError {
	a := e.Arrived
	switch {
	case a == nil:
		return Invalid("/job", "missing_field", "job_arrived needs the job")
	case a.ID == "":
		return Invalid("/job/id", "missing_field", "a job needs an id")
	case e.Job != "" && e.Job != a.ID:
		return Invalid("/job/id", "bad_id", "%q is not the job %q of the event", a.ID, e.Job)
	case a.Tasks < 1 || a.Tasks > hare.MaxExact:
		return Invalid("/job/tasks", "out_of_range", "%d must be between 1 and %d", a.Tasks, int64(hare.MaxExact))
	case a.Sync > hare.Rigid:
		return Invalid("/job/sync", "bad_value", "must be relaxed, gang or rigid")
	case a.Sync != hare.Relaxed && a.Tasks > hare.MaxGPUs:
		return Invalid("/job/tasks", "out_of_range",
			"%d GPUs at once are more than a session can have (%d): lower tasks or use relaxed", a.Tasks, hare.MaxGPUs)
	case a.Mix && a.Sync != hare.Gang:
		return Invalid("/job/mix", "not_allowed", "mix is a choice of gang jobs alone")
	case len(a.On) == 0:
		return Invalid("/job/on", "missing_field", `names no GPU type: give at least one, e.g. {"V100": {}}`)
	}
	for i, user := range a.Users {
		if user == "" || i > 0 && a.Users[i-1] >= user {
			return Invalid("/job/user", "bad_name", "must be names in order, each once")
		}
	}
	if a.Progress != nil {
		known := *a
		known.Rounds = a.FirstRound() + 1
		var faults hare.InvalidErrors
		if faults.CheckProgress("/job", &known); len(faults) > 0 {
			return faults[0]
		}
	}
	for i, p := range a.On {
		if p.ComputeUs < 0 || p.ComputeUs > hare.MaxExact || p.SyncUs < 0 || p.SyncUs > hare.MaxExact {
			return Invalid("/job/on", "out_of_range", "the times on %q must not be negative or above %s", p.Type,
				hare.FormatMicros(hare.MaxExact))
		}
		if slices.ContainsFunc(a.On[:i], func(q hare.Profile) bool { return q.Type == p.Type }) {
			return Invalid("/job/on", "duplicate_name", "type %q stands twice", p.Type)
		}
	}
	var faults hare.InvalidErrors
	if faults.CheckHints("/job", a.Hints); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// CheckLevels checks the levels of a job that arrives on a cluster with a topology.
func CheckLevels(a *hare.Job, topology []string) *hare.InvalidError {
	if !placement.UsesLevels(a) {
		return nil
	}
	var faults hare.InvalidErrors
	if faults.CheckJobLevels("/job", a, topology); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// CheckCluster checks the cluster that a session begins with; nil means an empty
// cluster.
// Errors are *hare.InvalidError.
func CheckCluster(cl *hare.Cluster) error { return newCore(params{}).addCluster(cl) }
