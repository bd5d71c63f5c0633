package solver

import (
	"context"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// watchCancel sets s.quit, which ends when the caller cancels and not at a deadline.
// Late work towards a bound is useful at a deadline, but not when the caller waits for
// the present answer.
func (s *solve) watchCancel() (stop func()) {
	quit, cancel := context.WithCancel(context.WithoutCancel(s.parent))
	s.quit = quit
	if s.cancelled() {
		cancel()
	}
	off := context.AfterFunc(s.parent, func() {
		if s.cancelled() {
			cancel()
		}
	})
	return func() {
		off()
		cancel()
	}
}

// keepBound keeps the best certified bound.
func (s *solve) keepBound(rel *hare.Relaxation) {
	if s.best.atLeast(rel) {
		return
	}
	if !rel.Certificate.HasPrices() {
		rel.Certificate.InstanceSHA256 = s.res.InstanceSHA256
		s.best = proven{rel: rel}
		return
	}
	began := time.Now()
	if proof := s.proveBound(rel); proof != nil {
		s.best = proven{rel, proof}
	}
	if s.opt.TimeLimit > 0 {
		// The time of this proof is not needed at the end, so the plan gets it.
		s.limits.planShare = min(1-s.limits.reserve,
			s.limits.planShare+time.Since(began).Seconds()/s.opt.TimeLimit.Seconds())
	}
}

// showBound keeps the best bound on the way. Such a bound is reported and saved, and is
// the answer only if the caller cancels, since other answers must not depend on who
// watches.
func (s *solve) showBound(rel *hare.Relaxation) {
	if s.shown.atLeast(rel) {
		return
	}
	began := time.Now()
	if proof := s.proveBound(rel); proof != nil {
		s.shown = proven{rel, proof}
	}
	s.proofTime = time.Since(began)
}

// showShare limits the time that bounds on the way take: after a proof, the next proof
// waits for showShare times the length of the last proof.
const showShare = 5

// boundDue reports that no bound was shown for a while. Short solves therefore do not
// pay for bounds on the way.
func (s *solve) boundDue() bool {
	return time.Since(s.shownAt) >= max(50*time.Millisecond, showShare*s.proofTime)
}

// proveBound proves a bound, and returns nil without a proof. A proof that fails is a fault of the solve.
func (s *solve) proveBound(rel *hare.Relaxation) *verify.Proof {
	proof, err := s.prove(rel)
	if err != nil {
		s.fault = err
	}
	return proof
}

// prove proves a bound. It returns nil without an error if the caller cancels first, or if a tree is too large to
// check. It reads only what no phase of a solve changes, so that any goroutine may call it.
func (s *solve) prove(rel *hare.Relaxation) (*verify.Proof, error) {
	rel.Certificate.InstanceSHA256 = s.res.InstanceSHA256
	proof, err := verify.Prove(s.quit, s.inst, rel.Certificate)
	switch {
	case s.cancelled():
		return nil, nil // the caller has cancelled, so the answer is the bound that was shown
	case err != nil && rel.Method == hare.MethodBranch:
		return nil, nil // the tree is too large to check; the bound by prices stays
	case err != nil:
		return nil, fmt.Errorf("solver: %w: %w", ErrUnverified, err)
	}
	return proof, nil
}

// adoptShownBound replaces the bound of the answer by the best bound on the way if the
// latter is better.
func (s *solve) adoptShownBound() {
	if !s.best.atLeast(s.shown.rel) {
		s.best = s.shown
	}
}
