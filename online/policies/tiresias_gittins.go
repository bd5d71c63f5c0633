package policies

import (
	"encoding/json"
	"slices"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/list"
)

// NewTiresiasGittins is Tiresias' discretised 2D-Gittins index (NSDI 2019): queues
// by attained GPUs × time, as in NewTiresias, and inside a queue the jobs that are
// most likely to end for the service that they will get. It knows how sizes are
// distributed, but not which job has which; in sessions it learns that from the jobs that
// end, each of which took its tasks × the time in which some of them ran.
//
//	G(a) = P(S − a ≤ Δ | S > a) / E[min(S − a, Δ) | S > a]
//
// [V] The index, for attained service a; queues before the index; in the authors'
// simulator (SymbioticLab/Tiresias 959f9b0) Δ is the first queue's threshold
// throughout, and a job that has outlived all sizes has index 0. Its code sums S
// where the paper has S − a; this is the paper's. [I] S is drawn from the jobs of
// the instance themselves, rounds × tasks × the time of a round on the fastest
// type; ties go by arrival. The rest is as in NewTiresias.
func NewTiresiasGittins(cluster *hare.Cluster, sizes SizeDistribution, cfg TiresiasConfig) (*list.Scheduler, error) {
	r, _, err := cfg.byGittins(sizes)
	if err != nil {
		return nil, err
	}
	return list.New(cluster, r), nil
}

// byGittins is the rule for a distribution of sizes, with the index that the rule goes by.
func (tc *TiresiasConfig) byGittins(sizes SizeDistribution) (list.Rule, *gittinsIndex, error) {
	r, err := tc.queues()
	if err != nil {
		return list.Rule{}, nil, err
	}
	index := newGittinsIndex(sizes, float64(tc.ThresholdsUs[0]))
	r.Name = "tiresias_gittins"
	r.Priority = func(_ *list.Scheduler, j *list.JobState) float64 {
		// From 0 to 1, falling with the index, which is in units of 1/Δ.
		return float64(j.Queue) + 1/(1+index.at(float64(j.Width())*float64(j.RunUs())))
	}
	return r, index, nil
}

// parseTiresiasGittins reads {"thresholds_s": [3600], "knob": 8}, for a session.
func parseTiresiasGittins(parameters []byte) (list.Rule, error) {
	cfg, err := parseTiresiasConfig(parameters)
	if err != nil {
		return list.Rule{}, err
	}
	r, index, err := cfg.byGittins(nil)
	if err != nil {
		return list.Rule{}, err
	}
	s := &attainedSizes{index: index}
	r.Prepare, r.Left, r.State, r.Restore = s.prepare, s.left, s.encode, s.decode
	return r, nil
}

// attainedSizes are the sizes of the last jobs that ended, in GPU-microseconds.
type attainedSizes struct {
	ended ring[int64]
	index *gittinsIndex // of these sizes, but for those of dirty
	dirty bool
}

func (as *attainedSizes) left(l *list.Scheduler, j *list.JobState, ended bool) {
	us := j.ExecutedUs()
	if j.Running() > 0 {
		us += l.NowUs() - j.SinceUs()
	}
	if ended && us > 0 {
		as.ended.add(list.SpanUs(j.Width(), us))
		as.dirty = true
	}
}

// prepare makes the index again where a job has ended since.
func (as *attainedSizes) prepare(*list.Scheduler) {
	if !as.dirty {
		return
	}
	as.dirty = false
	var sizes SizeDistribution
	for _, us := range as.ended.all {
		sizes = append(sizes, float64(us))
	}
	slices.Sort(sizes)
	*as.index = *newGittinsIndex(sizes, as.index.quantum)
}

// sizesSnapshot is the state of attainedSizes.
type sizesSnapshot struct {
	EndedUs []int64 `json:"ended_us"`
	Next    int     `json:"next"`
}

func (as *attainedSizes) encode(*list.Scheduler) any {
	return sizesSnapshot{as.ended.all, as.ended.next}
}

func (as *attainedSizes) decode(l *list.Scheduler, state json.RawMessage) bool {
	var s sizesSnapshot
	if list.DecodeState(state, &s) != nil || !as.ended.restore(s.EndedUs, s.Next) {
		return false
	}
	for _, us := range s.EndedUs {
		if us <= 0 || us > hare.MaxExact {
			return false
		}
	}
	as.dirty = true
	as.prepare(l)
	return true
}

// SizeDistribution is the sizes of jobs, ascending, in GPU-microseconds.
type SizeDistribution []float64

// DistributionOf takes the size of a job as rounds × tasks × the time of a round on
// its fastest type.
func DistributionOf(inst *hare.Instance) SizeDistribution {
	var d SizeDistribution
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		least := int64(0)
		for _, p := range j.On {
			if long := p.ComputeUs + p.SyncUs; least == 0 || long < least {
				least = long
			}
		}
		d = append(d, float64(j.Rounds)*float64(j.Tasks*j.TaskGPUs())*float64(least))
	}
	slices.Sort(d)
	return d
}

// gittinsIndex computes the Gittins index of a distribution of sizes.
type gittinsIndex struct {
	sizes   SizeDistribution
	sum     []float64 // of the first i sizes
	quantum float64   // Δ
}

func newGittinsIndex(sizes SizeDistribution, quantum float64) *gittinsIndex {
	g := &gittinsIndex{sizes: sizes, quantum: quantum, sum: make([]float64, len(sizes)+1)}
	for i, v := range sizes {
		g.sum[i+1] = g.sum[i] + v
	}
	return g
}

// at is Δ × the index of attained service a, in O(log jobs).
func (g *gittinsIndex) at(a float64) float64 {
	upTo := func(v float64) int { // how many sizes are at most v
		i, _ := slices.BinarySearchFunc(g.sizes, v, func(s, v float64) int {
			if s <= v {
				return -1
			}
			return 1
		})
		return i
	}
	from, to := upTo(a), upTo(a+g.quantum)
	if from == len(g.sizes) || from == to {
		return 0
	}
	spent := g.sum[to] - g.sum[from] - a*float64(to-from) + g.quantum*float64(len(g.sizes)-to)
	return g.quantum * float64(to-from) / spent
}
