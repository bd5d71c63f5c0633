package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"slices"

	"github.com/hare-sched/hare"
)

// A certificate may price GPUs on some nodes, CPUs, memory and quotas (docs/inside/bounds.md#pools). This file has
// what a second of a job's round costs then, by the class of nodes on which it runs, and what all of a pool is worth:
// the dearest mixture of units that fits into it, a knapsack where units of several sizes have prices of their own.

// maxSecond limits Θ, the price of a second of a round, in 1e-9 weight-seconds per second. The
// integral of Θ then fits into 128 bits.
const maxSecond = 1 << 62

var errDear = errors.New("a second of some job's round costs more than 2^62 in 1e-9 weight-seconds")

// addPools checks the pools of the certificate and counts the work of their knapsacks. work is
// that of the field sizes.
func (pc *priceCertificate) addPools(inst *hare.Instance, work uint64) error {
	cells := len(pc.cert.GridUs) - 1
	for i := range pc.cert.Pools {
		p := &pc.cert.Pools[i]
		if p.Resource != hare.PoolQuota && pc.supply.capacities[p.Type] == nil {
			return fmt.Errorf("pool %d names the unknown type %.40q", i, p.Type)
		}
		switch p.Resource {
		case hare.PoolQuota:
			if p.Quota < 0 || p.Quota >= len(inst.Quota) {
				return fmt.Errorf("pool %d names quota %d of %d", i, p.Quota, len(inst.Quota))
			}
			if p.Type != "" || p.Per != "" || len(p.Only) > 0 {
				return fmt.Errorf("pool %d is of a quota, so it has no type, domains or selector", i)
			}
			pc.quotaPools = append(pc.quotaPools, int32(i))
		case hare.PoolGPUs:
			if p.Per != hare.PerNode && p.Per != hare.PerAll && !slices.Contains(inst.Cluster.Topology, p.Per) {
				return fmt.Errorf("pool %d is per %.40q", i, p.Per)
			}
		case hare.PoolCPUs, hare.PoolMemory:
			if p.Per != "" || len(p.Only)+len(p.Sizes) > 0 {
				return fmt.Errorf("pool %d is not of GPUs, so it has no domains, selector or sizes", i)
			}
			for n := range inst.Cluster.Nodes {
				node := &inst.Cluster.Nodes[n]
				if inPool(p, node) && amountOn(p, node) == 0 {
					return fmt.Errorf("pool %d prices what node %.40q does not limit", i, node.Name)
				}
			}
		default:
			return fmt.Errorf("pool %d has an unknown resource", i)
		}
		if p.Nanos != nil {
			if err := fitCells(p.Nanos, cells); err != nil {
				return fmt.Errorf("the units of pool %d have %w", i, err)
			}
		}
		for x := range p.Sizes {
			size := &p.Sizes[x]
			if size.GPUs < 1 || size.GPUs > hare.MaxGPUs || x > 0 && p.Sizes[x-1].GPUs >= size.GPUs {
				return fmt.Errorf("pool %d has sizes out of order or range", i)
			}
			if err := fitCells(size.Nanos, cells); err != nil {
				return fmt.Errorf("the units of pool %d have %w", i, err)
			}
		}
		for x := range p.Only {
			if x > 0 && p.Only[x-1].Label >= p.Only[x].Label || !slices.IsSorted(p.Only[x].Values) {
				return fmt.Errorf("pool %d has a selector out of order", i)
			}
		}
	}
	for i := range pc.cert.Pools {
		p := &pc.cert.Pools[i]
		if len(p.Sizes) == 0 {
			continue
		}
		for _, d := range pc.domains(int32(i), p) {
			// Each factor is small enough for the product to fit in any memory.
			hi, lo := bits.Mul64(uint64(cells)*uint64(len(p.Sizes)), uint64(d.free.peak()+1))
			if work += lo; hi > 0 || lo > maxPriceWork || work > maxPriceWork {
				return fmt.Errorf("a grid of %d cells is too fine to check with the sizes of pools", cells)
			}
		}
	}
	return nil
}

