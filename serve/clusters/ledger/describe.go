package ledger

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Job describes a job with all its attempts, or with the last one alone; nil where there is none.
func (l *Ledger) Job(id string, all bool) *clusterdoc.Job {
	j := l.find(id)
	if j == nil {
		return nil
	}
	return j.describe(all)
}

// describe describes a job with all its attempts, or with the last one alone.
func (j *job) describe(all bool) *clusterdoc.Job {
	d := &clusterdoc.Job{ID: j.id, NewJob: j.spec, State: j.state, Reason: j.reason, Submitted: instant(j.submittedUs),
		Started: instantOrNil(j.startedUs), Ended: instantOrNil(j.endedUs), Failures: j.failures, Lost: j.lost}
	if r := j.rounds; r != nil {
		if d.Round, d.Loss = r.reported, r.loss; r.copy != nil {
			d.CopyRound = r.copy.Round
		}
	}
	if j.relaxed != nil {
		if d.TasksOn = maps.Clone(j.relaxed.counted); j.live != nil {
			d.Home, d.TasksOut = j.live.tasks[0].agent.Name, len(j.live.relaxed.out)
		}
	}
	d.SecretEnv = masked(d.SecretEnv)
	if d.Hold = j.held; d.Hold {
		d.Reason, d.ReasonShort, d.ReasonCode = j.heldBy(), HeldShort, "held"
	}
	for i := range j.changes {
		if x := &j.changes[i]; all {
			d.Changes = append(d.Changes, &clusterdoc.JobChanged{At: instant(x.atUs), By: x.by, JobPatch: x.JobPatch})
		}
	}
	attempts := j.attempts
	if n := len(attempts); n > 1 && !all {
		attempts = attempts[n-1:]
	}
	for _, at := range attempts {
		x := &clusterdoc.Attempt{Attempt: at.number, Result: at.result, Error: at.error, Ordered: instant(at.orderedUs),
			Ended: instantOrNil(at.endedUs)}
		for k := range at.tasks {
			t := &at.tasks[k]
			info := &clusterdoc.TaskInfo{Task: k, Agent: t.agent.Name, State: t.state, ExitCode: t.exit, Signal: t.signal,
				Error: t.error}
			for _, i := range t.devices {
				info.GPUs = append(info.GPUs, t.agent.gpu(i))
			}
			x.Tasks = append(x.Tasks, info)
		}
		if at.relaxed != nil {
			for i := range at.relaxed.out {
				c := &at.relaxed.out[i]
				round, task := at.relaxed.base+c.round, c.task
				x.Tasks = append(x.Tasks, &clusterdoc.TaskInfo{Task: c.number, Agent: c.agent.Name, State: c.state,
					Round: &round, GPUs: []string{c.agent.gpu(c.device)}, RoundTask: &task})
			}
		}
		d.Attempts = append(d.Attempts, x)
	}
	explain(d)
	return d
}

// JobOfKey is the job that was submitted with an Idempotency-Key; "" where there is none.
func (l *Ledger) JobOfKey(key string) string { return l.keys[key] }

// Unended counts the jobs that have not ended.
func (l *Ledger) Unended() int {
	return len(l.byTime) - l.counts[clusterdoc.JobSucceeded] - l.counts[clusterdoc.JobFailed] -
		l.counts[clusterdoc.JobCancelled]
}

// Agents describes the agents by name. What the server alone knows, when an agent was heard, is left out.
func (l *Ledger) Agents() []*clusterdoc.Agent {
	all := []*clusterdoc.Agent{}
	for _, name := range slices.Sorted(maps.Keys(l.agents)) {
		a := l.agents[name]
		d := &clusterdoc.Agent{Name: a.Name, Epoch: a.epoch, Address: a.Address, Version: a.Version, State: "ready",
			Labels: a.Labels}
		busy := len(a.servers) > 0
		for _, j := range a.servers {
			d.Homes = append(d.Homes, j.id)
		}
		for i := range a.devices {
			x := &a.devices[i]
			v := &clusterdoc.Device{GPU: a.gpu(i), Type: a.Devices[i].Type, UUID: a.Devices[i].UUID, State: "free",
				Reason: x.fault}
			if x.fault != "" {
				v.State = "quarantined"
			}
			if x.job != nil {
				v.State, v.Job, busy = "busy", x.job.id, true
			}
			d.Devices = append(d.Devices, v)
		}
		switch {
		case a.lost:
			d.State = "lost"
		case a.draining && busy:
			d.State, d.Reason = "draining", a.drainReason
		case a.draining:
			d.State, d.Reason = "drained", a.drainReason
		}
		all = append(all, d)
	}
	return all
}

