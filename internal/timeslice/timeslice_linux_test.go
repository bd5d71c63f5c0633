package timeslice

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// Threads have short slices after Short, also those that start later, and a thread that
// computes has its ordinary slice and nice value back after Ordinary.
func TestSlices(t *testing.T) {
	slice := func() uint64 {
		t.Helper()
		a, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return a.Runtime
	}
	inThread := func(f func()) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread ends with the goroutine
			f()
		}()
		<-done
	}
	var before uint64
	inThread(func() { before = slice() })
	if before == 0 {
		t.Skip("this kernel has no slices of single threads")
	}
	Short()
	inThread(func() {
		if got := slice(); got != short {
			t.Errorf("a thread that serves has a slice of %d ns, want %d", got, short)
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, 3); err != nil {
			t.Fatal(err)
		}
		Ordinary()
		if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Runtime != before || a.Nice != 3 {
			t.Errorf("%+v %v, want a slice of %d ns and nice 3", a, err, before)
		}
	})
}