// amountOn returns how much of the resource of a pool of CPUs or memory a node has.
func amountOn(p *hare.Pool, n *hare.Node) int64 {
	if p.Resource == hare.PoolCPUs {
		return n.CPUMilli
	}
	return n.MemoryMiB
}

// domain stands for count domains of a pool with the same free GPUs over time.
type domain struct {
	free  *typeCapacity
	count int64
}

// domains returns the domains of pool number i of GPUs or of a quota; equal domains are one.
func (pc *priceCertificate) domains(i int32, p *hare.Pool) []domain {
	if p.Resource != hare.PoolQuota {
		return pc.supply.rooms.domains(i, p)
	}
	quota := &pc.supply.inst.Quota[p.Quota]
	deltas := map[int64]int64{0: quota.GPUs}
	for _, h := range pc.supply.running.gpus {
		if counts(quota, &pc.supply.inst.Jobs[h.job], h.kind) {
			deltas[0]--
			deltas[h.until]++
		}
	}
	left := newTypeCapacity(deltas)
	for x := range left.level {
		left.level[x] = max(0, left.level[x])
	}
	return []domain{{left, 1}}
}

// domains returns the domains of pool number i of GPUs; equal domains are one.
func (r *rooms) domains(i int32, p *hare.Pool) []domain {
	var out []domain
	if p.Per == hare.PerAll {
		deltas := map[int64]int64{0: 0}
		for g := range r.groups {
			group := &r.groups[g]
			if !slices.Contains(group.pools, i) {
				continue
			}
			free, before := group.free[p.Type], int64(0)
			for x, at := range free.at {
				deltas[at] += (free.level[x] - before) * int64(group.count)
				before = free.level[x]
			}
		}
		return append(out, domain{newTypeCapacity(deltas), 1})
	}
	if splits(p) {
		return r.labelDomains(i, p)
	}
	place := map[string]int{}
	for g := range r.groups {
		group := &r.groups[g]
		if !slices.Contains(group.pools, i) {
			continue
		}
		free := group.free[p.Type].changes()
		var key []byte
		for x, at := range free.at {
			key = binary.AppendVarint(binary.AppendVarint(key, at), free.level[x])
		}
		at, ok := place[string(key)]
		if !ok {
			at = len(out)
			place[string(key)] = at
			out = append(out, domain{free: free})
		}
		out[at].count += int64(group.count)
	}
	return out
}

// labelDomains is domains for a pool that a label splits.
func (r *rooms) labelDomains(i int32, p *hare.Pool) []domain {
	at := r.topology.domain[r.topology.levelOf(p.Per)]
	changes := map[int32]map[int64]int64{}
	var order []int32
	for g := range r.groups {
		group := &r.groups[g]
		if !slices.Contains(group.pools, i) {
			continue
		}
		d := at[group.first]
		if changes[d] == nil {
			changes[d] = map[int64]int64{0: 0}
			order = append(order, d)
		}
		free, before := group.free[p.Type], int64(0)
		for x, t := range free.at {
			changes[d][t] += (free.level[x] - before) * int64(group.count)
			before = free.level[x]
		}
	}
	var out []domain
	place := map[string]int{}
	for _, d := range order {
		free := newTypeCapacity(changes[d]).changes()
		var key []byte
		for x, t := range free.at {
			key = binary.AppendVarint(binary.AppendVarint(key, t), free.level[x])
		}
		x, ok := place[string(key)]
		if !ok {
			x = len(out)
			place[string(key)] = x
			out = append(out, domain{free: free})
		}
		out[x].count++
	}
	return out
}

