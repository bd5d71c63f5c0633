package policies

import "github.com/hare-sched/hare/online/list"

// ring holds the last maxObservations values that were added, in no particular order.
type ring[T any] struct {
	all  []T
	next int // the place of the oldest value once there are maxObservations
}

func (r *ring[T]) add(v T) {
	if len(r.all) < list.MaxObservations {
		r.all = append(r.all, v)
		return
	}
	r.all[r.next] = v
	r.next = (r.next + 1) % list.MaxObservations
}

// restore takes the fields of a ring from a snapshot; false says that they contradict
// each other.
func (r *ring[T]) restore(all []T, next int) bool {
	r.all, r.next = all, next
	return len(all) <= list.MaxObservations && next >= 0 && next <= max(0, len(all)-1)
}
