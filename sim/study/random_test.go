package study_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/sim/study"
)

// randomSimulation returns a small request with jobs of all modes, windows of service, faults and
// switches.
func randomSimulation(r *rand.Rand, policies []string) string {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	var nodes, jobs []string
	for i := range 1 + r.IntN(3) {
		nodes = append(nodes, fmt.Sprintf(`{"name":"n%d","gpus":{"%s":%d}%s}`, i, pick("V100", "T4"), 1+r.IntN(3),
			pick("", "", `,"in_service_s":[[0,20],[30,null]]`, `,"busy":[{"gpu":0,"until_s":7}]`)))
	}
	for i := range 1 + r.IntN(6) {
		jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","weight":%d,"release_s":%d,"rounds":%d,"tasks":%d,"sync":"%s",`+
			`"on":{"V100":{"compute_s":%d,"sync_s":%d}%s}}`,
			i, 1+r.IntN(3), r.IntN(20), 1+r.IntN(5), 1+r.IntN(3), pick("relaxed", "gang", "rigid"), 1+r.IntN(9),
			r.IntN(3),
			pick("", fmt.Sprintf(`,"T4":{"compute_s":%d}`, 1+r.IntN(9)))))
	}
	more := pick("", "", `,"faults":[{"gpu":"n0/0","from_s":5,"until_s":15}]`,
		`,"fault_rate":{"gpu_mean_s":40,"gpu_repair_s":5}`) +
		pick("", `,"switch_s":1`) + pick("", `,"merge_s":9`) + pick("", `,"jobs":[0,1]`, `,"cdf":true`)
	names, _ := json.Marshal(policies)
	return fmt.Sprintf(`{"policies":%s,"seed":%d,"lease_s":%d,"reset_s":0,"restart_s":%d%s,`+
		`"instance":{"hare":"instance/v1","cluster":{"nodes":[%s]},"jobs":[%s]}}`,
		names, r.IntN(9), 5+r.IntN(30), r.IntN(2), more, strings.Join(nodes, ","), strings.Join(jobs, ","))
}

// Each policy on random requests: a run is refused, stalls or is verified, the policy
// never makes an impossible decision, and a second run gives the same report.
func TestRandomSimulations(t *testing.T) {
	rounds := 12
	if testing.Short() {
		rounds = 2
	}
	answered := 0
	for seed := range uint64(rounds) {
		for _, p := range registry.Names() {
			r := rand.New(rand.NewPCG(seed, 5))
			doc := randomSimulation(r, []string{p})
			req := requestOf(t, doc)
			var before string
			for range 2 {
				rep, err := study.Simulate(t.Context(), req, study.Config{})
				var run *study.RunError
				var fault *hare.InvalidError
				switch {
				case errors.As(err, &run) && run.Code != "stalled" && run.Code != "infeasible" &&
					run.Code != "not_in_model",
					err != nil && run == nil && !errors.As(err, &fault):
					t.Errorf("%v\n%s", err, doc)
				}
				text := fmt.Sprint(err)
				if err == nil {
					b, err := json.Marshal(rep)
					if err != nil {
						t.Fatal(err)
					}
					text = string(b)
					answered++
				}
				if before != "" && before != text {
					t.Errorf("%s\nfirst %s\nthen %s", doc, before, text)
				}
				before = text
			}
		}
	}
	if answered == 0 {
		t.Error("none was answered")
	}
	t.Logf("%d answered", answered)
}