// poolsCost returns what all pools cost: ∫ Σ F.
func (pc *priceCertificate) poolsCost() *big.Int {
	total := new(big.Int)
	for i := range pc.cert.Pools {
		p := &pc.cert.Pools[i]
		switch {
		case p.Resource == hare.PoolCPUs || p.Resource == hare.PoolMemory:
			total.Add(total, pc.amountCost(int32(i), p))
		case len(p.Sizes) > 0:
			total.Add(total, pc.domainsCost(p, pc.domains(int32(i), p)))
		case p.Nanos != nil:
			whole := *p
			whole.Per = hare.PerAll // without sizes, domains do not matter
			total.Add(total, pc.domains(int32(i), &whole)[0].free.cost(pc.cert.GridUs, p.Nanos))
		}
	}
	return total
}

// domainsCost returns ∫ Σ_D F over the grid. Domains with the same number of free GPUs in a
// cell share the table of the cell. It takes O(cells · (GPUs of a domain · sizes + domains)).
func (pc *priceCertificate) domainsCost(p *hare.Pool, domains []domain) *big.Int {
	type held struct {
		level int64
		time  sum128 // over all domains
	}
	cells := make([][]held, len(pc.cert.GridUs)-1)
	k := knapsack{}
	for _, d := range domains {
		k.peak = max(k.peak, d.free.peak())
		d.free.walk(pc.cert.GridUs, func(cell int, level, length int64) {
			at := slices.IndexFunc(cells[cell], func(h held) bool { return h.level == level })
			if at < 0 {
				at = len(cells[cell])
				cells[cell] = append(cells[cell], held{level: level})
			}
			cells[cell][at].time.addProduct(length, d.count)
		})
	}
	total := new(big.Int)
	for g, row := range cells {
		var offers []pricedSize
		if p.Nanos != nil {
			offers = append(offers, pricedSize{1, p.Nanos[g]})
		}
		for _, size := range p.Sizes {
			offers = append(offers, pricedSize{size.GPUs, size.Nanos[g]})
		}
		k.fill(offers)
		for _, h := range row {
			v := k.value(h.level)
			total.Add(total, v.Mul(v, h.time.big()))
		}
	}
	return total
}

// amountCost returns what pool number i of CPUs or memory costs, rounded up.
func (pc *priceCertificate) amountCost(i int32, p *hare.Pool) *big.Int {
	if p.Nanos == nil {
		return new(big.Int)
	}
	r := pc.supply.rooms
	deltas := map[int64]int64{0: 0}
	for g := range r.groups {
		group := &r.groups[g]
		if !slices.Contains(group.pools, i) {
			continue
		}
		node := &r.nodes[group.first]
		windows := node.Windows
		if windows == nil {
			windows = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
		}
		for _, w := range windows {
			deltas[w.StartUs] += amountOn(p, node) * int64(group.count)
			deltas[w.EndUs] -= amountOn(p, node) * int64(group.count)
		}
		for _, h := range group.shares {
			held := h.memory
			if p.Resource == hare.PoolCPUs {
				held = h.cpus
			}
			deltas[0] -= held * int64(group.count)
			deltas[h.until] += held * int64(group.count)
		}
	}
	cost := newTypeCapacity(deltas).cost(pc.cert.GridUs, p.Nanos)
	if p.Resource == hare.PoolCPUs {
		// A price is for a whole CPU.
		cost.Add(cost, big.NewInt(999)).Quo(cost, big.NewInt(1000))
	}
	return cost
}

