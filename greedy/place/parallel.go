package place

import (
	"sync"
	"sync/atomic"
)

// RunParallel calls do(0) … do(n−1), in order with one worker and otherwise in one
// goroutine each. A panic in a goroutine would end the process, so the panic is raised
// in the caller instead.
func RunParallel(workers, n int, do func(x int)) {
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
