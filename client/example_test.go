package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/hare-sched/hare/api"
	"github.com/hare-sched/hare/client"
	"github.com/hare-sched/hare/serve/service"
	"github.com/hare-sched/hare/serve/solves"
	"github.com/hare-sched/hare/serve/store"
	"github.com/hare-sched/hare/solver"
	"github.com/hare-sched/hare/wire"
)

// readme is the instance of the front page.
const readme = `{"hare": "instance/v1",
 "cluster": {"nodes": [{"name": "a", "gpus": {"V100": 2}}, {"name": "b", "gpus": {"T4": 4}}]},
 "jobs": [{"id": "bert", "weight": 2, "rounds": 6, "tasks": 4,
           "on": {"V100": {"compute_s": 1.2, "sync_s": 0.1}, "T4": {"compute_s": 2.9, "sync_s": 0.1}}}]}`

// server starts a server for the examples.
func server() (url string, close func()) {
	svc := service.New(service.Config{Solver: solver.Config{Version: "example"}})
	solves, err := solves.Open(context.Background(),
		solves.Config{Service: svc, Store: store.NewMemorySolves()})
	if err != nil {
		panic(err)
	}
	srv := httptest.NewServer(api.New(svc, api.Config{Solves: solves}))
	return srv.URL, func() {
		srv.Close()
		_ = solves.Close()
	}
}

func ExampleClient_Solve() {
	url, done := server()
	defer done()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	inst, err := wire.DecodeInstance(strings.NewReader(readme), wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	res, err := c.Solve(context.Background(), client.Request{Instance: inst,
		Options: wire.Options{Bound: "critical_path"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("value", res.Value, "bound", res.Bound)
	report, err := c.Verify(context.Background(), inst, res)
	fmt.Println("verified", report.OK, err)
	// Output:
	// value 30 bound 30
	// verified true <nil>
}

func ExampleProblem() {
	url, done := server()
	defer done()
	c, err := client.New(client.Config{URL: url})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	inst, err := wire.DecodeInstance(strings.NewReader(readme), wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Bound(context.Background(), inst, "magic")
	var p *client.Problem
	if errors.As(err, &p) {
		fmt.Println(p.Status, p.Code)
		for _, f := range p.Faults {
			fmt.Println(f.Pointer, f.Detail)
		}
	}
	// Output:
	// 422 unknown_value
	// /method must be one of price, critical_path, machine, queyranne, paper
}