// offers returns the modes of a job by type and class with what they pay; cs are its types. Nodes of a type in the
// same pools are a class, and Θ is what a second of a round costs with all tasks in the class.
//
// Proof that a schedule costs no less than φ at the prices Θ. A task gives its class 1/K of a second of the job, and a
// whole gang pays alike in each of its classes, as all of them are in the pools where it is a unit. So the schedule
// pays what the mixture of classes pays in the fluid; a rigid job pays the mean over its tasks of ∫Θ, which is no less
// than the least. ∎
func (pc *priceCertificate) offers(job *hare.Job, cs []typeChoice) ([]typeChoice, error) {
	var out []typeChoice
	for _, c := range cs {
		room := pc.supply.rooms.of(job, c.kind)
		for _, class := range room.classes {
			o := c
			// A task that is a unit pays for itself, whatever the number of tasks.
			tasks := job.Tasks
			o.units = 1
			if !pc.gangUnits(job) {
				o.units, tasks = tasks, 1
			}
			var err error
			if o.curve, err = pc.second(job, &c, room, class, tasks); err != nil {
				return nil, err
			}
			if o.curve != nil && o.units > 1 && slices.Max(o.curve.prices) > maxSecond/o.units {
				return nil, errDear
			}
			out = append(out, o)
		}
	}
	return out, nil
}

// gangUnits says that whole gangs of a job are units where a pool allows it.
func (pc *priceCertificate) gangUnits(job *hare.Job) bool {
	return job.Sync != hare.Relaxed && !job.Mix
}

// wholeIn reports whether the whole gangs of a job are its units in a pool: a domain of the pool
// holds a round of the mode, and the pool has all nodes on which the job finds room.
func (pc *priceCertificate) wholeIn(job *hare.Job, pool int32, c *typeChoice, room *typeRoom) bool {
	classes := pc.supply.rooms.classes[c.kind]
	if per := pc.cert.Pools[pool].Per; per != hare.PerAll {
		tp := pc.supply.rooms.levels
		if tp == nil || pc.cert.Pools[pool].Resource != hare.PoolGPUs || c.level > tp.levelOf(per) {
			return false
		}
	}
	return pc.gangUnits(job) &&
		!slices.ContainsFunc(room.classes, func(c int) bool { return !slices.Contains(classes[c].pools, pool) })
}

// second returns the price of a second of a round with so many tasks in a class, which is Θ
// for all tasks; nil if it is free. Equal jobs share it.
func (pc *priceCertificate) second(job *hare.Job, c *typeChoice, room *typeRoom, class int,
	tasks int64) (*priceCurve, error) {
	g := gpusOf(job)
	pools := pc.supply.rooms.classes[c.kind][class].pools
	key := append([]byte(c.kind), 0)
	for _, x := range []int64{int64(class), tasks, g, job.CPUMilliPerTask, job.MemoryMiBPerTask} {
		key = binary.AppendVarint(key, x)
	}
	whole := make([]bool, len(pools))
	for i, p := range pools {
		if whole[i] = pc.wholeIn(job, p, c, room); whole[i] {
			key = append(key, byte('w'))
		} else {
			key = append(key, byte('t'))
		}
	}
	if pc.gangUnits(job) {
		key = append(key, 'g')
	}
	var quotas []int32
	for _, p := range pc.quotaPools {
		if counts(&pc.supply.inst.Quota[pc.cert.Pools[p].Quota], job, c.kind) {
			quotas = append(quotas, p)
			key = binary.AppendVarint(append(key, 'q'), int64(p))
		}
	}
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if s, ok := pc.seconds[string(key)]; ok {
		return s.curve, s.err
	}
	nanos := make([]int64, len(pc.cert.GridUs)-1)
	free, err := true, error(nil)
	add := func(times, by int64, prices []int64) {
		if prices == nil {
			return
		}
		free = false
		for i, x := range prices {
			if v, ok := secondPrice(times, by, x); ok && err == nil && v <= maxSecond-nanos[i] {
				nanos[i] += v
			} else {
				err = errDear
			}
		}
	}
	prices := func(field []hare.PoolSize, single []int64, whole bool) {
		times, size := tasks, g
		if whole {
			times, size = 1, tasks*g
		}
		if at := slices.IndexFunc(field, func(s hare.PoolSize) bool { return s.GPUs == size }); at >= 0 {
			add(times, 1, field[at].Nanos)
		} else {
			add(times, size, single)
		}
	}
	prices(pc.sizesOf(c.kind), pc.pricesOf(c.kind), pc.gangUnits(job))
	for i, x := range pools {
		switch p := &pc.cert.Pools[x]; p.Resource {
		case hare.PoolGPUs:
			prices(p.Sizes, p.Nanos, whole[i])
		case hare.PoolCPUs:
			if job.CPUMilliPerTask > 0 && p.Nanos != nil {
				each := make([]int64, len(p.Nanos))
				for cell, price := range p.Nanos {
					hi, lo := bits.Mul64(uint64(job.CPUMilliPerTask), uint64(price))
					if hi >= 1000 {
						err = errDear
						continue
					}
					v, _ := bits.Div64(hi, lo, 1000)
					if v > maxSecond {
						err = errDear
						continue
					}
					each[cell] = int64(v)
				}
				add(tasks, 1, each)
			}
		case hare.PoolMemory:
			if job.MemoryMiBPerTask > 0 {
				add(tasks, job.MemoryMiBPerTask, p.Nanos)
			}
		}
	}
	for _, x := range quotas {
		prices(pc.cert.Pools[x].Sizes, pc.cert.Pools[x].Nanos, pc.gangUnits(job))
	}
	var curve *priceCurve
	if !free && err == nil {
		curve = newPriceCurve(pc.cert.GridUs, nanos)
	}
	pc.seconds[string(key)] = pricedSecond{curve, err}
	return curve, err
}

