package verify_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// large returns an instance of the given size with prices that fall over 60 cells, as
// optimised prices do.
func large(jobs int, sync hare.Sync) (*hare.Instance, *hare.Certificate) {
	rng := rand.New(rand.NewPCG(7, uint64(jobs)))
	types := []string{"K80", "M60", "P100", "V100"}
	speed := []float64{6, 4, 2, 1}
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for k, kind := range types {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			haretest.Node(kind, kind, max(16, jobs/5*(k+1)/2)))
	}
	for i := range jobs {
		j := hare.Job{ID: fmt.Sprint("j", i), WeightMicro: 50000 + rng.Int64N(1000000), Rounds: 5 + rng.Int64N(60),
			Tasks: []int64{1, 2, 4, 4, 8, 8, 16}[rng.IntN(7)], Sync: sync}
		base := 5e6 * math.Exp(0.3*rng.NormFloat64())
		for k, kind := range types {
			j.On = append(j.On, hare.Profile{Type: kind,
				ComputeUs: int64(base*speed[k]*(0.8+0.4*rng.Float64()))/1e6*1e6 + 1e6,
				SyncUs:    int64(base * 0.2 * (0.5 + rng.Float64()))})
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	cert := &hare.Certificate{Method: hare.MethodPrice, Path: true, Objective: hare.ObjectiveWeightedJCT,
		Bound: "0.000000", GridUs: []int64{0}}
	for range 60 {
		last := cert.GridUs[len(cert.GridUs)-1]
		cert.GridUs = append(cert.GridUs, last+18e6+last/30)
	}
	for k, kind := range types {
		p := hare.TypePrices{Type: kind}
		for g := range 60 {
			p.Nanos = append(p.Nanos, int64(3e7/speed[k]*math.Exp(-float64(g)/18)))
		}
		cert.Prices = append(cert.Prices, p)
	}
	return inst, cert
}

// stepped returns a certificate on cells of equal whole seconds, with steps of 1 s.
func stepped(c *hare.Certificate, cells int64) *hare.Certificate {
	out := &hare.Certificate{Method: c.Method, Path: c.Path, Objective: c.Objective, StepUs: 1e6}
	length := c.GridUs[len(c.GridUs)-1] / cells / out.StepUs * out.StepUs
	for g := range cells + 1 {
		out.GridUs = append(out.GridUs, g*length)
	}
	for _, p := range c.Prices {
		q := hare.TypePrices{Type: p.Type}
		at := 0
		for _, t := range out.GridUs[:cells] {
			for c.GridUs[at+1] <= t {
				at++
			}
			q.Nanos = append(q.Nanos, p.Nanos[at])
		}
		out.Prices = append(out.Prices, q)
	}
	return out
}

func BenchmarkBound(b *testing.B) {
	frozen := instance(b, "instances/standard-200.json.gz")
	cert, err := wire.DecodeCertificate(open(b, "instances/standard-200.prices.json"), wire.Limits{})
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, inst *hare.Instance, cert *hare.Certificate) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := verify.Bound(inst, cert); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("standard-200", frozen, cert)
	run("standard-200-steps", frozen, stepped(cert, 96))
	for _, sync := range []hare.Sync{hare.Relaxed, hare.Gang, hare.Rigid} {
		inst, cert := large(20000, sync)
		run("20000-"+sync.String(), inst, cert)
		if sync == hare.Relaxed {
			run("20000-machine", inst, &hare.Certificate{Method: hare.MethodMachine,
				Objective: hare.ObjectiveWeightedJCT})
			run("20000-critical", inst, &hare.Certificate{Method: hare.MethodCriticalPath,
				Objective: hare.ObjectiveWeightedJCT})
		}
	}
}

// fourMillion returns a relaxed schedule of about 4 million tasks, one entry each, on
// 16,000 GPUs: every job runs on a block of 8 GPUs of one type.
func fourMillion() (*hare.Instance, *hare.Result) {
	inst, cert := large(20000, hare.Relaxed)
	inst.Cluster.Nodes = nil
	types := []string{"K80", "M60", "P100", "V100"}
	for _, kind := range types {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			haretest.Node(kind, kind, 4000))
	}
	s := &hare.Schedule{Lanes: make([]hare.Lane, 16000)}
	free := make([]int64, 16000)
	for g := range s.Lanes {
		s.Lanes[g].GPU = fmt.Sprintf("%s/%d", types[g/4000], g%4000)
	}
	var value hare.Amount
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		s.Jobs = append(s.Jobs, j.ID)
		block := i % 2000 * 8
		p := j.On[block/4000]
		var now int64
		for g := block; g < block+8; g++ {
			now = max(now, free[g])
		}
		for r := range j.Rounds {
			most := int64(0)
			for x := range j.Tasks {
				l := &s.Lanes[block+int(x%8)]
				start := now + x/8*p.ComputeUs
				l.Job = append(l.Job, int32(i))
				l.Round = append(l.Round, r)
				l.Rounds = append(l.Rounds, 1)
				l.Tasks = append(l.Tasks, 1)
				l.PeriodUs = append(l.PeriodUs, 0)
				l.StartUs = append(l.StartUs, start)
				most = max(most, start+p.ComputeUs)
				free[block+int(x%8)] = start + p.ComputeUs
			}
			now = most + p.SyncUs
		}
		value = value.Add(hare.Product(j.WeightMicro, now))
	}
	return inst, &hare.Result{Objective: hare.ObjectiveWeightedJCT, Value: &value, Schedule: s, Certificate: cert}
}

// BenchmarkFourMillionTasks decodes and checks a result of some 130 MB.
func BenchmarkFourMillionTasks(b *testing.B) {
	inst, res := fourMillion()
	var text bytes.Buffer
	if err := wire.EncodeResult(&text, res); err != nil {
		b.Fatal(err)
	}
	entries := 0
	for _, l := range res.Schedule.Lanes {
		entries += len(l.Job)
	}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if rep := verify.Check(inst, res); !rep.OK {
				b.Fatal(rep)
			}
		}
	})
	res = nil
	b.Run("decode+check", func(b *testing.B) {
		for b.Loop() {
			res, err := wire.DecodeResult(bytes.NewReader(text.Bytes()), wire.Limits{MaxBytes: 1 << 30})
			if err != nil {
				b.Fatal(err)
			}
			if rep := verify.Check(inst, res); !rep.OK {
				b.Fatal(rep)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-sys")
			b.ReportMetric(float64(entries), "entries")
			b.ReportMetric(float64(text.Len())/1e6, "MB-text")
		}
	})
}