// Counts fills the numbers of a cluster's description.
func (l *Ledger) Counts(c *clusterdoc.Cluster) {
	c.Jobs = map[clusterdoc.JobState]int{}
	for s, n := range l.counts {
		if n > 0 {
			c.Jobs[s] = n
		}
	}
	for _, a := range l.agents {
		if a.lost {
			continue
		}
		c.Agents++
		for i := range a.devices {
			if a.devices[i].fault != "" {
				continue
			}
			c.GPUs++
			if a.devices[i].job == nil && !a.draining {
				c.FreeGPUs++
			}
		}
	}
}

// AgentNames are the names of the agents whose lease has not run out.
func (l *Ledger) AgentNames() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(l.agents)) {
		if !l.agents[name].lost {
			names = append(names, name)
		}
	}
	return names
}

// Agent returns the epoch of an agent, the number of its last report, and whether its lease has not run out;
// known is false where no agent has the name.
func (l *Ledger) Agent(name string) (epoch, reports int64, alive, known bool) {
	a := l.agents[name]
	if a == nil {
		return 0, 0, false, false
	}
	return a.epoch, a.reports, !a.lost, true
}

// SecretSum is the SHA-256 of the secret of an agent's last registration; "" where it had none.
func (l *Ledger) SecretSum(name string) string { return l.agents[name].secretSum }

// Faults are the devices of an agent that are known not to be well.
func (l *Ledger) Faults(name string) map[int]string {
	faults := map[int]string{}
	for i, d := range l.agents[name].devices {
		if d.fault != "" {
			faults[i] = d.fault
		}
	}
	return faults
}

// Devices is the number of devices of an agent.
func (l *Ledger) Devices(name string) int { return len(l.agents[name].devices) }

// Orders are the orders of an agent whose tasks have not ended, by number.
func (l *Ledger) Orders(name string) []clusterdoc.Order { return slices.Clone(l.agents[name].orders) }

// Changed are the agents that have other orders, or another epoch, than when Changed was last called.
func (l *Ledger) Changed() []string {
	names := slices.Sorted(maps.Keys(l.changed))
	clear(l.changed)
	return names
}

// Altered are the jobs and agents that are described otherwise than when Altered was last called. What a job waits for
// in the session is not part of its description.
func (l *Ledger) Altered() (jobs, agents []string) {
	x := l.altered
	l.altered = newAltered()
	return slices.Sorted(maps.Keys(x.jobs)), slices.Sorted(maps.Keys(x.agents))
}

// HasTask reports whether a job had the task in the attempt, and on which agent.
func (l *Ledger) HasTask(id clusterdoc.TaskID) (agent string, ok bool) {
	j := l.find(id.Job)
	if j == nil || id.Attempt < 1 || id.Attempt > int64(len(j.attempts)) {
		return "", false
	}
	at := j.attempts[id.Attempt-1]
	if i, found := at.find(id.Task); found {
		return at.relaxed.out[i].agent.Name, true
	}
	if id.Task < 0 || id.Task >= len(at.tasks) {
		return "", false
	}
	return at.tasks[id.Task].agent.Name, true
}

// Final reports whether a job has ended.
func (l *Ledger) Final(id string) bool {
	j := l.jobs[id]
	return j != nil && j.state.Final() || j == nil && l.past.has(number(id)-1)
}

// Gone reports whether a job has ended, or never was one of the cluster.
func (l *Ledger) Gone(id string) bool {
	j := l.jobs[id]
	return j == nil || j.state.Final()
}

// InSession reports whether the session knows the job and has not started it, or has given no GPU to the round that
// comes next.
func (l *Ledger) InSession(id string) bool {
	j := l.jobs[id]
	return j != nil && j.arrived && (j.live == nil || j.relaxed != nil && len(j.live.relaxed.out) == 0)
}

// JobsWait reports whether a job may wait that the session knows: of relaxed round jobs also one that runs.
func (l *Ledger) JobsWait() bool {
	for _, a := range l.agents {
		if len(a.servers) > 0 {
			return true
		}
	}
	return l.counts[clusterdoc.JobWaiting] > 0 && len(l.types) > 0
}