// secondPrice returns times · by · price if it is at most maxSecond.
func secondPrice(times, by, price int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(times), uint64(by))
	if hi > 0 {
		return 0, price == 0
	}
	hi, lo = bits.Mul64(lo, uint64(price))
	return int64(lo), hi == 0 && lo <= maxSecond
}

// sizesOf and pricesOf return the prices of a type in the fields sizes and prices.
func (pc *priceCertificate) sizesOf(kind string) []hare.PoolSize {
	var out []hare.PoolSize
	for i := range pc.cert.Sizes {
		if s := &pc.cert.Sizes[i]; s.Type == kind {
			out = append(out, hare.PoolSize{GPUs: s.Tasks, Nanos: s.Nanos})
		}
	}
	return out
}

func (pc *priceCertificate) pricesOf(kind string) []int64 {
	at := slices.IndexFunc(pc.cert.Prices, func(p hare.TypePrices) bool { return p.Type == kind })
	if at < 0 {
		return nil
	}
	return pc.cert.Prices[at].Nanos
}

// pays returns what a job pays by type, or by type and class; types are its types.
func (pc *priceCertificate) pays(job *hare.Job, types []typeChoice) ([]typeChoice, error) {
	if pc.supply.rooms != nil {
		return pc.offers(job, types)
	}
	pc.payByType(job, types)
	return types, nil
}

// payByType sets what a job pays by type, where neither nodes nor pools matter.
func (pc *priceCertificate) payByType(job *hare.Job, cs []typeChoice) {
	for i := range cs {
		c := &cs[i]
		c.units, c.curve = job.Tasks, pc.curves[resource{c.kind, 1}]
		// Relaxed tasks and parts of mixing gangs use single GPUs.
		if own := pc.curves[resource{c.kind, job.Tasks}]; own != nil && job.Sync != hare.Relaxed && !job.Mix {
			c.units, c.curve = 1, own
		}
		if own := pc.own[ownKey{job.ID, c.kind}]; own != nil {
			c.units, c.curve = 1, own
		}
	}
}

// capacity returns the price of all GPUs in service: for each type ∫ M π, or ∫ F if
// several GPUs held together have prices of their own. The cost of the pools is added.
func (pc *priceCertificate) capacity() *big.Int {
	total := new(big.Int)
	for kind, gpus := range pc.supply.capacities {
		total.Add(total, pc.costOf(kind, gpus))
	}
	if len(pc.cert.Pools) > 0 {
		total.Add(total, pc.poolsCost())
	}
	return total
}
