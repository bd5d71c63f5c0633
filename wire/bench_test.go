package wire_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/testing/haretest"
	"github.com/hare-sched/hare/wire"
)

// many is an instance of n jobs on four types.
func many(n int) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"K80", "M60", "T4", "V100"}
	for i := range 4000 {
		inst.Cluster.Nodes = append(inst.Cluster.Nodes,
			haretest.Node(fmt.Sprintf("n%d", i), types[i%4], 4))
	}
	for i := range n {
		j := hare.Job{ID: fmt.Sprintf("job-%d", i), WeightMicro: 1e6 + int64(i), ReleaseUs: int64(i) * 100003,
			Rounds: 50 + int64(i%7), Tasks: 1 + int64(i%8)}
		for k, t := range types {
			j.On = append(j.On, hare.Profile{Type: t, ComputeUs: int64(k+1)*250000 + int64(i), SyncUs: 100000})
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// long is a result with the given lanes and entries a lane, every column used.
func long(lanes, entries int) *hare.Result {
	s := &hare.Schedule{}
	for j := range 20000 {
		s.Jobs = append(s.Jobs, fmt.Sprintf("job-%d", j))
	}
	for g := range lanes {
		l := hare.Lane{GPU: fmt.Sprintf("n%d/%d", g/4, g%4)}
		for i := range entries {
			l.Job = append(l.Job, int32((g*7919+i*104729)%20000))
			l.Round = append(l.Round, int64(i))
			l.Rounds = append(l.Rounds, 1+int64(i%3))
			l.Tasks = append(l.Tasks, 1+int64(i%2))
			l.PeriodUs = append(l.PeriodUs, 1234567)
			l.StartUs = append(l.StartUs, int64(i)*7654321+int64(g))
		}
		s.Lanes = append(s.Lanes, l)
	}
	return &hare.Result{Objective: hare.ObjectiveWeightedJCT, Schedule: s}
}

func BenchmarkDecodeInstance(b *testing.B) {
	var text bytes.Buffer
	if err := wire.EncodeInstance(&text, many(20000)); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeInstance(bytes.NewReader(text.Bytes()), wire.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSHA256(b *testing.B) {
	inst := many(20000)
	b.ReportAllocs()
	for b.Loop() {
		wire.SHA256(inst)
	}
}

// BenchmarkDecodeResult reads 4 million entries, and reports the memory that
// it asks of the system.
func BenchmarkDecodeResult(b *testing.B) {
	var text bytes.Buffer
	if err := wire.EncodeResult(&text, long(16000, 250)); err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeResult(bytes.NewReader(text.Bytes()), wire.Limits{MaxBytes: 1 << 30}); err != nil {
			b.Fatal(err)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.Sys)/(1<<20), "MiB-sys")
}

// Sizes that a service meets must not take long; the limits are ten times what
// two cores of 2024 take.
func TestDecodingIsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("measures time")
	}
	var text bytes.Buffer
	if err := wire.EncodeInstance(&text, many(20000)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := wire.DecodeInstance(&text, wire.Limits{}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("20,000 jobs took %v", took)
	}
}
