package room

import (
	"math/rand/v2"
	"testing"
)

// slowSlot returns the earliest start of one task width on one type by a search of every
// instant.
func slowSlot(tr Capacity, from, hold, need, horizon int64) int64 {
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
	return Never
}

// A round-by-round plan ends when its rounds end if they are placed one by one, each where it
// ends first. Contiguous and split plans start where a search of every instant finds.
func TestPlacesAgainstInstants(t *testing.T) {
	for seed := uint64(1); seed <= 300; seed++ {
		r := rand.New(rand.NewPCG(seed, 3))
		pools := 1
		tracks := make([]Capacity, 1+r.IntN(3))
		j := &Job{Release: r.Int64N(10), Rounds: 1 + r.Int64N(9), Width: 1 + r.Int64N(3),
			Dur: make([]int64, len(tracks))}
		const horizon = 400
		for k := range tracks {
			j.Dur[k] = 1 + r.Int64N(8)
			for range 1 + r.IntN(3) {
				s := StepFunction{{0, r.Int64N(4)}}
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
		sc := NewPoolFinder(pools)
		var all []int16
		for k := range tracks {
			all = append(all, int16(k))
		}
		want := j.Release
		for range j.Rounds {
			first := Never
			for k := range tracks {
				first = min(first, slowSlot(tracks[k], want, j.Dur[k], j.Width, horizon)+j.Dur[k])
			}
			want = first
		}
		plan := RoundByRoundOver(all...)
		end, ok := sc.Place(j, &plan, tracks)
		if !ok || end != want {
			t.Fatalf("seed %d: chain ends at %d, rounds one by one at %d", seed, end, want)
		}
		until, round := j.Release, int64(0)
		for _, s := range sc.Segments {
			if s.Round+s.Rounds < round || s.Start < until && s.Round != round {
				t.Fatalf("seed %d: segs %+v", seed, sc.Segments)
			}
			if s.End-s.Start != s.Rounds*j.Dur[s.Type] ||
				tracks[s.Type][s.Pool].MinFree(s.Start, s.End) < int64(s.Width) {
				t.Fatalf("seed %d: seg %+v has no room", seed, s)
			}
			until, round = s.Start, s.Round
		}
		if j.Rounds < 2 || len(tracks) < 2 {
			continue
		}
		plan = JobPlan{Kind: Split, N: 2, Types: [MaxTypes]int16{0, 1}, Rounds: 1 + r.Int64N(j.Rounds-1)}
		first := plan.Rounds * j.Dur[0]
		second := (j.Rounds - plan.Rounds) * j.Dur[1]
		want = slowSlot(tracks[0], j.Release, first, j.Width, horizon) + first
		want = slowSlot(tracks[1], want, second, j.Width, horizon) + second
		if end, ok := sc.Place(j, &plan, tracks); !ok || end != want {
			t.Fatalf("seed %d: split ends at %d, want %d", seed, end, want)
		}
	}
}
