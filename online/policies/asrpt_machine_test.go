package policies

import (
	"math"
	"math/rand/v2"
	"testing"
)

// leastTotal is the least sum of completion times of jobs on one machine, over all schedules that give each
// unit of time to one job: released and left are by job.
func leastTotal(released, left []int64, now int64, known map[[8]int64]int64) int64 {
	key := [8]int64{now}
	sum := int64(0)
	for i, n := range left {
		key[i+1] = n
		sum += n
	}
	if sum == 0 {
		return 0
	}
	if v, ok := known[key]; ok {
		return v
	}
	best, any := int64(math.MaxInt64), false
	for i := range left {
		if left[i] == 0 || released[i] > now {
			continue
		}
		any = true
		left[i]--
		v := leastTotal(released, left, now+1, known)
		if left[i] == 0 {
			v += now + 1
		}
		left[i]++
		best = min(best, v)
	}
	if !any {
		best = leastTotal(released, left, now+1, known)
	}
	known[key] = best
	return best
}

// The virtual machine reaches the least mean completion time, which the oracle finds by trying everything.
func TestSingleMachineIsBest(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rng.IntN(5)
		released, left := make([]int64, n), make([]int64, n)
		for i := range n {
			released[i], left[i] = rng.Int64N(8), 1+rng.Int64N(5)
		}
		m, got, ended := singleMachine{speed: 1}, int64(0), 0
		note := func(now int64) func(*machineJob, int64) {
			return func(*machineJob, int64) { got, ended = got+now, ended+1 }
		}
		for now := int64(0); ended < n; now++ {
			m.advance(now, note(now))
			for i := range n {
				if released[i] == now {
					m.add(&machineJob{serial: i, left: left[i]})
				}
			}
			if now > 100 {
				t.Fatalf("seed %d: jobs are left", seed)
			}
		}
		if want := leastTotal(released, left, 0, map[[8]int64]int64{}); got != want {
			t.Errorf("seed %d: %d, and the least is %d", seed, got, want)
		}
	}
}

// A leap over many completions gives the same order as small steps, and nextUs says when to come back.
func TestSingleMachineLeaps(t *testing.T) {
	run := func(step int64) (order []int) {
		note := func(j *machineJob, atUs int64) {
			order = append(order, j.serial)
			if want := []int64{20, 4, 7, 44}[j.serial]; atUs != want { // 60, 10, 20 and 130 over 3, rounded up
				t.Errorf("steps of %d: job %d ends at %d, want %d", step, j.serial, atUs, want)
			}
		}
		m := singleMachine{speed: 3}
		for i, left := range []int64{40, 10, 10, 70} {
			m.add(&machineJob{serial: i, left: left})
		}
		for m.nowUs < 60 {
			if step == 0 {
				m.advance(min(60, m.nextUs()), note)
			} else {
				m.advance(m.nowUs+step, note)
			}
		}
		return order
	}
	for _, step := range []int64{0, 1, 7, 60} {
		if got := run(step); len(got) != 4 || got[0] != 1 || got[1] != 2 || got[2] != 0 || got[3] != 3 {
			t.Errorf("steps of %d: %v", step, got)
		}
	}
}
