package leases

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
)

// HadarConfig holds the choices that the paper of Hadar leaves open. The zero value is the
// default; docs/use/policies.md#hadar-and-hadare says what each choice is worth.
type HadarConfig struct {
	// Utility is what a job is worth at a rate; empty means InverseJCT.
	Utility HadarUtility
	// Eta divides the least price: U_min is the least utility of a GPU over 4 Eta. Zero means 1;
	// at least 0.25.
	Eta float64
	// Beam is the number of partial allocations that the dual subroutine keeps; zero means 4.
	Beam int
	// ByArrival lets jobs choose in the order of arrival instead of by falling utility of a GPU.
	ByArrival bool
	// OneType gives each job GPUs of one type.
	OneType bool
	// OneNode spreads no job over nodes if a node of some type is large enough for the job.
	OneNode bool
	// Exchanges is how many times in a round another job chooses first, in search of a greater sum of utilities;
	// zero means 16, negative none. A strict round has none, unless all of its GPUs would be idle.
	Exchanges int
	// Strict leaves GPUs idle whose price exceeds the utility of all jobs that wait, unless all
	// GPUs would be idle.
	Strict bool
}

// HadarUtility is the worth of a job of weight w that would run at rate r.
type HadarUtility string

// The time left is the steps left over r, and the speed is r over the job's greatest rate. The
// service is in GPU-seconds at the greatest rate.
const (
	InverseJCT       HadarUtility = "inverse_jct"       // w / (time since arrival + time left)
	InverseSlowdown  HadarUtility = "inverse_slowdown"  // w · time of all steps at the greatest rate / the same
	InverseRemaining HadarUtility = "inverse_remaining" // w / time left
	EffectiveSpeed   HadarUtility = "speed"             // w · speed
	LongestFirst     HadarUtility = "longest_first"     // speed · time left at the greatest rate
	LeastAttained    HadarUtility = "least_attained"    // w · speed / (1 h + service so far)
)

// Check says what is wrong with the settings.
func (hc HadarConfig) Check() error {
	switch hc.Utility {
	case "", InverseSlowdown, InverseRemaining, InverseJCT, EffectiveSpeed, LongestFirst, LeastAttained:
	default:
		return fmt.Errorf("hadar: unknown utility %.60q: %s, %s, %s, %s, %s or %s", string(hc.Utility), InverseJCT,
			InverseSlowdown, InverseRemaining, EffectiveSpeed, LongestFirst, LeastAttained)
	}
	if hc.Eta != 0 && !(hc.Eta >= 0.25 && hc.Eta <= 1e9) {
		return fmt.Errorf("hadar: eta %v: must be from 0.25 to 1e9", hc.Eta)
	}
	if hc.Beam < 0 || hc.Beam > maxHadarBeam {
		return fmt.Errorf("hadar: beam %d: must be from 1 to %d", hc.Beam, maxHadarBeam)
	}
	return nil
}

const maxHadarBeam = 10_000

// hadar decides each round which jobs run where, by prices of GPUs that rise as a node fills.
// A GPU of type k on a node of c GPUs, γ of which are given in this round, costs
//
//	U_min (U_max/U_min)^(γ/c)
//
// where U_max is the greatest utility of a GPU of the type to a job in the system, and U_min the
// least over 4 Eta. Job after job, the dual subroutine looks for the allocation of greatest
// payoff, which is the utility of the job less the price of its GPUs, and either takes it, if
// the payoff is above zero, or skips the job. The subroutine keeps the Beam best partial
// allocations, of those with equal use of the nodes one (this is the memo), and ends with the
// greatest sum of payoffs. Then jobs without GPUs take those left, in the same order: each takes the
// GPUs of its greatest utility, of these the cheapest. At last, up to Exchanges times, another job chooses
// first, before the jobs that have GPUs, at these prices or at prices that only decide between equal
// utilities; what has the greater sum of utilities stays. Strict leaves these two steps out where some job has
// GPUs already. A job keeps its GPUs where the allocation allows.
//
// Source: Hadar (IPDPS 2024; arXiv 2503.10918), of which only abstract and introduction were at
// hand: the framing is the paper's, the subroutine is from secondary sources, and the choices
// of HadarConfig are ours. The paper's cost of communication is here the lower rate of a job
// on several nodes (sim.Job.SpreadRate), and so a lower utility.
//
// Hold is O(jobs · (log jobs + (Beam + Exchanges) · types · cells)) where cells is the number of different
// fillings of nodes, at most types · GPUs of a node, and O(nodes) more per chosen job.
type hadar struct {
	cfg     HadarConfig
	now     float64
	nodes   []hadarNode
	classes []hadarClass
	queue   []hadarJob
	cells   []hadarCell
}

var _ MixedHoldPolicy = (*hadar)(nil)

func newHadar(cfg HadarConfig) *hadar {
	if cfg.Utility == "" {
		cfg.Utility = InverseJCT
	}
	if cfg.Eta == 0 {
		cfg.Eta = 1
	}
	if cfg.Beam == 0 {
		cfg.Beam = 4
	}
	if cfg.Exchanges == 0 {
		cfg.Exchanges = 16
	}
	return &hadar{cfg: cfg}
}

