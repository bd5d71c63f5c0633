package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"sync"

	"github.com/hare-sched/hare"
)

// Prices evaluates the prices of one certificate on many instances. Prices that were found
// for one instance prove a bound for every other instance, too. Prices keeps the φ of jobs,
// and computes the φ of a job again only if the job or the types that serve it differ.
// Prices is safe for concurrent use, and results do not depend on earlier calls.
type Prices struct {
	cert *hare.Certificate
	mu   sync.Mutex
	phis map[string]*big.Rat // the φ that are kept, by phiKey
}

// maxPhis limits the number of φ that are kept. When the limit is reached, all are dropped.
const maxPhis = 1 << 18

// NewPrices takes a certificate of method price. NewPrices does not modify the
// certificate, and the caller must not do so later.
func NewPrices(c *hare.Certificate) (*Prices, error) {
	if c == nil || !c.HasPrices() {
		return nil, errors.New("verify: these are no prices")
	}
	return &Prices{cert: c, phis: map[string]*big.Rat{}}, nil
}

// Bound returns the bound that the prices prove for inst. The function Bound returns the
// same for a certificate with these prices. Prices of types that inst lacks are left out,
// and types of inst without prices are free. The price of capacity is always computed again.
// The φ of a job is computed unless the φ of an equal job on the same types is kept. The
// number of GPUs of a type matters only up to the number of the job's tasks (docs/inside/design.md,
// section 2.2).
func (pr *Prices) Bound(inst *hare.Instance) (*big.Rat, error) {
	return pr.scaled(inst, pr.cert, false)
}

// Scaled is Bound with each price multiplied by factorMicro/1e6 and rounded down. If all
// weights have changed by a factor, the best prices have changed by the same factor.
func (pr *Prices) Scaled(inst *hare.Instance, factorMicro int64) (*big.Rat, error) {
	c := *pr.cert
	var ok bool
	c.Prices = slices.Clone(c.Prices)
	for i := range c.Prices {
		if c.Prices[i].Nanos, ok = scaledBy(c.Prices[i].Nanos, factorMicro); !ok {
			return nil, errors.New("verify: prices become too large")
		}
	}
	c.Sizes = slices.Clone(c.Sizes)
	for i := range c.Sizes {
		if c.Sizes[i].Nanos, ok = scaledBy(c.Sizes[i].Nanos, factorMicro); !ok {
			return nil, errors.New("verify: prices become too large")
		}
	}
	c.Pools = slices.Clone(c.Pools)
	for i := range c.Pools {
		p := &c.Pools[i]
		if p.Nanos, ok = scaledBy(p.Nanos, factorMicro); !ok {
			return nil, errors.New("verify: prices become too large")
		}
		p.Sizes = slices.Clone(p.Sizes)
		for x := range p.Sizes {
			if p.Sizes[x].Nanos, ok = scaledBy(p.Sizes[x].Nanos, factorMicro); !ok {
				return nil, errors.New("verify: prices become too large")
			}
		}
	}
	c.After = slices.Clone(c.After)
	for i := range c.After {
		micro, ok := scaledBy([]int64{c.After[i].Micro}, factorMicro)
		if !ok {
			return nil, errors.New("verify: moved weights become too large")
		}
		c.After[i].Micro = micro[0]
	}
	return pr.scaled(inst, &c, true)
}

func scaledBy(nanos []int64, factorMicro int64) ([]int64, bool) {
	if nanos == nil {
		return nil, true
	}
	out := make([]int64, len(nanos))
	x, million := new(big.Int), big.NewInt(1e6)
	for i, n := range nanos {
		x.Mul(big.NewInt(n), big.NewInt(factorMicro)).Quo(x, million)
		if !x.IsInt64() || x.Int64() > hare.MaxExact {
			return nil, false
		}
		out[i] = x.Int64()
	}
	return out, true
}

