package room

import (
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
)

// A time grid gives the same answers as a profile.
func TestCellsAreProfiles(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		c := model.Class{GPUs: make([]int32, 1+r.IntN(6))}
		at := r.Int64N(3)
		for range r.IntN(4) {
			w := hare.Window{StartUs: at, EndUs: at + 1 + r.Int64N(200)}
			c.Windows = append(c.Windows, w)
			at = w.EndUs + 1 + r.Int64N(50)
		}
		if len(c.Windows) == 0 || r.IntN(2) == 0 {
			c.Windows = append(c.Windows, hare.Window{StartUs: at, EndUs: hare.Forever})
		}
		p, g := NewProfile(&c), NewGrid(&c, 1<<20)
		type taken struct {
			from, to int64
			n        int32
		}
		var all []taken
		for range 300 {
			if len(all) > 0 && r.IntN(3) == 0 {
				x := r.IntN(len(all))
				p.Add(all[x].from, all[x].to, all[x].n)
				g.Add(all[x].from, all[x].to, all[x].n)
				all[x] = all[len(all)-1]
				all = all[:len(all)-1]
				continue
			}
			from, hold := r.Int64N(700), 1+r.Int64N([]int64{10, 64, 65, 200}[r.IntN(4)])
			limit := Never
			if r.IntN(2) == 0 {
				limit = from + r.Int64N(200)
			}
			s, n := p.Earliest(from, limit, hold, 1)
			if gs, gn := g.Earliest(from, limit, hold); gs != s || gn != n && s != Never {
				t.Fatalf("seed %d: earliest(%d, %d, %d) is %d, %d, want %d, %d", seed, from, limit, hold, gs, gn, s, n)
			}
			by := from + r.Int64N(600)
			ls, ln := p.Latest(from, by, hold, 1)
			if gs, gn := g.Latest(from, by, hold); gs != ls || gn != ln && ls != Never {
				t.Fatalf("seed %d: latest(%d, %d, %d) is %d, %d, want %d, %d", seed, from, by, hold, gs, gn, ls, ln)
			}
			if r.IntN(3) == 0 {
				s, n = ls, ln
			}
			if s != Never {
				x := taken{s, s + hold, 1 + r.Int32N(n)}
				p.Add(x.from, x.to, -x.n)
				g.Add(x.from, x.to, -x.n)
				all = append(all, x)
			}
		}
	}
}