// MixesTypes is for leases.MixedHoldPolicy.
func (*hadar) MixesTypes() {}

// hadarNode is a node with its GPUs in service.
type hadarNode struct {
	class int
	gpus  []int32
}

// hadarClass is the nodes of a type with equally many GPUs in service. These nodes differ only
// in how many GPUs are given.
type hadarClass struct {
	kind, size int
	nodes      []int     // indices into hadar.nodes
	price      []float64 // of a GPU, by the number given
}

// hadarJob is a job in the order of choice.
type hadarJob struct {
	at      int // index into State.Jobs
	view    *View
	density float64 // greatest utility of a GPU
	byRate  []int   // types with a rate, by falling rate
}

// hadarTake is units GPUs of a node of a class on which given GPUs were given before.
type hadarTake struct{ class, given, units int }

// Hold is leases.HoldPolicy.
func (ha *hadar) Hold(ctx context.Context, s *State, previous []Hold) ([]Hold, error) {
	if err := ha.cfg.Check(); err != nil {
		return nil, err
	}
	if len(s.Jobs) == 0 {
		return nil, nil
	}
	ha.readNodes(s)
	ha.readJobs(s)
	chosen, err := ha.choose(ctx)
	if err != nil {
		return nil, err
	}
	return ha.place(chosen, previous), nil
}

// readNodes sorts the nodes with GPUs in service into classes.
func (ha *hadar) readNodes(s *State) {
	ha.nodes, ha.classes = ha.nodes[:0], ha.classes[:0]
	cluster := Cluster{Types: s.Types, GPUs: s.GPUs, NodeSize: s.NodeSize}
	first, out := int32(0), s.Out
	for k, gpus := range s.GPUs {
		size := cluster.GPUsPerNode(k)
		for from := 0; from < gpus; from += size {
			var node hadarNode
			for g := first + int32(from); g < first+int32(min(from+size, gpus)); g++ {
				if len(out) > 0 && out[0] == g {
					out = out[1:]
					continue
				}
				node.gpus = append(node.gpus, g)
			}
			if len(node.gpus) == 0 {
				continue
			}
			node.class = slices.IndexFunc(ha.classes, func(c hadarClass) bool {
				return c.kind == k && c.size == len(node.gpus)
			})
			if node.class < 0 {
				node.class = len(ha.classes)
				ha.classes = append(ha.classes, hadarClass{kind: k, size: len(node.gpus)})
			}
			c := &ha.classes[node.class]
			c.nodes = append(c.nodes, len(ha.nodes))
			ha.nodes = append(ha.nodes, node)
		}
		first += int32(gpus)
	}
}

// readJobs computes utilities and prices, and sorts the jobs in the order of choice.
func (ha *hadar) readJobs(s *State) {
	most, least := make([]float64, len(s.Types)), make([]float64, len(s.Types))
	ha.queue, ha.now = ha.queue[:0], s.NowS
	for i := range s.Jobs {
		j := hadarJob{at: i, view: &s.Jobs[i]}
		for k, r := range j.view.Rate {
			if r <= 0 {
				continue
			}
			j.byRate = append(j.byRate, k)
			u := ha.utility(j.view, r) / float64(j.view.GPUs)
			j.density = max(j.density, u)
			most[k] = max(most[k], u)
			if r := j.view.SpreadRate; r != nil && r[k] > 0 {
				u = min(u, ha.utility(j.view, r[k])/float64(j.view.GPUs))
			}
			if least[k] == 0 || u < least[k] {
				least[k] = u
			}
		}
		slices.SortStableFunc(j.byRate, func(a, b int) int { return cmp.Compare(j.view.Rate[b], j.view.Rate[a]) })
		ha.queue = append(ha.queue, j)
	}
	if !ha.cfg.ByArrival {
		slices.SortStableFunc(ha.queue, func(a, b hadarJob) int { return cmp.Compare(b.density, a.density) })
	}
	for i := range ha.classes {
		c := &ha.classes[i]
		c.price = make([]float64, c.size+1)
		if least[c.kind] == 0 {
			continue
		}
		low := least[c.kind] / (4 * ha.cfg.Eta)
		for given := range c.price {
			c.price[given] = low * math.Pow(most[c.kind]/low, float64(given)/float64(c.size))
		}
	}
}

// utility is the worth of a job at a rate above 0.
func (ha *hadar) utility(j *View, rate float64) float64 {
	left, fastest := float64(j.StepsLeft)/rate, slices.Max(j.Rate)
	switch ha.cfg.Utility {
	case InverseRemaining:
		return j.Weight / left
	case EffectiveSpeed:
		return j.Weight * rate / fastest
	case LongestFirst:
		return rate / fastest * float64(j.StepsLeft) / fastest
	case InverseSlowdown:
		return j.Weight * float64(j.Steps) / fastest / (ha.now - j.ArrivalS + left)
	case LeastAttained:
		servedS := float64(j.Steps-j.StepsLeft) / fastest * float64(j.GPUs)
		return j.Weight * rate / fastest / (3600 + servedS)
	}
	return j.Weight / (ha.now - j.ArrivalS + left)
}