func (pr *Prices) scaled(inst *hare.Instance, cert *hare.Certificate, fresh bool) (*big.Rat, error) {
	if err := plausible(inst); err != nil {
		return nil, err
	}
	c := *cert
	var origin []int32
	c.Pools, origin = poolsOf(inst, cert.Pools)
	s := newSupply(inst, c.Pools)
	c.Prices = slices.DeleteFunc(slices.Clone(c.Prices),
		func(t hare.TypePrices) bool { return s.capacities[t.Type] == nil })
	c.Sizes = slices.DeleteFunc(slices.Clone(c.Sizes),
		func(t hare.SizePrices) bool { return s.capacities[t.Type] == nil })
	c.After = afterOf(inst, cert.After)
	if inst.Objective == hare.ObjectiveMakespan {
		p, err := makespanBound(context.Background(), inst, s, &c)
		if err != nil {
			return nil, err
		}
		return p.low, nil
	}
	m, err := newPriceCertificate(inst, s, &c)
	if err != nil {
		return nil, err
	}
	ds, err := s.demands(inst)
	if err != nil {
		return nil, err
	}
	moved, err := moveWeights(inst, ds, c.After)
	if err != nil {
		return nil, err
	}
	phis := make([]*big.Rat, len(inst.Jobs))
	keys := make([]string, len(inst.Jobs))
	var missing []int
	pr.mu.Lock()
	for i := range inst.Jobs {
		if ds[i].fixed {
			phis[i] = new(big.Rat)
			continue
		}
		if keys[i] = phiKey(&ds[i], m, origin); !fresh {
			phis[i] = pr.phis[keys[i]]
		}
		if phis[i] == nil {
			missing = append(missing, i)
		}
	}
	pr.mu.Unlock()
	needed := make([]demand, len(missing))
	for x, i := range missing {
		needed[x] = ds[i]
	}
	found, err := eachDemand(context.Background(), needed, m.phi)
	if err != nil {
		return nil, err
	}
	if m.spent.Load() > maxPriceWork {
		return nil, errSteps
	}
	for x, i := range missing {
		phis[i] = found[x]
	}
	if !fresh {
		pr.mu.Lock()
		if len(pr.phis)+len(missing) > maxPhis {
			clear(pr.phis)
		}
		for _, i := range missing {
			pr.phis[keys[i]] = phis[i]
		}
		pr.mu.Unlock()
	}
	return m.total(ds, phis, moved).low, nil
}

// afterOf returns the weights that can be moved in inst: those of jobs that still wait for the
// other job there. It returns none if some job would be left with less than no weight.
func afterOf(inst *hare.Instance, after []hare.AfterWeight) []hare.AfterWeight {
	if len(after) == 0 || inst.Objective == hare.ObjectiveMakespan {
		return nil
	}
	index := indexOf(inst)
	var out []hare.AfterWeight
	left := map[string]*big.Int{}
	add := func(id string, micro int64) {
		if left[id] == nil {
			left[id] = big.NewInt(inst.Jobs[index[id]].WeightMicro)
		}
		left[id].Add(left[id], big.NewInt(micro))
	}
	for _, a := range after {
		i, ok := index[a.Job]
		if !ok {
			continue
		}
		if _, waits := lagOf(&inst.Jobs[i], a.Before); waits {
			out = append(out, a)
			add(a.Job, -a.Micro)
			add(a.Before, a.Micro)
		}
	}
	for _, x := range left {
		if x.Sign() < 0 || x.Cmp(big.NewInt(hare.MaxExact)) > 0 {
			return nil
		}
	}
	return out
}

// poolsOf returns the pools that inst can have, and their numbers in pools: those whose type
// is in the cluster and whose domains are, and those of CPUs and memory only if each of their nodes limits them.
func poolsOf(inst *hare.Instance, pools []hare.Pool) (can []hare.Pool, origin []int32) {
	for i := range pools {
		p := &pools[i]
		if p.Resource == hare.PoolQuota {
			if p.Quota < len(inst.Quota) {
				can, origin = append(can, *p), append(origin, int32(i))
			}
			continue
		}
		known := slices.ContainsFunc(inst.Cluster.Nodes, func(n hare.Node) bool {
			return slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return g.Type == p.Type })
		})
		unlimited := p.Resource != hare.PoolGPUs && slices.ContainsFunc(inst.Cluster.Nodes,
			func(n hare.Node) bool { return inPool(p, &n) && amountOn(p, &n) == 0 })
		foreign := splits(p) && !slices.Contains(inst.Cluster.Topology, p.Per)
		if known && !unlimited && !foreign {
			can, origin = append(can, *p), append(origin, int32(i))
		}
	}
	return can, origin
}

