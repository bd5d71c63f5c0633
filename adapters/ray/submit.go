package ray

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Submit adds a job to the queue and returns its ID when it is on disk. With an ID of the user, a second
// submission of the same job does nothing, so that a submission may be repeated.
func Submit(ctx context.Context, j *Journal, id string, spec *Spec, now time.Time) (string, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	if id != "" && !jobID.MatchString(id) {
		return "", &InvalidError{Pointer: "/id", Reason: "must be letters, digits, dots, underscores and hyphens, at " +
			"most 100, and begin with a letter or digit"}
	}
	given := id != ""
	if !given {
		var random [5]byte
		if _, err := rand.Read(random[:]); err != nil {
			return "", err
		}
		id = "hare-" + hex.EncodeToString(random[:])
	}
	return id, j.Update(ctx, 0, now, func(q *Queue) ([]Record, error) {
		old := q.Get(id)
		if old == nil {
			return []Record{{Event: eventSubmitted, Job: id, Spec: spec}}, nil
		}
		a, _ := json.Marshal(&old.Spec) // cannot fail: Validate has done it
		b, _ := json.Marshal(spec)
		if !given || string(a) != string(b) {
			return nil, &InvalidError{Pointer: "/id", Reason: fmt.Sprintf("the job %s is in the queue already and is "+
				"another one: choose another ID", id)}
		}
		return nil, nil
	})
}

// ErrEnded says that a job cannot be cancelled any more.
var ErrEnded = errors.New("has ended")

// Cancel notes that a job is to end. A job that waits has ended then; one that Ray has is stopped by the
// process that leads.
func Cancel(ctx context.Context, j *Journal, id, by string, now time.Time) error {
	return j.Update(ctx, 0, now, func(q *Queue) ([]Record, error) {
		e := q.Get(id)
		switch {
		case e == nil:
			return nil, &InvalidError{Reason: fmt.Sprintf("no job %.100q is in the queue: hare ray jobs lists them", id)}
		case e.State.Ended():
			return nil, fmt.Errorf("the job %s %w: %s", id, ErrEnded, e.State)
		case e.Cancel:
			return nil, nil
		}
		return []Record{{Event: eventCancel, Job: id, By: by, Reason: "cancelled by " + by}}, nil
	})
}
