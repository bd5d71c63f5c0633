package greedy

import (
	"sync"
	"sync/atomic"
)

// sideBySide does do(0) … do(n−1), in order with one worker and otherwise in
// goroutines of their own. A panic in one of them would end the process: the
// caller gets it.
func sideBySide(workers, n int, do func(x int)) {
	if workers == 1 {
		for x := range n {
			do(x)
		}
		return
	}
	var all sync.WaitGroup
	var failed atomic.Pointer[any]
	for x := range n {
		all.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					failed.Store(&p)
				}
			}()
			do(x)
		})
	}
	all.Wait()
	if p := failed.Load(); p != nil {
		panic(*p)
	}
}
