package greedy

import (
	"math/rand/v2"
	"testing"
)

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
		pools := 1
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
			pools = max(pools, len(tracks[k]))
		}
		sc := newPoolFinder(pools)
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
