package ray

import (
	"context"
	"fmt"
	"strings"
)

// Ray's reasons for failures of jobs that did not run to their own end.
const (
	startTimeout = "JOB_SUPERVISOR_ACTOR_START_TIMEOUT" // never began
	unstartable  = "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE" // its node has gone
	actorDied    = "JOB_SUPERVISOR_ACTOR_DIED"          // its node or its supervisor was lost
)

// freeTries is how often a job that never began waits again, besides its retries.
const freeTries = 10

// follow returns what Ray tells of the jobs that it has, as far as the queue does not say so yet.
func (h *Helper) follow(q *Queue, v *view) (records []Record) {
	nowUs := h.now().UnixMicro()
	for _, e := range q.active() {
		r := v.jobs[e.SubmissionID()]
		switch {
		case r == nil && v.unsure:
			// Ray may have it under an entry that cannot be read: the next reading tells.
		case r == nil:
			records = append(records, missing(e, v, nowUs)...)
		case e.State == Starting && e.Pinned && !h.byType && !e.Cancel && r.Status == "PENDING" && v.dead[e.NodeID]:
			// No other node has this ID, now or later, so that Ray can never begin it and waits for its time to run
			// out. The next attempt has another name.
			h.counted.Freed++
			records = append(records, Record{Event: eventSeen, Job: e.ID, State: Starting}, Record{Event: eventRequeue,
				Job: e.ID, Reason: "freed: the node " + e.Node + " died before Ray began the job"})
		case r.ended():
			if !e.Seen {
				records = append(records, Record{Event: eventSeen, Job: e.ID, State: e.State})
			}
			records = append(records, h.ended(e, r, nowUs))
		default:
			seen := Record{Event: eventSeen, Job: e.ID, State: Starting}
			switch {
			case r.Status == "RUNNING":
				seen.State, seen.StartUs = Running, int64(r.StartMs*1000)
			case r.Status != "PENDING" && e.Seen: // of another version: it goes on as before
				seen.State, seen.StartUs = e.State, e.StartUs
			}
			if n := v.node(r.DriverNodeID); n != nil {
				seen.Node, seen.NodeID, seen.Type = n.name, n.id, n.gpuType
			}
			if !e.Seen || e.State != seen.State || seen.NodeID != "" && e.NodeID != seen.NodeID {
				records = append(records, seen)
			}
		}
	}
	return records
}

// missing says what becomes of a job that Ray does not know.
func missing(e *Entry, v *view, nowUs int64) []Record {
	end := Record{Event: eventEnd, Job: e.ID, StartUs: e.StartUs, EndUs: nowUs}
	switch {
	case !e.Seen && e.Cancel:
		end.State = Cancelled
	case !e.Seen && e.NodeID != "" && v.node(e.NodeID) == nil:
		return []Record{{Event: eventRequeue, Job: e.ID, Reason: "its node has gone before Ray had the job"}}
	case !e.Seen && e.Session != v.session:
		return []Record{{Event: eventRequeue, Job: e.ID, Reason: "Ray restarted before it had the job"}}
	case !e.Seen:
		return nil // it is submitted again
	case e.Cancel:
		end.State = Cancelled
	case e.Session == v.session:
		end.State, end.Reason = Unknown, "the job was deleted in Ray before its end was read"
	default:
		return []Record{lost(e, "Ray restarted and has forgotten the job", e.StartUs, nowUs)}
	}
	return []Record{end}
}

// lost lets a job wait again, unless it was lost too often.
func lost(e *Entry, why string, startUs, endUs int64) Record {
	if e.Attempt <= e.Spec.Retries {
		return Record{Event: eventRequeue, Job: e.ID, Reason: fmt.Sprintf("%s: retry %d of %d", why, e.Attempt,
			e.Spec.Retries)}
	}
	return Record{Event: eventEnd, Job: e.ID, State: Failed, StartUs: startUs, EndUs: endUs, Reason: why}
}

// ended says what becomes of a job whose attempt has ended.
func (h *Helper) ended(e *Entry, r *rayJob, nowUs int64) Record {
	startUs, endUs := int64(r.StartMs*1000), int64(r.EndMs*1000)
	if endUs == 0 {
		endUs = nowUs
	}
	end := Record{Event: eventEnd, Job: e.ID, StartUs: startUs, EndUs: endUs, Reason: clip(r.Message)}
	switch {
	case e.Cancel:
		end.State, end.Reason = Cancelled, e.Reason
	case r.Status == "SUCCEEDED":
		end.State = Succeeded
	case r.Status == "STOPPED":
		end.State = Stopped
	case (r.ErrorType == startTimeout || r.ErrorType == unstartable) && e.Attempt <= e.Spec.Retries+freeTries:
		h.counted.Requeued++
		return Record{Event: eventRequeue, Job: e.ID, Reason: "Ray could not begin the job: " + clip(r.Message)}
	case r.ErrorType == actorDied:
		return lost(e, "Ray lost the job: "+clip(r.Message), startUs, endUs)
	default:
		end.State = Failed
	}
	return end
}

// clip keeps the first 300 bytes of the first line.
func clip(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	text, _, _ = strings.Cut(text, ", last available logs") // which hare ray jobs does not show
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// stopCancelled stops what somebody cancelled, also where a late submission brought it back. It asks in
// each loop until the job has ended: Ray forgets what it was asked of a job that has not begun.
func (h *Helper) stopCancelled(ctx context.Context, v *view) (failures []error, err error) {
	for _, e := range h.journal.Queue.Entries {
		id := e.SubmissionID()
		r := v.jobs[id]
		if r == nil || r.ended() || !e.Cancel || e.State == Waiting || e.State.Ended() && e.State != Cancelled {
			continue
		}
		if !h.stopped[id] {
			if err := h.update(ctx, func(*Queue) []Record {
				return []Record{{Event: eventStop, Job: e.ID, Attempt: e.Attempt}}
			}); err != nil {
				return nil, err
			}
			h.stopped[id] = true
		}
		if err := h.dashboard.stop(ctx, id); err != nil {
			failures = append(failures, fmt.Errorf("the job %s is not stopped yet: %w", e.ID, err))
		}
	}
	return failures, nil
}
