package ray

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
)

// State is what has become of a job.
type State string

// The states of jobs. A job ends in one of the last five.
const (
	Waiting   State = "waiting"   // in Hare's queue alone
	Starting  State = "starting"  // is being submitted to Ray, or Ray has not begun it
	Running   State = "running"   // Ray runs it
	Succeeded State = "succeeded" // its program ended with exit code 0
	Failed    State = "failed"    // its program failed, or was lost too often
	Stopped   State = "stopped"   // somebody stopped it in Ray
	Cancelled State = "cancelled" // hare ray cancel
	Refused   State = "refused"   // Ray does not take it
	Unknown   State = "unknown"   // it was deleted in Ray before its end was read
)

// Ended reports whether a job in this state is over.
func (s State) Ended() bool { return s != Waiting && s != Starting && s != Running }

// Entry is a job of the queue.
type Entry struct {
	ID       string `json:"id"`
	Spec     Spec   `json:"spec"`
	State    State  `json:"state"`
	SubmitUs int64  `json:"submit_us"` // since 1970, as all times
	// Attempt counts the submissions to Ray that Ray has seen, and the one that is being made.
	Attempt int `json:"attempt,omitempty"`
	// Node, NodeID and Type are where the attempt is to run, or runs.
	Node   string `json:"node,omitempty"`
	NodeID string `json:"node_id,omitempty"`
	Type   string `json:"type,omitempty"`
	// Pinned says that Ray can begin the attempt on this node alone.
	Pinned bool `json:"pinned,omitempty"`
	// Session is the one of Ray in which the attempt was submitted: Ray forgets jobs when it restarts.
	Session string `json:"ray_session,omitempty"`
	// Seen says that Ray has reported the attempt.
	Seen    bool   `json:"seen,omitempty"`
	StartUs int64  `json:"start_us,omitempty"`
	EndUs   int64  `json:"end_us,omitempty"`
	Cancel  bool   `json:"cancel,omitempty"` // somebody wants it to end
	Reason  string `json:"reason,omitempty"` // of the last change
}

// SubmissionID is the name of the attempt in Ray.
func (e *Entry) SubmissionID() string {
	if e.Attempt <= 1 {
		return e.ID
	}
	return fmt.Sprintf("%s-%d", e.ID, e.Attempt)
}

// The events of a journal.
const (
	eventSubmitted = "submitted"
	eventCancel    = "cancel"
	eventLead      = "lead"
	eventStart     = "start"   // is in the journal before Ray is asked
	eventSeen      = "seen"    // Ray reported the state of the attempt
	eventStop      = "stop"    // is in the journal before Ray is asked
	eventRequeue   = "requeue" // the job waits again
	eventEnd       = "end"
	eventKept      = "kept" // a job, after the journal was made shorter
)

// Record is one line of the journal.
type Record struct {
	At      string `json:"at"`
	Event   string `json:"event"`
	Epoch   int64  `json:"epoch,omitempty"` // of the process that leads
	By      string `json:"by,omitempty"`
	Job     string `json:"job,omitempty"`
	Spec    *Spec  `json:"spec,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Node    string `json:"node,omitempty"`
	NodeID  string `json:"node_id,omitempty"`
	Type    string `json:"type,omitempty"`
	Pinned  bool   `json:"pinned,omitempty"`
	Session string `json:"ray_session,omitempty"`
	State   State  `json:"state,omitempty"`
	StartUs int64  `json:"start_us,omitempty"`
	EndUs   int64  `json:"end_us,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Entry   *Entry `json:"entry,omitempty"`
}

// Queue is what a journal says. The zero value is empty.
type Queue struct {
	Epoch   int64    // of the process that leads
	Entries []*Entry // in the order of submission
	byID    map[string]*Entry
}

// Get returns a job by its ID; nil where there is none.
func (q *Queue) Get(id string) *Entry { return q.byID[id] }

