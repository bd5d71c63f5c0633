package solver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/verify"
)

// proven is a certified bound. That by prices is proved when it is found, by
// package verify, so that the end of a solve has only the schedule to check:
// proving takes 0.1 s for 500 jobs, and far more round by round.
type proven struct {
	rel   *hare.Relaxation
	proof *verify.Proof // nil where proving takes no time worth saving
}

// amount is the bound that is answered; nil without one.
func (p *proven) amount() *hare.Amount {
	if p.rel == nil {
		return nil
	}
	b := p.rel.Bound.RoundDown()
	return &b
}

// beats says that rel is not certified, or no more than p.
func (p *proven) beats(rel *hare.Relaxation) bool {
	return rel == nil || !rel.Certified || p.rel != nil && rel.Bound.Cmp(p.rel.Bound) <= 0
}

// untilCancelled sets s.quit, which ends when the caller cancels and not at a
// deadline: late work towards a bound is worth its while then, and is not when
// the caller waits for whatever there is.
func (s *solve) untilCancelled() (stop func()) {
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

// cancelled says that the caller ended the solve.
func (s *solve) cancelled() bool {
	return s.parent.Err() != nil && !errors.Is(s.parent.Err(), context.DeadlineExceeded)
}

// keep holds on to the best certified bound.
func (s *solve) keep(rel *hare.Relaxation) {
	if s.best.beats(rel) {
		return
	}
	rel.Certificate.InstanceSHA256 = s.res.InstanceSHA256
	if rel.Method != hare.MethodPrice {
		s.best = proven{rel: rel}
		return
	}
	began := time.Now()
	if proof := s.prove(rel); proof != nil {
		s.best = proven{rel, proof}
	}
	if s.opt.TimeLimit > 0 {
		// What is proved now need not be at the end: the plan gets its time.
		s.limits.planShare = min(1-s.limits.reserve, s.limits.planShare+time.Since(began).Seconds()/s.opt.TimeLimit.Seconds())
	}
}

// show holds on to the best bound on the way, which is told and saved, and
// answered only where the caller cancels: what is answered at other ends must
// not depend on who looks.
func (s *solve) show(rel *hare.Relaxation) {
	if s.shown.beats(rel) {
		return
	}
	rel.Certificate.InstanceSHA256 = s.res.InstanceSHA256
	began := time.Now()
	if proof := s.prove(rel); proof != nil {
		s.shown = proven{rel, proof}
	}
	s.proving = time.Since(began)
}

// showShare limits the time for bounds that are shown: a proof comes as many
// times its length after the one before.
const showShare = 5

// due says that nothing was told for a while: solves that are over by then do
// not pay for what would be shown on the way.
func (s *solve) due() bool {
	return time.Since(s.toldAt) >= max(50*time.Millisecond, showShare*s.proving)
}

// prove is nil where the caller cancels first, or with s.fault set.
func (s *solve) prove(rel *hare.Relaxation) *verify.Proof {
	proof, err := verify.Prove(s.quit, s.inst, rel.Certificate)
	switch {
	case s.cancelled():
		return nil // also where quit came too late: what is answered is what was told
	case err != nil:
		s.fault = fmt.Errorf("solver: %w: %w", ErrUnverified, err)
	}
	return proof
}

// takeShown makes the best bound on the way the bound, where it is better.
func (s *solve) takeShown() {
	if !s.best.beats(s.shown.rel) {
		s.best = s.shown
	}
}
