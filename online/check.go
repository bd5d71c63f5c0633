package online

import (
	"cmp"
	"slices"
	"strconv"

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
			return Invalid("/job/on", "duplicate_name", "type %q is listed twice", p.Type)
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

// CheckQuota checks a set_quota event by itself.
func CheckQuota(e *hare.Event) *hare.InvalidError {
	q := e.Quota()
	if q == nil {
		return Invalid("/quota", "missing_field", "set_quota needs the quota")
	}
	var faults hare.InvalidErrors
	if faults.CheckQuota("/quota", q); len(faults) > 0 {
		return faults[0]
	}
	return nil
}

// WithQuota are quotas, ordered by user and types, in which one replaces that of its user and
// types. A quota of MaxGPUs is left out, because it limits nothing.
func WithQuota(quotas []hare.Quota, q *hare.Quota) []hare.Quota {
	at, found := slices.BinarySearchFunc(quotas, q, func(a hare.Quota,
		b *hare.Quota) int {
		return compareQuotas(&a, b)
	})
	out := slices.Clone(quotas)
	if found {
		out = slices.Delete(out, at, at+1)
	}
	if q.GPUs < hare.MaxGPUs {
		out = slices.Insert(out, at, hare.Quota{User: q.User, GPUs: q.GPUs, Types: slices.Clone(q.Types)})
	}
	return out
}

func compareQuotas(a, b *hare.Quota) int {
	return cmp.Or(cmp.Compare(a.User, b.User), slices.Compare(a.Types, b.Types))
}

// OrderedQuotas reports whether quotas are valid, limit something and are in the order of WithQuota.
func OrderedQuotas(quotas []hare.Quota) bool {
	for i := range quotas {
		var faults hare.InvalidErrors
		if faults.CheckQuota("", &quotas[i]); len(faults) > 0 || quotas[i].GPUs == hare.MaxGPUs ||
			i > 0 && compareQuotas(&quotas[i-1], &quotas[i]) >= 0 {
			return false
		}
	}
	return true
}

// GPUsOfNode checks a node_joined event by itself and returns it as the events gpu_joined of
// the GPUs of the node.
func GPUsOfNode(e *hare.Event) ([]hare.Event, *hare.InvalidError) {
	n := e.Node()
	if n == nil {
		return nil, Invalid("/node", "missing_field", "node_joined needs the node")
	}
	var faults hare.InvalidErrors
	if faults.CheckNode("", n, true); len(faults) > 0 {
		return nil, faults[0]
	}
	if n.Windows != nil || len(n.Busy) > 0 {
		return nil, Invalid("/node", "not_supported", "a session does not know the future: leave in_service_s and busy "+
			"out")
	}
	var all []hare.Event
	for _, g := range n.GPUs {
		if len(all)+g.Count > hare.MaxGPUs {
			return nil, Invalid("/gpus", "too_large", "a session has at most %d GPUs", hare.MaxGPUs)
		}
		for range g.Count {
			all = append(all, hare.Event{Type: hare.EventGPUJoined, GPU: n.Name + "/" + strconv.Itoa(len(all)),
				GPUType: g.Type})
		}
	}
	return all, nil
}

// CheckNewQuota checks a set_quota event in a session with some quotas.
func CheckNewQuota(e *hare.Event, quotas []hare.Quota) *hare.InvalidError {
	if err := CheckQuota(e); err != nil {
		return err
	}
	if len(quotas) >= hare.MaxQuotas {
		return Invalid("/quota", "too_large", "a session has at most %d quotas", hare.MaxQuotas)
	}
	return nil
}
