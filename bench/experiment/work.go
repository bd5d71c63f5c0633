package experiment

import (
	"context"
	"fmt"
	"sync"
)

// work distributes bounds and runs over goroutines.
type work struct {
	ctx   context.Context
	cfg   *Config
	total int
	mu    sync.Mutex
	begun int
}

// begin reports that the next bound or run begins; all that began before count as done.
func (w *work) begin(format string, a ...any) {
	if w.cfg.Progress == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cfg.Progress(Progress{Done: w.begun, Total: w.total, Text: fmt.Sprintf(format, a...)})
	w.begun++
}

// skip counts a run that needs not begin.
func (w *work) skip() {
	w.mu.Lock()
	w.begun++
	w.mu.Unlock()
}

// each calls do for 0 to n − 1, in Config.Parallel goroutines. After an error no further
// call begins. Of several errors, each returns the error of the least index.
func (w *work) each(n int, do func(int) error) error {
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		next   int
		failed = n
		first  error
	)
	for range max(1, w.cfg.Parallel) {
		group.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				stop := first != nil
				mu.Unlock()
				if stop || i >= n {
					return
				}
				err := w.ctx.Err()
				if err == nil {
					err = do(i)
				}
				if err != nil {
					mu.Lock()
					if i < failed {
						failed, first = i, err
					}
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	return first
}