// whyNot says what keeps a waiting job from ever starting on the cluster as it is, also in a few words; "" where
// nothing does.
func (l *Ledger) whyNot(j *job) (text, short string) {
	if len(l.types) == 0 {
		return "waits for the first agent of the cluster: start hare agent on a node", "no agent has registered"
	}
	total, fit := l.inService(j, nil)
	names, best := []string{}, 0
	for _, t := range slices.Sorted(maps.Keys(total)) {
		names = append(names, strconv.Itoa(total[t])+" "+t)
		best = max(best, fit[t])
	}
	if best >= j.tasks {
		return "", ""
	}
	short = "no GPU in service"
	if len(names) > 0 {
		short = fmt.Sprintf("needs %d GPUs of one type", j.tasks*j.perTask)
	} else if types := slices.Sorted(maps.Keys(j.spec.On)); len(types) == 1 && !strings.Contains(types[0], " ") {
		short = "no " + types[0] + " in service"
	}
	wants := strconv.Itoa(j.tasks*j.perTask) + " GPUs of one type"
	if j.tasks*j.perTask == 1 {
		wants = "1 GPU"
	}
	if j.perTask > 1 {
		wants += ", " + strconv.Itoa(j.perTask) + " a node"
	}
	if len(names) == 0 && len(j.spec.On) == 0 {
		return "wants " + wants + ", and no GPU is in service" + l.outOfService(j), short
	}
	if len(names) == 0 {
		return "wants " + wants + " out of " + strings.Join(slices.Sorted(maps.Keys(j.spec.On)), ", ") +
			": no GPU of these types is in service" + l.outOfService(j), short
	}
	return "wants " + wants + ": in service are " + strings.Join(names, ", "), short
}

// outOfService says why the first nodes by name that have GPUs for a job offer none.
func (l *Ledger) outOfService(j *job) string {
	var why []string
	fits := func(d clusterdoc.AgentDevice) bool { return j.mayRunOn(d.Type) }
	for _, name := range slices.Sorted(maps.Keys(l.agents)) {
		switch a := l.agents[name]; {
		case !slices.ContainsFunc(a.Devices, fits):
		case a.lost:
			why = append(why, name+" is lost")
		case a.draining:
			why = append(why, name+" is draining")
		case len(a.devices) > 0:
			why = append(why, name+" has faults")
		}
	}
	if len(why) == 0 {
		return ""
	}
	if n := len(why); n > 3 {
		why = append(why[:3], strconv.Itoa(n-3)+" more")
	}
	return ": " + strings.Join(why, ", ")
}

// Closed reports whether the attempt of a task has ended.
func (l *Ledger) Closed(id clusterdoc.TaskID) bool {
	j := l.jobs[id.Job]
	if j == nil && l.past.has(number(id.Job)-1) {
		return true
	}
	return j == nil || id.Attempt < 1 || id.Attempt > int64(len(j.attempts)) || j.attempts[id.Attempt-1].endedUs != 0
}

// WaitsFor says for which nodes a round job waits that has its checkpoint there; "" where it waits for none.
func (l *Ledger) WaitsFor(id string) string {
	j := l.jobs[id]
	if j == nil || j.affinity == nil || j.affinity.nodes == nil || j.state != clusterdoc.JobWaiting {
		return ""
	}
	var names []string
	for _, a := range j.rounds.holders {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	from := ""
	if j.rounds.copy != nil {
		from = fmt.Sprintf(", from the copy after round %d", j.rounds.copy.Round)
	}
	return fmt.Sprintf("waits for %s with the checkpoint after round %d, until %s, and starts elsewhere then%s",
		strings.Join(names, " or "), j.rounds.saved, instant(j.affinity.untilUs).Format(time.DateTime+" MST"), from)
}

// Submitted reports whether the job of an ID was submitted as one of the given forms.
func (l *Ledger) Submitted(id string, forms ...clusterdoc.NewJob) bool {
	j := l.find(id)
	if j == nil {
		return false
	}
	salt, _, _ := strings.Cut(j.secretSum, ".")
	was := j.spec
	was.SecretEnv = nil
	if j.submitted != nil {
		was.Weight, was.Labels = j.submitted.Weight, j.submitted.Labels
	}
	old, err := json.Marshal(was)
	if err != nil {
		return false
	}
	for _, f := range forms {
		sum := SumSecrets(f.SecretEnv, salt)
		f.SecretEnv = nil
		text, err := json.Marshal(f)
		if err == nil && bytes.Equal(old, text) && subtle.ConstantTimeCompare([]byte(sum), []byte(j.secretSum)) == 1 {
			return true
		}
	}
	return false
}
