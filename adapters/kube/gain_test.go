package kube

import (
	"math"
	"math/rand/v2"
	"testing"
)

// meanCompletion plays Jobs of mixed widths and lengths, and returns the mean of their times from
// submission to end, with the helper or by the cluster alone.
func meanCompletion(t *testing.T, seed uint64, jobs int, overheadS int64, helped bool) float64 {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	f := newFakeKube()
	f.overheadS = overheadS
	type row struct {
		atS, pods, gpus int64
		base, spread    float64
	}
	var rows []row
	work := 0.0
	for range jobs {
		wide := [][2]int64{{1, 1}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}, {2, 4}}[rng.IntN(10)]
		r := row{0, wide[0], wide[1], 1 + min(40, rng.ExpFloat64()*9), 1.2 + 1.4*rng.Float64()}
		rows = append(rows, r)
		work += float64(r.pods*r.gpus) * r.base
	}
	for i := range rows {
		rows[i].atS = int64(float64(i) / float64(jobs) * work / 24 / 1.2)
	}
	h := testHelper(t, f, nil)
	beganS := f.nowS
	for len(rows) > 0 || f.left() > 0 {
		for len(rows) > 0 && rows[0].atS <= f.nowS-beganS {
			r := rows[0]
			rows = rows[1:]
			s := func(x float64) int { return max(1, int(math.Round(x))) }
			j := f.submit(r.pods, r.gpus, s(r.base), s(r.base*r.spread), s(r.base/2))
			j.suspend = helped
		}
		if helped {
			step(t, h)
		}
		f.run(1)
		if f.nowS-beganS > 5000 {
			t.Fatalf("%d Jobs are left", f.left())
		}
	}
	sum := 0.0
	for _, j := range f.jobs {
		sum += float64(j.endS - j.createdS)
	}
	return sum / float64(len(f.jobs))
}

// TestGain checks that the helper is worth its while where pods take a second longer than their Jobs say:
// docs/use/beside.md#kubernetes has what it gains beside a real Kubernetes.
func TestGain(t *testing.T) {
	alone, helped := meanCompletion(t, 1, 60, 1, false), meanCompletion(t, 1, 60, 1, true)
	if t.Logf("mean completion alone %.1f s, helped %.1f s", alone, helped); helped > 0.75*alone {
		t.Errorf("mean completion alone %.1f s, helped %.1f s", alone, helped)
	}
}
