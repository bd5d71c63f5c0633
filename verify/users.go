package verify

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/hare-sched/hare"
)

// counts reports whether a quota counts what a job holds of a GPU type.
func counts(q *hare.Quota, job *hare.Job, kind string) bool {
	return slices.Contains(job.Users, q.User) && (q.Types == nil || slices.Contains(q.Types, kind))
}

// keepsOff reports whether a reservation keeps a job off its nodes: it lists neither the job nor
// one of the job's users.
func keepsOff(r *hare.Reservation, job *hare.Job) bool {
	if _, listed := slices.BinarySearch(r.Jobs, job.ID); listed {
		return false
	}
	for _, user := range job.Users {
		if _, listed := slices.BinarySearch(r.Users, user); listed {
			return false
		}
	}
	return true
}

// reservedNodes finds when nodes are reserved against jobs.
type reservedNodes struct {
	inst   *hare.Instance
	byNode [][]int32 // the reservations of each node
	closed map[nodeJob][]hare.Window
}

type nodeJob struct{ node, job int }

func newReservedNodes(inst *hare.Instance) *reservedNodes {
	return &reservedNodes{inst: inst, byNode: reservationsOf(inst), closed: map[nodeJob][]hare.Window{}}
}

// reservationsOf returns the reservations of each node in order; nil without any. It takes
// O(nodes · reservations · labels), or less for reservations that name their nodes.
func reservationsOf(inst *hare.Instance) [][]int32 {
	if len(inst.Cluster.Reservations) == 0 {
		return nil
	}
	nodes := inst.Cluster.Nodes
	out := make([][]int32, len(nodes))
	index := newDirectory(&inst.Cluster)
	for i := range inst.Cluster.Reservations {
		selector := inst.Cluster.Reservations[i].Nodes
		add := func(n int) {
			for x := range selector {
				if !selects(&selector[x], &nodes[n]) {
					return
				}
			}
			out[n] = append(out[n], int32(i))
		}
		if names := valuesOf(selector, "node"); names != nil {
			for _, name := range names {
				if n, ok := index[name]; ok {
					add(n)
				}
			}
			continue
		}
		for n := range nodes {
			add(n)
		}
	}
	return out
}

// against returns when the node is reserved against the job, as windows in order.
func (rn *reservedNodes) against(node, job int) []hare.Window {
	if rn.byNode == nil || len(rn.byNode[node]) == 0 {
		return nil
	}
	closed, known := rn.closed[nodeJob{node, job}]
	if !known {
		closed = closedTimes(rn.inst.Cluster.Reservations, rn.byNode[node], &rn.inst.Jobs[job])
		rn.closed[nodeJob{node, job}] = closed
	}
	return closed
}

// closedTimes returns the times of those of some reservations that keep the job off, as windows
// in order that neither overlap nor touch.
func closedTimes(all []hare.Reservation, some []int32, job *hare.Job) []hare.Window {
	var times []hare.Window
	for _, i := range some {
		if keepsOff(&all[i], job) {
			times = append(times, hare.Window{StartUs: all[i].FromUs, EndUs: all[i].UntilUs})
		}
	}
	slices.SortFunc(times, func(a, b hare.Window) int { return cmp.Compare(a.StartUs, b.StartUs) })
	var out []hare.Window
	for _, w := range times {
		if last := len(out) - 1; last >= 0 && w.StartUs <= out[last].EndUs {
			out[last].EndUs = max(out[last].EndUs, w.EndUs)
		} else {
			out = append(out, w)
		}
	}
	return out
}

// nextClosed returns the first window that ends after t, or false.
func nextClosed(closed []hare.Window, t int64) (hare.Window, bool) {
	at := sort.Search(len(closed), func(i int) bool { return closed[i].EndUs > t })
	if at == len(closed) {
		return hare.Window{}, false
	}
	return closed[at], true
}

// quotaChange says that from a time on, more or fewer GPUs are held that a quota counts.
type quotaChange struct {
	at      int64
	by      int64 // 1 or −1
	running bool
	piece   int32 // −1 for running work
	job     int32
}

// checkQuotas checks that at each instant each quota suffices for the GPUs that count there.
// Running work may exceed a quota while nothing else that counts there holds GPUs. An entry
// holds its GPU from its first start to its last end. checkQuotas returns a fault for each quota
// that does not suffice. It takes O(n log n) for the n entries that some quota counts, once for
// each such quota.
func (sc *scheduleCheck) checkQuotas(lanes []hare.Lane) []Fault {
	var faults []Fault
	byUser := map[string][]int{} // jobs
	if len(sc.inst.Quota) > 0 {
		for i := range sc.inst.Jobs {
			for _, user := range sc.inst.Jobs[i].Users {
				byUser[user] = append(byUser[user], i)
			}
		}
	}
	var changes []quotaChange
	least := map[string]int64{} // GPUs, by users and types
	for x := range sc.inst.Quota {
		q := &sc.inst.Quota[x]
		key := fmt.Sprintf("%q %q", q.User, q.Types)
		if most, ok := least[key]; ok && most <= q.GPUs {
			continue // another quota is at least as strict
		}
		least[key] = q.GPUs
		changes = changes[:0]
		for _, h := range sc.running.gpus {
			if counts(q, &sc.inst.Jobs[h.job], h.kind) {
				changes = append(changes, quotaChange{0, 1, true, -1, int32(h.job)},
					quotaChange{h.until, -1, true, -1, int32(h.job)})
			}
		}
		for _, i := range byUser[q.User] {
			from := 0
			if i > 0 {
				from = sc.next[i-1]
			}
			job := &sc.inst.Jobs[i]
			for at := from; at < sc.next[i]; at++ {
				p := &sc.pieces[at]
				if on, _ := profileOf(job, p.mode); counts(q, job, on.Type) {
					changes = append(changes, quotaChange{p.start, 1, false, int32(at), int32(i)},
						quotaChange{p.frees, -1, false, int32(at), int32(i)})
				}
			}
		}
		if f := sc.exceeded(q, changes, lanes); f != nil {
			if faults = append(faults, *f); len(faults) == maxFaults {
				break
			}
		}
	}
	return faults
}

// exceeded returns a fault if a quota does not suffice at some time.
func (sc *scheduleCheck) exceeded(q *hare.Quota, changes []quotaChange, lanes []hare.Lane) *Fault {
	slices.SortFunc(changes, func(a, b quotaChange) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.by, b.by), cmp.Compare(a.piece, b.piece))
	})
	running, others := int64(0), int64(0)
	for _, c := range changes {
		if c.running {
			running += c.by
			continue
		}
		others += c.by
		// Running work only ends, so that the quota is exceeded first when something else starts.
		if c.by > 0 && running+others > q.GPUs {
			p := &sc.pieces[c.piece]
			return &Fault{Constraint: CodeQuota, Job: sc.inst.Jobs[c.job].ID, Round: &p.round, GPU: lanes[p.gpu].GPU,
				Detail: fmt.Sprintf("the jobs of %.60q hold %d of the %d GPUs of their quota at %s s", q.User,
					running+others, q.GPUs, hare.FormatMicros(c.at))}
		}
	}
	return nil
}