// apply takes a record. Records that make no sense are errors, since they tell of a damaged journal.
func (q *Queue) apply(r *Record) error {
	if q.byID == nil {
		q.byID = map[string]*Entry{}
	}
	at, err := time.Parse(time.RFC3339Nano, r.At)
	if err != nil {
		return fmt.Errorf("the time %.40q cannot be read", r.At)
	}
	switch {
	case r.Event == eventLead:
		q.Epoch = max(q.Epoch, r.Epoch)
		return nil
	case r.Event == eventSubmitted && r.Spec != nil && r.Job != "" && q.byID[r.Job] == nil:
		q.add(&Entry{ID: r.Job, Spec: *r.Spec, State: Waiting, SubmitUs: at.UnixMicro()})
		return nil
	case r.Event == eventKept && r.Entry != nil && r.Entry.ID != "" && q.byID[r.Entry.ID] == nil:
		q.add(r.Entry)
		return nil
	}
	e := q.byID[r.Job]
	if e == nil {
		return fmt.Errorf("the event %.20q of the job %.60q does not follow from the lines before", r.Event, r.Job)
	}
	if r.Reason != "" {
		e.Reason = r.Reason
	}
	switch r.Event {
	case eventCancel:
		e.Cancel = true
		if e.State == Waiting {
			e.State, e.EndUs = Cancelled, at.UnixMicro()
		}
	case eventStart:
		e.State, e.Attempt, e.Seen = Starting, r.Attempt, false
		e.Node, e.NodeID, e.Type, e.Session, e.Pinned = r.Node, r.NodeID, r.Type, r.Session, r.Pinned
		e.StartUs = at.UnixMicro()
	case eventSeen:
		e.State, e.Seen = r.State, true
		if r.NodeID != "" {
			e.Node, e.NodeID, e.Type = r.Node, r.NodeID, r.Type
		}
		if r.StartUs > 0 {
			e.StartUs = r.StartUs
		}
	case eventStop:
	case eventRequeue:
		if !e.Seen {
			e.Attempt-- // the next one has the same name in Ray, which takes a name once
		}
		e.State, e.Seen, e.Node, e.NodeID, e.Type, e.StartUs = Waiting, false, "", "", "", 0
	case eventEnd:
		e.State, e.StartUs, e.EndUs = r.State, r.StartUs, r.EndUs
	default:
		return fmt.Errorf("the event %.20q is not known: the journal is of a newer version, or damaged", r.Event)
	}
	return nil
}

func (q *Queue) add(e *Entry) {
	q.Entries = append(q.Entries, e)
	q.byID[e.ID] = e
}

// active lists the jobs that Ray has or is to have.
func (q *Queue) active() []*Entry {
	return slices.DeleteFunc(slices.Clone(q.Entries), func(e *Entry) bool {
		return e.State.Ended() || e.State == Waiting
	})
}

// waiting lists the jobs that wait, the longest waiting first.
func (q *Queue) waiting() []*Entry {
	return slices.DeleteFunc(slices.Clone(q.Entries), func(e *Entry) bool { return e.State != Waiting })
}

// forHistory is the job as history knows jobs.
func (e *Entry) forHistory() *history.Job {
	s := &e.Spec
	j := &history.Job{ID: e.ID, Name: s.Name, User: s.User, SubmitUs: e.SubmitUs, LimitUs: int64(s.LimitS * 1e6),
		GPUs: s.GPUs, Nodes: 1, PerTask: s.GPUs, CPUMilli: s.needs().cpuMilli, MemoryMiB: s.MemoryMiB}
	for _, t := range s.On {
		if t.Seconds > 0 {
			j.Seconds = append(j.Seconds, history.TypeSeconds{Type: t.Type, Us: max(1, int64(t.Seconds*1e6))})
		}
	}
	slices.SortFunc(j.Seconds, func(a, b history.TypeSeconds) int { return strings.Compare(a.Type, b.Type) })
	return j
}
