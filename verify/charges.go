package verify

import (
	"errors"
	"math/big"
	"slices"

	"github.com/hare-sched/hare"
)

// Charges are what the jobs of an instance pay at the prices of a certificate: exactly the least that a job can cost
// and pay, and by cells what a job pays for a second. At these prices
//
//	value − bound = Σ_j (w'_j (C_j − a_j) + v_j late_j + what j pays − Least_j) + what idle capacity costs + Σ λ slack
//
// where w' are the weights of jobs after weight has been moved along dependencies, and no term is negative.
type Charges struct {
	inst *hare.Instance
	cert *hare.Certificate
	pc   *priceCertificate
	ds   []demand
}

// ErrNoCharges says that the jobs of an instance have no costs of their own: the objective is the makespan, or the
// certificate has no prices.
var ErrNoCharges = errors.New("verify: there are no prices at which single jobs pay")

// NewCharges reads the prices of a certificate for an instance. It computes no φ.
func NewCharges(inst *hare.Instance, c *hare.Certificate) (*Charges, error) {
	if c == nil || !c.HasPrices() || inst.Objective == hare.ObjectiveMakespan {
		return nil, ErrNoCharges
	}
	if err := plausible(inst); err != nil {
		return nil, err
	}
	s := newSupply(inst, c.Pools)
	ch := &Charges{inst: inst, cert: c}
	var err error
	if ch.pc, err = newPriceCertificate(inst, s, c); err != nil {
		return nil, err
	}
	if ch.ds, err = s.demands(inst); err != nil {
		return nil, err
	}
	_, err = moveWeights(inst, ch.ds, c.After)
	return ch, err
}

// Fixed reports whether a job ends with the work that runs at time 0. Such a job pays nothing.
func (ch *Charges) Fixed(job int) bool { return ch.ds[job].fixed }

// WeightMicro returns the weight with which the certificate counts a job, in units of 1e-6.
func (ch *Charges) WeightMicro(job int) int64 { return ch.ds[job].job.WeightMicro }

// FirstRound returns the first round, or unit, that pays: those before are done, or run at time 0.
func (ch *Charges) FirstRound(job int) int64 { return ch.inst.Jobs[job].Rounds - ch.ds[job].job.Rounds }

// Least returns φ − w' a of a job that is not fixed, in weight-seconds: what it costs and pays at least in any
// schedule of the job alone.
func (ch *Charges) Least(job int) (*big.Rat, error) {
	d := &ch.ds[job]
	phi, err := ch.pc.phi(d)
	if err != nil {
		return nil, err
	}
	low := new(big.Rat).SetInt(times(d.job.WeightMicro, 1000, d.arrival))
	low.Sub(phi, low)
	return low.Quo(low, new(big.Rat).SetInt64(unit)), nil
}

// As returns the charges if a job had other types or nodes: as is the job with fewer profiles, or stricter
// selectors. The error says that the job could never run.
func (ch *Charges) As(job int, as hare.Job) (*Charges, error) {
	other := *ch.inst
	other.Jobs = slices.Clone(ch.inst.Jobs)
	other.Jobs[job] = as
	return NewCharges(&other, ch.cert)
}

// Second returns, by cells of the grid, what a round of a job in a shape pays for a second, in units of 1e-9
// weight-seconds, if all of its tasks are on nodes like a node, on GPUs of one type, and a domain of a level holds the
// round; level counts from 0, the nodes themselves. nil means that it pays nothing. A task on this node pays its
// share of this. Second returns false if the job never finds room there.
func (ch *Charges) Second(job, shape int, kind string, level, node int) (nanos []int64, ok bool) {
	d := &ch.ds[job]
	s := shapesOf(&d.job)[shape]
	one := inShape(&d.job, &s, d.job.Rounds)
	su := ch.pc.supply
	at := -1 // the finest mode that holds the round
	cs := su.choices(&one)
	for i, c := range cs {
		if c.kind == kind && (su.rooms == nil || su.rooms.levels == nil || c.level >= level) {
			at = i
			break
		}
	}
	if at < 0 {
		return nil, false
	}
	curve, units := (*priceCurve)(nil), int64(1)
	if su.rooms == nil {
		ch.pc.payByType(&one, cs)
		curve, units = cs[at].curve, cs[at].units
	} else {
		tasks := one.Tasks
		if !ch.pc.gangUnits(&one) {
			units, tasks = tasks, 1
		}
		class := su.rooms.groups[su.rooms.groupOf[node]].class[kind]
		var err error
		if curve, err = ch.pc.second(&one, &cs[at], su.rooms.of(&one, kind), class, tasks); err != nil {
			return nil, false
		}
	}
	if curve == nil {
		return nil, true
	}
	nanos = slices.Clone(curve.prices[:len(ch.cert.GridUs)-1])
	for i := range nanos {
		nanos[i] *= units
	}
	return nanos, true
}
