package solves

import (
	"context"
	"errors"
	"io"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/admission"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// partBytes is how many bytes of a long document are written at a time.
const partBytes = 4 << 20

// store puts a document into the batch of ch. The chunks of a long document become
// durable before ch, all but the last few. store must not be called with a lock held.
func (s *solve) store(ch *change, write func(io.Writer) error) (*store.BlobRef, error) {
	ss := s.parent
	num := ss.newBlobNum()
	begun, size := false, 0
	part := store.SolveBatch{}
	w := store.NewBlob(num, func(c store.SolveChunk) error {
		part.Chunks = append(part.Chunks, c)
		if size += len(c.Data); size < partBytes {
			return nil
		}
		if !begun {
			begun, part.Begin = true, []int64{num}
		}
		done := make(chan error, 1)
		if !ss.committer.add(&change{solve: s, batch: part, must: ch.must, settle: func(err error) { done <- err }},
			true) {
			return admission.ErrDraining
		}
		part, size = store.SolveBatch{}, 0
		return <-done
	})
	err := write(w)
	ref := store.BlobRef{}
	if err == nil {
		ref, err = w.End()
	}
	if err != nil {
		return nil, err
	}
	ch.batch.Chunks = append(ch.batch.Chunks, part.Chunks...)
	if begun {
		ch.batch.Hold = append(ch.batch.Hold, num)
	}
	return &ref, nil
}

// save makes a checkpoint of a pair that is no worse than the last checkpoint in any
// respect. It returns when the checkpoint is durable.
func (s *solve) save(res *hare.Result) {
	if res.Schedule == nil || res.Value == nil || !s.wasAccepted() {
		return
	}
	value, bound := *res.Value, res.Bound
	kept := *res
	kept.Options.Detail = "lanes" // the whole schedule, whatever detail was asked for
	kept.TaskList = nil
	s.mu.Lock()
	old := s.next.Checkpoint
	s.mu.Unlock()
	if old != nil && !improves(old, &value, bound) {
		return
	}
	ch := &change{solve: s, must: true}
	ref, err := s.store(ch, func(w io.Writer) error { return wire.EncodeResult(w, &kept) })
	if err != nil {
		return // the server ends
	}
	s.mu.Lock()
	if store.Finished(s.next.Status) {
		s.mu.Unlock()
		return // the next start removes a blob that was begun and is in no record
	}
	s.next.Checkpoint = &store.CheckpointRef{BlobRef: *ref, Value: store.StoredAmount(&value),
		Bound: store.StoredAmount(bound)}
	ch.batch.Put = []store.SolveRecord{s.record()}
	ch.events = []Event{s.event(Event{Type: EventCheckpoint, Value: &value, Bound: bound})}
	if old != nil {
		ch.batch.Release = []int64{old.Blob}
	}
	s.commit(ch)
}

// improves says that a pair is no worse than the checkpoint in value and bound, and
// better in one of them.
func improves(old *store.CheckpointRef, value, bound *hare.Amount) bool {
	v, _ := store.ReadAmount(old.Value)
	b, _ := store.ReadAmount(old.Bound)
	if v == nil || value.Cmp(*v) > 0 || b != nil && (bound == nil || bound.Cmp(*b) < 0) {
		return false
	}
	return value.Cmp(*v) < 0 || bound != nil && (b == nil || bound.Cmp(*b) > 0)
}

// commit makes ch durable, with the state as it is now. It is called with the lock held,
// unlocks it, and returns when the change is settled.
func (s *solve) commit(ch *change) {
	ss, state := s.parent, s.next
	done := make(chan struct{})
	ch.settle = func(err error) {
		if err == nil {
			s.settled(ch, &state)
		} else {
			s.suspend() // the server ends
		}
		close(done)
	}
	added := ss.committer.add(ch, true)
	s.mu.Unlock()
	if !added {
		s.suspend()
		return
	}
	<-done
}

// settled counts the blobs of a state that has become durable, and publishes the state.
func (s *solve) settled(ch *change, state *store.SolveState) {
	ss := s.parent
	s.mu.Lock()
	was := s.stored
	s.mu.Unlock()
	ss.mu.Lock()
	for _, ref := range state.Blobs() {
		ss.retainBlob(ref, s.tenant)
	}
	for _, ref := range was.Blobs() {
		ss.releaseBlob(&store.SolveBatch{}, ref) // ch releases the blob in the store
	}
	if store.Finished(state.Status) {
		ss.finished(s, state)
	}
	ss.mu.Unlock()
	s.publish(ch.events, state)
	if len(ch.batch.Release) > 0 {
		notify(ss.cleanup)
	}
}

// saved reads the last checkpoint; nil without one.
func (s *solve) saved() *hare.Result {
	s.mu.Lock()
	c := s.next.Checkpoint
	detail := s.next.Options.Detail
	s.mu.Unlock()
	if c == nil {
		return nil
	}
	res, err := s.parent.readResult(context.Background(), s.id, c.BlobRef)
	if err != nil {
		s.parent.cfg.Logger.Error("a saved pair cannot be read", "solve", s.id, "error", err)
		return nil
	}
	res.Options.Detail, res.Reproducible = detail, false
	return res
}

// wasAccepted waits until the solve is durable or refused. Of a solve that was refused
// nothing is stored.
func (s *solve) wasAccepted() bool {
	<-s.accepted
	return s.refused == nil
}

// finish makes the end of a solve durable. It returns when the end is durable, or when
// the server ends before. A solve with neither result nor error was cancelled before it
// had a schedule.
func (s *solve) finish(res *hare.Result, err error) {
	if !s.wasAccepted() {
		return
	}
	res, err = s.best(res, err)
	ch := &change{solve: s, must: true}
	var ref *store.BlobRef
	if err == nil && res != nil {
		if res.Termination == hare.TerminationCancelled {
			res.Status = hare.StatusCancelled
		}
		ref, err = s.store(ch, func(w io.Writer) error { return wire.EncodeResult(w, res) })
		if errors.Is(err, admission.ErrDraining) {
			s.suspend()
			return
		}
	}
	s.mu.Lock()
	st := &s.next
	if st.Checkpoint != nil {
		ch.batch.Release = append(ch.batch.Release, st.Checkpoint.Blob)
	}
	if st.Warm != nil {
		ch.batch.Release = append(ch.batch.Release, st.Warm.Blob)
	}
	if st.Replan != nil {
		ch.batch.Release = append(ch.batch.Release, st.Replan.Blob)
	}
	st.EndedUs = micros(s.parent.cfg.Now())
	st.Warm, st.Checkpoint, st.Replan = nil, nil, nil
	switch {
	case err != nil:
		st.Status, st.Error, st.Content = StatusFailed, err.Error(), nil
		if errors.Is(err, admission.ErrLate) {
			st.Termination = hare.TerminationDeadline
		} else {
			s.parent.cfg.Logger.Error("a solve failed", "solve", s.id, "error", err)
		}
	case res == nil:
		st.Status, st.Termination, st.Content = StatusCancelled, hare.TerminationCancelled, nil
	default:
		st.Status, st.Termination, st.Result = StatusSucceeded, res.Termination, ref
		if res.Termination == hare.TerminationCancelled {
			st.Status = StatusCancelled
		}
		st.Value, st.Bound = store.StoredAmount(res.Value), store.StoredAmount(res.Bound)
		if !res.Reproducible {
			st.Content = nil
		}
		if s.reporter.solve != nil {
			s.reporter.value, s.reporter.bound = res.Value, res.Bound
			ch.events = s.reporter.newEvents(ch.events)
		}
	}
	ch.events = append(ch.events, s.doneEvent())
	st.Events = s.seq
	ch.batch.Put = []store.SolveRecord{s.record()}
	// The place in the quota is free before the end of the solve can be seen.
	s.release()
	s.commit(ch)
}

// best returns what a solve answers: the result, the last checkpoint, or the better
// schedule and the better bound of both.
func (s *solve) best(res *hare.Result, err error) (*hare.Result, error) {
	s.mu.Lock()
	c := s.next.Checkpoint
	s.mu.Unlock()
	switch {
	case c == nil:
		return res, err
	case res != nil && err == nil && !worse(res, c):
		return res, nil
	}
	saved := s.saved()
	switch {
	case saved == nil:
		return res, err
	case err != nil || res == nil:
		if err != nil && !errors.Is(err, admission.ErrLate) {
			s.parent.cfg.Logger.Error("a solve ends with the pair that was saved", "solve", s.id, "error", err)
		}
		saved.Termination = hare.TerminationCancelled
		if errors.Is(err, admission.ErrLate) {
			saved.Termination = hare.TerminationDeadline
		}
		return saved, nil
	}
	inst, bad := s.instance(context.Background())
	if bad != nil {
		return saved, nil
	}
	return combine(inst, res, saved), nil
}

// worse says that a result has a greater value or a lesser bound than the checkpoint.
func worse(res *hare.Result, c *store.CheckpointRef) bool {
	v, _ := store.ReadAmount(c.Value)
	b, _ := store.ReadAmount(c.Bound)
	return v != nil && (res.Value == nil || res.Value.Cmp(*v) > 0) ||
		b != nil && (res.Bound == nil || res.Bound.Cmp(*b) < 0)
}

// combine takes the better schedule, with the reasons of its moves, and the better bound
// of two results of one instance, or of one rest of an instance. The gap report describes
// only one of the pairs and is left out.
func combine(inst *hare.Instance, res, saved *hare.Result) *hare.Result {
	out := *res
	out.Reproducible, out.GapReport = false, nil
	if saved.Value != nil && (res.Value == nil || saved.Value.Cmp(*res.Value) < 0) {
		out.Value, out.Schedule, out.Jobs, out.Metrics, out.TaskList = saved.Value, saved.Schedule, saved.Jobs,
			saved.Metrics, nil
		out.Reasons, out.Replan = nil, saved.Replan
		if out.Options.Detail == "tasks" {
			of := inst
			if out.Replan != nil {
				of = out.Replan.Rest
			}
			out.TaskList = out.Schedule.Tasks(of, hare.MaxTaskObjects)
		}
	}
	if saved.Bound != nil && (res.Bound == nil || saved.Bound.Cmp(*res.Bound) > 0) {
		out.Bound, out.Certificate = saved.Bound, saved.Certificate
	}
	if out.Metrics != nil && out.Certificate != nil {
		m := *out.Metrics
		m.BoundMethod = out.Certificate.Method
		out.Metrics = &m
	}
	if out.Value != nil && out.Bound != nil && out.Value.Cmp(*out.Bound) == 0 {
		out.Termination = hare.TerminationOptimal
	}
	// Each result was checked by itself. The hash shows that both are of the same rest.
	of := inst
	for _, r := range []*hare.Result{&out, res} {
		if r.Replan != nil && r.Replan.Rest != nil {
			of = r.Replan.Rest
			break
		}
	}
	if rep := verify.Check(of, &out); !rep.OK {
		saved.Termination = res.Termination
		return saved
	}
	return &out
}
