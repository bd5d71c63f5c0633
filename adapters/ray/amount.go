package ray

import (
	"github.com/hare-sched/hare"
)

// amount is what a node has, or what is held of it.
type amount struct{ gpus, cpuMilli, memoryMiB int64 }

func (a amount) plus(b amount) amount {
	return amount{a.gpus + b.gpus, a.cpuMilli + b.cpuMilli, a.memoryMiB + b.memoryMiB}
}

// minus returns what is left, none of it below 0.
func (a amount) minus(b amount) amount {
	return amount{max(0, a.gpus-b.gpus), max(0, a.cpuMilli-b.cpuMilli), max(0, a.memoryMiB-b.memoryMiB)}
}

// least returns the lesser of each.
func (a amount) least(b amount) amount {
	return amount{min(a.gpus, b.gpus), min(a.cpuMilli, b.cpuMilli), min(a.memoryMiB, b.memoryMiB)}
}

// covers reports whether b has room in a.
func (a amount) covers(b amount) bool {
	return a.gpus >= b.gpus && a.cpuMilli >= b.cpuMilli && a.memoryMiB >= b.memoryMiB
}

const mib = 1 << 20

// whole is a number that Ray tells, within what sessions take of a node.
func whole(x float64) int64 {
	if !(x > 0) {
		return 0
	}
	return int64(min(x, hare.MaxPerTask))
}
