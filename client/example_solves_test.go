package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/wire"
	whatifdoc "github.com/hare-sched/hare/wire/whatif"
)

func Example() {
	url, done := server()
	defer done()
	ctx := context.Background()
	inst, err := wire.DecodeInstance(strings.NewReader(readme), wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()

	// Submit a solve, follow its events, and resume after the last event but one.
	solve, err := c.Submit(ctx, client.Request{Instance: inst, Options: wire.Options{Bound: "critical_path"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var last client.Event
	for e, err := range c.Events(ctx, solve.ID, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if e.Type == "incumbent" {
			fmt.Println("a schedule of value", *e.Value)
		}
		last = e
	}
	for e, err := range c.Events(ctx, solve.ID, last.ID-1) {
		fmt.Println(e.Type, e.Status, e.Termination, err)
	}

	// Compare scenarios, and ask for the earliest possible end of a job.
	for o, err := range c.WhatIf(ctx, &whatifdoc.Request{Base: whatifdoc.Base{SolveID: solve.ID}, Ordered: true,
		Scenarios: []whatifdoc.Scenario{
			{ID: "two V100 more", AddGPUs: []whatifdoc.AddedGPUs{{Type: "V100", Count: 2}}},
			{ID: "b leaves", Drain: []whatifdoc.DrainedNode{{Node: "b"}}},
		}}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if o.Line == whatifdoc.LineScenario {
			fmt.Println(o.ID, "value", o.Value, "optimum changes by", o.OptimumChange[0], o.OptimumChange[1])
		}
	}
	bert, err := c.Explain(ctx, solve.ID, "bert", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("bert ends at", bert.EndS, "and at", bert.LeastS, "at best")

	// A refusal has a pointer to each fault.
	_, err = c.Bound(ctx, inst, "magic")
	var p *client.Problem
	if errors.As(err, &p) {
		for _, f := range p.Faults {
			fmt.Println(p.Status, f.Pointer, f.Detail)
		}
	}
	// Output:
	// a schedule of value 30
	// done succeeded optimal <nil>
	// two V100 more value 15.6 optimum changes by -14.4 -14.4
	// b leaves value 30 optimum changes by 0 0
	// bert ends at 15 and at 15 at best
	// 422 /method must be one of price, critical_path, machine, queyranne, paper
}
