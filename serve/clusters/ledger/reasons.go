package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// maxWords is how many words ReasonShort of a job has at most.
const maxWords = 6

// explain says in a few words and as a code why a job that does not wait is not running.
func explain(job *clusterdoc.Job) {
	switch job.State {
	case clusterdoc.JobStopping, clusterdoc.JobFailed, clusterdoc.JobCancelled:
		job.ReasonCode, job.ReasonShort = string(job.State), string(job.State)
	default:
		return
	}
	if n := len(job.Attempts); job.State == clusterdoc.JobStopping && job.Reason == "" {
		job.Reason = "its processes have been asked to end"
		if n > 0 && job.Attempts[n-1].Error != "" {
			job.Reason += ": " + job.Attempts[n-1].Error
		}
	}
	if words := strings.Fields(job.Reason); job.State != clusterdoc.JobStopping && len(words) > 0 &&
		len(words) <= maxWords {
		job.ReasonShort = strings.Join(words, " ")
	}
}

// Explain adds to the description of a job what keeps it waiting, as far as it is not the session that knows; whole
// says that it is to look at all nodes. ask says that the session is to be asked.
func (l *Ledger) Explain(job *clusterdoc.Job, whole bool) (ask bool) {
	j := l.jobs[job.ID]
	if j == nil || j.state != job.State {
		return false
	}
	if j.state != clusterdoc.JobWaiting {
		return j.state != clusterdoc.JobStopping && l.InSession(job.ID)
	}
	if j.held {
		return false
	}
	say := func(code, short, text string) { job.ReasonCode, job.ReasonShort, job.Reason = code, short, text }
	if whole {
		if text, short := l.whyNot(j); text != "" {
			say("no_service", short, text)
			return false
		}
	}
	if text := l.WaitsFor(job.ID); text != "" {
		say("checkpoint", "waits for its checkpoint's node", text)
		return false
	}
	if !l.InSession(job.ID) || slices.ContainsFunc(l.waiting, func(e hare.Event) bool {
		return e.Job == job.ID && e.Type == hare.EventJobArrived
	}) {
		say("arriving", "was just submitted", "the scheduler is being told of it")
		if n := len(j.attempts); n > 0 {
			say("arriving", fmt.Sprintf("starts again after attempt %d", n), j.reason)
		}
		return false
	}
	return true
}

// Types are the GPU types of the agents that have registered, sorted.
func (l *Ledger) Types() []string { return slices.Sorted(maps.Keys(l.types)) }

// Preview is the job as it would arrive at the session if it were submitted now; nil where it could not start on the
// cluster as it is, and then why.
func (l *Ledger) Preview(spec *clusterdoc.NewJob) (arrived *hare.Job, short, why string) {
	id := l.NextJob()
	if text, short := l.whyNot(newJob(id, spec)); text != "" {
		return nil, short, text
	}
	return arrival(id, spec, l.types), "", ""
}

// NameAndUser are those of a job that has not ended.
func (l *Ledger) NameAndUser(id string) (name, user string) {
	if j := l.jobs[id]; j != nil {
		return j.spec.Name, j.spec.User
	}
	return "", ""
}

// HeldShort says in a few words why a job that is held waits.
const HeldShort = "is held until released"

// heldBy says who holds a job, and why.
func (j *job) heldBy() string {
	for i := len(j.changes) - 1; i >= 0; i-- {
		x := &j.changes[i]
		if x.Hold == nil || !*x.Hold {
			continue
		}
		text := "is held"
		if x.by != "" {
			text += " by " + x.by
		}
		if x.Reason != "" {
			text += ": " + x.Reason
		}
		return text
	}
	return "is held"
}
