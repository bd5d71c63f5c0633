package timeslice

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Of the threads that deserve the processor, Linux runs the one with the earliest
// deadline, which is the sooner the shorter a thread's time slice is (EEVDF, Linux 6.12
// and later; earlier kernels have the same slice for all). A short slice gives no
// greater share of the processor, and needs no privilege. The values are in nanoseconds.
const (
	short    = 100_000 // the least that Linux takes
	ordinary = 0       // what Linux gives to a thread by itself
)

// Short gives short time slices to all threads of the process and to the threads that
// they start, so that a thread that wakes up for a request need not wait for the slices
// of threads that compute. Where the kernel has no such slices, Short does nothing.
func Short() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil && id > 0 {
			set(id, short)
		}
	}
}

// Ordinary gives the calling thread the time slice back that it would have without Short.
func Ordinary() { set(0, ordinary) }

func set(thread int, slice uint64) {
	a, err := unix.SchedGetAttr(thread, 0)
	if err != nil || a.Policy != unix.SCHED_NORMAL && a.Policy != unix.SCHED_BATCH {
		return
	}
	a.Runtime = slice
	_ = unix.SchedSetAttr(thread, a, 0) // the thread then waits as long as any other
}
