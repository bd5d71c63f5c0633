package pages_test

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/hare-sched/hare/internal/pages"
)

// TestPages compares pages of all sizes with a list that is sorted at once.
func TestPages(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 17))
	for range 60 {
		type job struct {
			key     pages.Key
			unknown bool
		}
		all := make([]job, rng.IntN(4000))
		for i := range all {
			all[i] = job{pages.Key{Value: rng.Int64N(5), Text: string(rune('a' + rng.IntN(3))), Number: i}, rng.IntN(3) == 0}
			if all[i].unknown {
				all[i].key.Class = pages.Unknown
			}
		}
		sort := []string{"weight", "-weight"}[rng.IntN(2)]
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b job) int {
			order := cmp.Or(cmp.Compare(a.key.Value, b.key.Value), cmp.Compare(a.key.Text, b.key.Text))
			switch {
			case a.unknown != b.unknown && a.unknown:
				return 1
			case a.unknown != b.unknown:
				return -1
			case sort == "-weight" && !a.unknown:
				return -order
			}
			return order
		})
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		limit := 20 + rng.IntN(1000)
		var got []job
		for after := ""; ; {
			p, err := pages.New[job](sort, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range all {
				p.Add(j.key, j)
			}
			page, next, err := p.Entries()
			if err != nil || p.Total != len(all) || len(page) > limit || next != "" && len(page) < limit {
				t.Fatal(p.Total, len(page), limit, err)
			}
			if got = append(got, page...); next == "" {
				break
			}
			if after = next; after != "" {
				if _, err := pages.New[job]("name", after, limit); !errors.Is(err, pages.ErrCursor) {
					t.Fatal("the cursor of another list is taken")
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %d entries in pages of %d are not in order", sort, len(all), limit)
		}
	}
}
