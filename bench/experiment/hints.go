package experiment

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/hare-sched/hare"
)

// hintKind is a way in which users tell of their jobs: it draws the hints of a job that
// takes us microseconds on its fastest type, where the shortest job of the instance takes
// least and the longest most.
type hintKind struct {
	name string
	draw func(rng *rand.Rand, us, least, most float64) *hare.JobHints
}

// estimating makes a hintKind of a function that returns an estimate in microseconds.
func estimating(name string, draw func(rng *rand.Rand, us, least, most float64) float64) hintKind {
	return hintKind{name, func(rng *rand.Rand, us, least, most float64) *hare.JobHints {
		return &hare.JobHints{EstimateUs: int64(min(max(1, draw(rng, us, least, most)), hare.MaxExact))}
	}}
}

var hintKinds = []hintKind{
	{"nothing", nil},
	estimating("exact", func(_ *rand.Rand, us, _, _ float64) float64 { return us }),
	estimating("±20 %", func(rng *rand.Rand, us, _, _ float64) float64 { return us * (0.8 + 0.4*rng.Float64()) }),
	estimating("lognormal ×2", func(rng *rand.Rand, us, _, _ float64) float64 {
		return us * math.Exp2(rng.NormFloat64())
	}),
	estimating("limits ×1–10", func(rng *rand.Rand, us, _, _ float64) float64 { return us * (1 + 9*rng.Float64()) }),
	estimating("worthless", func(rng *rand.Rand, _, least, most float64) float64 {
		return least * math.Pow(most/least, rng.Float64())
	}),
	estimating("inverted", func(_ *rand.Rand, us, least, most float64) float64 { return least * most / us }),
	{"class of size", func(_ *rand.Rand, us, _, _ float64) *hare.JobHints {
		return &hare.JobHints{Class: []hare.ClassLabel{{Name: "name", Value: fmt.Sprint("size", bits.Len64(uint64(us))/2)}}}
	}},
	{"class of nothing", func(rng *rand.Rand, _, _, _ float64) *hare.JobHints {
		return &hare.JobHints{Class: []hare.ClassLabel{{Name: "user", Value: fmt.Sprint("user", rng.IntN(20))}}}
	}},
}

// hintedStreams are the instances of streams, with what users say of their jobs.
var hintedStreams = Info{
	Name:  "estimates",
	Title: "What estimates and classes of jobs are worth, good and bad",
	Text: "The instances of online but philly-like, where sizes hardly matter. Users say nothing, or estimate " +
		"for how long each job runs on its fastest type: exactly, within 20 %, with an error whose standard " +
		"deviation is a factor of 2, as limits of 1 to 10 times the size, at random, or the longer the " +
		"shorter the job is. Or jobs have a class: one that tells the size within a factor of 4, or one of " +
		"20 users that tells nothing.",
	Published: "None.",
	schemes:   named("rolling", "hgittins"),
	measures:  []measure{weighted, meanJCT, p99Slowdown},
	cases: func(s set) ([]Case, error) {
		base, err := s.streams()
		if err != nil {
			return nil, err
		}
		var all []Case
		for k := range hintKinds {
			for _, c := range base {
				if c.Group == "philly-like" {
					continue
				}
				c.Variant, c.Hints = hintKinds[k].name, hintKinds[k].hints(c.Inst, c.Seed)
				all = append(all, c)
			}
		}
		return all, nil
	},
}

// hints draws the hints of all jobs of an instance, by ID.
func (hk *hintKind) hints(inst *hare.Instance, seed uint64) map[string]*hare.JobHints {
	if hk.draw == nil {
		return nil
	}
	least, most := math.Inf(1), 0.0
	sizes := make([]float64, len(inst.Jobs))
	for i := range inst.Jobs {
		sizes[i] = fastestUs(&inst.Jobs[i])
		least, most = min(least, sizes[i]), max(most, sizes[i])
	}
	rng := rand.New(rand.NewPCG(seed, 0x68696e7473)) // "hints" in ASCII
	hints := map[string]*hare.JobHints{}
	for i := range inst.Jobs {
		hints[inst.Jobs[i].ID] = hk.draw(rng, sizes[i], least, most)
	}
	return hints
}

// fastestUs is how long a job takes alone on its fastest type.
func fastestUs(j *hare.Job) float64 {
	least := math.Inf(1)
	for _, p := range j.On {
		least = min(least, float64(p.DurationUs()))
	}
	return least * float64(j.Rounds)
}
