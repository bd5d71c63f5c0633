package greedy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare"
)

// checkGangs returns the first fault of a plan. It expands every round of every gang and rigid
// job and, for each class, checks every instant at which work starts.
func checkGangs(m *hare.Model, p *Plan) error {
	type held struct{ from, to, width int64 }
	byClass := make([][]held, len(m.Classes))
	for i := range m.Jobs {
		j := &m.Jobs[i]
		id := m.Instance.Jobs[i].ID
		if j.Sync == hare.Relaxed {
			for _, b := range p.Jobs[i] {
				byClass[b.Class] = append(byClass[b.Class], held{b.StartUs, b.endUs(), int64(b.Width)})
			}
			continue
		}
		dur := map[int]int64{}
		for _, md := range j.Modes {
			dur[md.Type] = md.DurationUs()
		}
		type round struct{ tasks, start, end int64 }
		rounds := make([]round, j.Rounds)
		for _, b := range p.Jobs[i] {
			k := m.Classes[b.Class].Type
			if d := dur[k]; d == 0 || b.PeriodUs < b.HoldUs || !j.Mix && b.HoldUs != d || b.HoldUs < d ||
				b.Tasks != 1 ||
				b.Width < 1 {
				return fmt.Errorf("%s: block %+v", id, b)
			}
			if j.Sync == hare.Rigid && (b.Round != 0 || b.Rounds != j.Rounds || b.PeriodUs != b.HoldUs ||
				k != m.Classes[p.Jobs[i][0].Class].Type) {
				return fmt.Errorf("%s: not rigid: %+v", id, b)
			}
			byClass[b.Class] = append(byClass[b.Class], held{b.StartUs, b.endUs(), int64(b.Width)})
			for r := range b.Rounds {
				x := &rounds[b.Round+r]
				start := b.StartUs + r*b.PeriodUs
				if x.tasks > 0 && x.start != start {
					return fmt.Errorf("%s: round %d starts at %d and %d", id, b.Round+r, x.start, start)
				}
				x.tasks += int64(b.Width)
				x.start, x.end = start, start+b.HoldUs
			}
		}
		ready := j.ReleaseUs
		for r, x := range rounds {
			if x.tasks != j.Tasks || x.start < ready {
				return fmt.Errorf("%s: round %d is %+v, ready at %d", id, r, x, ready)
			}
			ready = x.end
		}
		if p.EndUs[i] != ready {
			return fmt.Errorf("%s: ends at %d, said %d", id, ready, p.EndUs[i])
		}
	}
	for c, all := range byClass {
		for _, h := range all {
			fits := false
			for _, w := range m.Classes[c].Windows {
				fits = fits || w.StartUs <= h.from && h.to <= w.EndUs
			}
			used := int64(0)
			for _, o := range all {
				if o.from <= h.from && h.from < o.to {
					used += o.width
				}
			}
			if !fits || used > int64(len(m.Classes[c].GPUs)) {
				return fmt.Errorf("class %d at %d: %d of %d GPUs, in a window: %v", c, h.from, used,
					len(m.Classes[c].GPUs), fits)
			}
		}
	}
	return nil
}

// slowSlot returns the earliest start of one task width on one type by a search of every
// instant.
func slowSlot(tr typeCapacity, from, hold, need, horizon int64) int64 {
	for t := from; t < horizon; t++ {
		free := int64(0)
		for _, s := range tr {
			least := int64(1 << 40)
			for u := t; u < t+hold; u++ {
				x := int64(0)
				for _, st := range s {
					if st.from <= u {
						x = st.free
					}
				}
				least = min(least, x)
			}
			free += least
		}
		if free >= need {
			return t
		}
	}
	return never
}

// A round-by-round plan ends when its rounds end if they are placed one by one, each where it
// ends first. Contiguous and split plans start where a search of every instant finds.
func TestPlacesAgainstInstants(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		p := &annealProblem{}
		tracks := make([]typeCapacity, 1+r.IntN(3))
		j := &annealJob{release: r.Int64N(10), rounds: 1 + r.Int64N(9), width: 1 + r.Int64N(3),
			dur: make([]int64, len(tracks))}
		const horizon = 400
		for k := range tracks {
			j.dur[k] = 1 + r.Int64N(8)
			for range 1 + r.IntN(3) {
				s := stepFunction{{0, r.Int64N(4)}}
				for at := int64(0); at < 150; {
					at += 1 + r.Int64N(15)
					s = append(s, step{at, (s[len(s)-1].free + 1 + r.Int64N(3)) % 4})
				}
				s = append(s, step{200, 4})
				if s[len(s)-2].free == 4 {
					s = s[:len(s)-1]
				}
				tracks[k] = append(tracks[k], s)
			}
			p.pools = append(p.pools, make([]pool, len(tracks[k])))
		}
		sc := p.newFinder()
		var all []int16
		for k := range tracks {
			all = append(all, int16(k))
		}
		want := j.release
		for range j.rounds {
			first := never
			for k := range tracks {
				first = min(first, slowSlot(tracks[k], want, j.dur[k], j.width, horizon)+j.dur[k])
			}
			want = first
		}
		plan := roundByRoundOver(all...)
		end, ok := sc.place(j, &plan, tracks)
		if !ok || end != want {
			t.Fatalf("seed %d: chain ends at %d, rounds one by one at %d", seed, end, want)
		}
		until, round := j.release, int64(0)
		for _, s := range sc.segments {
			if s.round+s.rounds < round || s.start < until && s.round != round {
				t.Fatalf("seed %d: segs %+v", seed, sc.segments)
			}
			if s.end-s.start != s.rounds*j.dur[s.typ] ||
				tracks[s.typ][s.pool].minFree(s.start, s.end) < int64(s.width) {
				t.Fatalf("seed %d: seg %+v has no room", seed, s)
			}
			until, round = s.start, s.round
		}
		if j.rounds < 2 || len(tracks) < 2 {
			continue
		}
		plan = jobPlan{kind: split, n: 2, types: [maxSet]int16{0, 1}, rounds: 1 + r.Int64N(j.rounds-1)}
		first := plan.rounds * j.dur[0]
		second := (j.rounds - plan.rounds) * j.dur[1]
		want = slowSlot(tracks[0], j.release, first, j.width, horizon) + first
		want = slowSlot(tracks[1], want, second, j.width, horizon) + second
		if end, ok := sc.place(j, &plan, tracks); !ok || end != want {
			t.Fatalf("seed %d: split ends at %d, want %d", seed, end, want)
		}
	}
}
