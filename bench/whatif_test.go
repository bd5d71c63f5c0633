package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/whatif"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

// mixedScenarios returns n changes of all kinds to an instance, fixed by the seed. A
// fifth adds 1 to 8 GPUs of a type, and a fifth removes 1 or 2 GPUs from a node. The
// others are drains, new jobs (copies of others), removed jobs, weights of one job,
// weights of all jobs, and patches of releases.
func mixedScenarios(inst *hare.Instance, n int, seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 5))
	out := make([]string, n)
	for i := range out {
		node := &inst.Cluster.Nodes[r.IntN(len(inst.Cluster.Nodes))]
		kind := node.GPUs[r.IntN(len(node.GPUs))]
		at := r.IntN(len(inst.Jobs))
		job := &inst.Jobs[at]
		var change string
		switch x := i % 20; {
		case x < 4:
			change = fmt.Sprintf(`"add_gpus":{"type":%q,"count":%d}`, kind.Type, 1<<r.IntN(4))
		case x < 8:
			change = fmt.Sprintf(`"remove_gpus":{"node":%q,"type":%q,"count":%d}`, node.Name, kind.Type,
				min(kind.Count, 1+r.IntN(2)))
		case x < 11:
			change = fmt.Sprintf(`"drain":{"node":%q,"at_s":%d}`, node.Name, 60*(1+r.IntN(20)))
		case x < 14:
			var on []string
			for _, p := range job.On {
				on = append(on, fmt.Sprintf(`%q:{"compute_s":%s,"sync_s":%s}`, p.Type, hare.FormatMicros(p.ComputeUs),
					hare.FormatMicros(p.SyncUs)))
			}
			change = fmt.Sprintf(`"add_jobs":[{"id":"new","weight":%s,"rounds":%d,"tasks":%d,"on":{%s}}]`,
				hare.FormatMicros(job.WeightMicro), job.Rounds, job.Tasks, strings.Join(on, ","))
		case x < 16:
			change = fmt.Sprintf(`"remove_jobs":[%q]`, job.ID)
		case x < 18:
			change = fmt.Sprintf(`"scale_weights":{%q:%d}`, job.ID, 2+r.IntN(4))
		case x < 19:
			change = fmt.Sprintf(`"scale_weights":%s`, []string{"2", "3"}[r.IntN(2)])
		default:
			change = fmt.Sprintf(`"patch":[{"op":"add","path":"/jobs/%d/release_s","value":%d}]`, at,
				30*(1+r.IntN(10)))
		}
		out[i] = fmt.Sprintf(`{"id":"s%d",%s}`, i, change)
	}
	return out
}

// whatIfRequest returns a request for the scenarios of an instance.
func whatIfRequest(t testing.TB, inst *hare.Instance, scenarios []string, rest string) *whatifdoc.Request {
	t.Helper()
	var b bytes.Buffer
	if err := wire.EncodeInstance(&b, inst); err != nil {
		t.Fatal(err)
	}
	text := `{"base":{"instance":` + b.String() + `},"scenarios":[` + strings.Join(scenarios, ",") + `]` + rest + `}`
	req, err := whatifdoc.Decode(strings.NewReader(text), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// BenchmarkWhatIf answers 100 scenarios of the instance of 200 jobs, including the solve
// of the base, with and without pruning at a tenth of the base's value.
func BenchmarkWhatIf(b *testing.B) {
	inst := frozen(b, "standard-200")
	for _, c := range []struct{ name, rest string }{
		{"time=20s/prune=3000", `,"options":{"time_limit_s":20},"prune":{"below_s":3000}`},
		{"work=2000/prune=3000", `,"options":{"work_limit":2000},"prune":{"below_s":3000}`},
		{"work=2000/prune=0", `,"options":{"work_limit":2000},"prune":{"below_s":0}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			svc := service.New(service.Config{})
			for b.Loop() {
				req := whatIfRequest(b, inst, mixedScenarios(inst, 100, 1), c.rest)
				if err := svc.CheckWhatIf(context.Background(), req); err != nil {
					b.Fatal(err)
				}
				began := time.Now()
				var first time.Duration
				var counts whatifdoc.Counts
				width, n := 0.0, 0.0
				err := svc.WhatIf(context.Background(), req, func(l *whatif.Line) error {
					switch l.Line {
					case "base":
						first = time.Since(began)
						b.Logf("base %v, bound %v, gap %s", l.Value, l.Bound, l.Gap)
					case "summary":
						counts = *l.Counts
					case "scenario":
						if l.Err != nil || l.OptimumChange[0] == nil {
							b.Fatalf("%s: %v", l.ID, l.Err)
						}
						if l.OptimumChange[1] != nil {
							width += l.OptimumChange[1].Sub(*l.OptimumChange[0]).Float()
							n++
						} else if !*l.Pruned {
							b.Errorf("%s has no interval", l.ID)
						}
					}
					return nil
				})
				if err != nil {
					b.Fatal(err)
				}
				b.Logf("%+v, base after %v, %v in all; mean width of %v whole intervals %.0f", counts, first,
					time.Since(began), n,
					width/n)
			}
		})
	}
}
