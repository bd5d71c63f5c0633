package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxChanges is how many changes a job remembers; the journal has all of them.
const maxChanges = 100

// CheckChange says what is wrong with a change of a job by itself: hare.InvalidErrors with pointers, or nil.
func CheckChange(c *clusterdoc.JobPatch) error {
	var es hare.InvalidErrors
	if c.Weight == nil && len(c.Labels) == 0 && c.Hold == nil {
		es.Add("", "missing_field", "give weight, labels or hold: what is to change")
	}
	if w := c.Weight; w != nil && (math.IsNaN(*w) || *w < 0 || *w > maxSeconds) {
		es.Add("/weight", "out_of_range", "must be between 0 and %v", float64(maxSeconds))
	}
	named := map[string]string{} // also those that are removed
	for key, value := range c.Labels {
		if named[key] = ""; value != nil {
			named[key] = *value
		}
	}
	es.Tags("/labels", named)
	if err := CheckReason(c.Reason); err != nil {
		es = append(es, err.(*hare.InvalidError))
	}
	if len(es) > 0 {
		return es
	}
	return nil
}

// Changes reports whether a change of a job that has not ended would change anything. The error is *Conflict where the
// job cannot be changed so.
func (l *Ledger) Changes(id string, c *clusterdoc.JobPatch) (bool, error) {
	j := l.jobs[id]
	if j == nil || j.state.Final() {
		return false, &Conflict{"job_ended", fmt.Sprintf("job %s has ended: nothing of it can be changed", id)}
	}
	if c.Hold != nil && *c.Hold && !j.held && (j.live != nil || j.cancelled != "") {
		return false, &Conflict{"job_running", fmt.Sprintf("job %s runs: only a job that waits can be held; hare cancel %s "+
			"ends it", id, id)}
	}
	spec := changed(j.spec, c)
	if len(spec.Labels) > hare.MaxTags {
		var es hare.InvalidErrors
		es.Tags("/labels", spec.Labels)
		return false, es
	}
	return weightOf(&spec) != weightOf(&j.spec) || !maps.Equal(spec.Labels, j.spec.Labels) ||
		c.Hold != nil && *c.Hold != j.held, nil
}

// changed is a specification after a change.
func changed(spec clusterdoc.NewJob, c *clusterdoc.JobPatch) clusterdoc.NewJob {
	if c.Weight != nil {
		spec.Weight = c.Weight
	}
	if len(c.Labels) > 0 {
		spec.Labels = labelled(spec.Labels, c)
	}
	return spec
}

// labelled is labels after a change.
func labelled(labels map[string]string, c *clusterdoc.JobPatch) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	for key, value := range c.Labels {
		if delete(all, key); value != nil {
			all[key] = *value
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

func weightOf(spec *clusterdoc.NewJob) float64 {
	if spec.Weight == nil {
		return 1
	}
	return *spec.Weight
}

// change changes a job, and remembers who did so.
func (l *Ledger) change(c *Change) error {
	j := l.jobs[c.Job]
	if j == nil || j.state.Final() {
		return fmt.Errorf("ledger: no job %q to change", c.Job)
	}
	if j.submitted == nil {
		j.submitted = &submittedAs{j.spec.Weight, j.spec.Labels}
	}
	l.revise(j, &c.JobPatch)
	j.traits = traitsOf(&j.spec)
	j.changes = append(slices.Clip(j.changes), change{l.nowUs, c.By, c.JobPatch})
	j.changes = j.changes[max(0, len(j.changes)-maxChanges):]
	l.altered.job(j)
	return nil
}

// revise makes a change. The session learns the weight of a job that waits by a new arrival, and does not have jobs
// that are held. That of a job that runs counts when the job starts again.
func (l *Ledger) revise(j *job, c *clusterdoc.JobPatch) {
	weight := weightOf(&j.spec)
	j.spec = changed(j.spec, c)
	released := c.Hold != nil && !*c.Hold && j.held
	if c.Hold != nil {
		j.held = *c.Hold
	}
	switch {
	case j.live != nil:
		if weight != weightOf(&j.spec) {
			j.knows = -1
		}
	case j.held:
		l.withdraw(j)
	case released && j.relaxed != nil:
		l.readmit(j)
	case released:
		l.arrive(j)
	case j.arrived && weight != weightOf(&j.spec):
		l.withdraw(j)
		l.arrive(j)
	}
}

// ForeseeChange are the events that a change of a job would bring the session. Nothing is changed.
func (l *Ledger) ForeseeChange(id string, c *clusterdoc.JobPatch) []hare.Event {
	j := l.jobs[id]
	was, waiting, affinities := *j, l.waiting, l.affinities
	if j.relaxed != nil {
		relaxed := *j.relaxed
		was.relaxed = &relaxed
	}
	defer func() { *j, l.waiting, l.affinities = was, waiting, affinities }()
	l.waiting, l.affinities = nil, slices.Clip(affinities)
	l.revise(j, c)
	return l.waiting
}
