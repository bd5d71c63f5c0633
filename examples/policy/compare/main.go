// Compare plays the same random jobs to the policy of this module and to some of
// Hare's, and prints one line for each.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	"github.com/hare-sched/hare/sim"
	registry "github.com/hare-sched/hare/sim/policies"
	"github.com/hare-sched/hare/trace"

	narrow "example.com/hare-policy"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx := context.Background()
	inst, err := trace.Generate(trace.GenerateConfig{
		Jobs: 60, Sync: "gang", Arrivals: "uniform:600", Seed: 1,
		GPUs: []hare.TypeCount{{Type: "V100", Count: 8}, {Type: "K80", Count: 8}},
	})
	if err != nil {
		return err
	}
	candidates := []policies.Info{narrow.Policy}
	for _, name := range []string{"fifo", "tiresias", "srtf"} {
		info, err := registry.FindTask(name)
		if err != nil {
			return err
		}
		candidates = append(candidates, info)
	}
	for _, info := range candidates {
		p, err := info.New(ctx, inst, policies.Config{})
		if err != nil {
			return err
		}
		out, err := sim.Run(ctx, inst, p, sim.Config{Name: info.Name})
		if err != nil {
			return err
		}
		m := out.Metrics(inst)
		fmt.Printf("%-13s knows %-8s mean JCT %7.1f s, total %7.1f s\n", info.Name, info.Knows(), m.MeanJCTS,
			float64(out.MakespanUs)/1e6)
	}
	return nil
}