// phiKey returns a key with all that the φ of a job at given prices depends on: the fields
// of the job without its ID, a' and P and, for each type that is ever in service, the number of GPUs.
// A job can use no more GPUs of a type than it has tasks, because as many suffice for a whole
// round, so larger numbers of GPUs give the same key. Where nodes or pools matter, the key has
// the tasks that find room in place of GPUs, and the pools of each class. origin gives the
// numbers of pools by which the key names them.
func phiKey(d *demand, pc *priceCertificate, origin []int32) string {
	j, s := &d.job, pc.supply
	if j.Shapes != nil {
		return shapedKey(d, pc, origin)
	}
	b := make([]byte, 0, 64+32*len(j.On))
	if s.rooms != nil {
		b = binary.AppendVarint(append(b, 'n'), gpusOf(j))
		b = binary.AppendVarint(b, j.CPUMilliPerTask)
		b = binary.AppendVarint(b, j.MemoryMiBPerTask)
		for _, c := range s.choices(j) {
			b = append(binary.AppendVarint(b, int64(len(c.kind))), c.kind...)
			b = binary.AppendVarint(b, min(c.count, j.Tasks))
			if s.rooms.levels != nil {
				b = binary.AppendVarint(b, c.s)
			}
			for _, p := range pc.quotaPools {
				if counts(&s.inst.Quota[pc.cert.Pools[p].Quota], j, c.kind) {
					b = binary.AppendVarint(append(b, 'q'), int64(origin[p]))
				}
			}
			b = append(b, 'c')
			room := s.rooms.of(j, c.kind)
			b = binary.AppendVarint(b, int64(len(room.classes)))
			for _, class := range room.classes {
				pools := s.rooms.classes[c.kind][class].pools
				b = binary.AppendVarint(b, int64(len(pools)))
				for _, p := range pools {
					b = binary.AppendVarint(b, int64(origin[p]))
					if s.rooms.levels != nil && pc.wholeIn(j, p, &c, room) {
						b = append(b, 'w')
					}
				}
			}
		}
	}
	for _, x := range []int64{j.WeightMicro, j.ReleaseUs, j.Rounds, j.Tasks, int64(j.Sync), d.earliest, j.DeadlineUs,
		j.LateWeightMicro} {
		b = binary.AppendVarint(b, x)
	}
	if j.Mix {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	for _, p := range j.On {
		n := s.capacities[p.Type].peak()
		if n == 0 {
			continue
		}
		for _, x := range []int64{int64(len(p.Type)), p.ComputeUs, p.SyncUs, min(n, j.Tasks)} {
			b = binary.AppendVarint(b, x)
		}
		b = append(b, p.Type...)
	}
	return string(b)
}

// shapedKey is phiKey for a job with a list of shapes.
func shapedKey(d *demand, pc *priceCertificate, origin []int32) string {
	shapes, _ := pc.supply.inShapes(&d.job)
	b := binary.AppendVarint([]byte("shapes"), d.job.Rounds)
	if d.job.Reshape {
		b = append(b, 'r')
	}
	for i := range shapes {
		key := phiKey(&demand{job: shapes[i].job, earliest: d.earliest}, pc, origin)
		b = binary.AppendVarint(b, shapes[i].counts)
		b = append(binary.AppendVarint(b, int64(len(key))), key...)
	}
	return string(b)
}

// TypeTotal is what one more GPU of a type would add to the price of capacity.
type TypeTotal struct {
	Type string
	// Total is in weight-seconds. It is Σ π·length or, if numbers of GPUs that are held
	// together have prices of their own, the increase of the price of the dearest patterns.
	Total *big.Rat
}

// OneMore returns by how much the bound at the prices of c falls with one more GPU of a type,
// which is always in service, if each φ stays the same. The result has an entry for each
// type of the cluster, sorted by type.
func OneMore(inst *hare.Instance, c *hare.Certificate) ([]TypeTotal, error) {
	if c == nil || !c.HasPrices() || c.Objective == hare.ObjectiveMakespan {
		return nil, errors.New("verify: these are no prices of a weighted sum")
	}
	if err := plausible(inst); err != nil {
		return nil, err
	}
	// The new GPU has its own node, so the pools of CPUs and memory cost the same.
	gpus := *c
	gpus.Pools = slices.DeleteFunc(slices.Clone(c.Pools), func(p hare.Pool) bool { return p.Resource != hare.PoolGPUs })
	capacity := func(inst *hare.Instance) (*big.Int, error) {
		m, err := newPriceCertificate(inst, newSupply(inst, gpus.Pools), &gpus)
		if err != nil {
			return nil, err
		}
		return m.capacity(), nil
	}
	before, err := capacity(inst)
	if err != nil {
		return nil, err
	}
	var out []TypeTotal
	for kind := range capacitiesOf(inst.Cluster.Nodes) {
		after, err := capacity(WithOneMore(inst, kind))
		if err != nil {
			return nil, err
		}
		out = append(out, TypeTotal{kind, new(big.Rat).SetFrac(after.Sub(after, before), big.NewInt(1e15))})
	}
	slices.SortFunc(out, func(a, b TypeTotal) int { return strings.Compare(a.Type, b.Type) })
	return out, nil
}

// WithOneMore returns inst with one more GPU of a type on a node of its own, always in
// service. Unchanged parts are shared with inst.
func WithOneMore(inst *hare.Instance, kind string) *hare.Instance {
	more := *inst
	name := ""
	for n := 0; name == "" || slices.ContainsFunc(inst.Cluster.Nodes,
		func(x hare.Node) bool { return x.Name == name }); n++ {
		name = fmt.Sprintf("more-%d", n)
	}
	node := hare.Node{Name: name, GPUs: []hare.TypeCount{{Type: kind, Count: 1}}}
	for _, label := range slices.Sorted(slices.Values(inst.Cluster.Topology)) {
		node.Labels = append(node.Labels, hare.Label{Name: label})
	}
	more.Cluster.Nodes = append(slices.Clone(inst.Cluster.Nodes), node)
	return &more
}
