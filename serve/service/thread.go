package service

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/hare-sched/hare/internal/timeslice"
)

// onThread calls f on a thread of its own. A thread that has computed for long has used
// up its share of the processor and is made to wait by the operating system. If a
// request or the answer of a solve went on in such a thread, each of its steps would
// wait too, the longer the busier the machine is. A panic of f is raised in the caller,
// with the stack of f. onThread is meant for an f that starts no goroutines: a locked
// thread that waits for others costs more than is gained.
func onThread[T any](f func() (T, error)) (v T, err error) {
	ended := make(chan string, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends with f
		timeslice.Ordinary()
		var failed string
		defer func() {
			if p := recover(); p != nil {
				failed = fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
			ended <- failed
		}()
		v, err = f()
	}()
	if failed := <-ended; failed != "" {
		panic(failed)
	}
	return v, err
}

// workers returns the number of goroutines for a solve that begins now. The cores are
// shared out among the solves that run, because goroutines beyond the number of cores
// only make each other wait. Results do not depend on the number, except for those of
// solves that the clock ends.
func (s *Service) workers() int {
	cores := s.cfg.Solver.Workers
	if cores <= 0 {
		cores = runtime.GOMAXPROCS(0)
	}
	_, running := s.queue.Load()
	return max(1, cores/max(1, running))
}
