package plot_test

import (
	"bytes"
	"fmt"
	"strings"

	hare "github.com/hare-sched/hare"
	"github.com/hare-sched/hare/plot"
	"github.com/hare-sched/hare/wire"
)

func ExampleSVG() {
	inst, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "a", "gpus": {"V100": 1}}]},
		"jobs": [{"id": "bert", "rounds": 3, "on": {"V100": {"compute_s": 2}}}]}`), wire.Limits{})
	if err != nil {
		panic(err)
	}
	value := hare.Product(1e6, 6e6)
	res := &hare.Result{Value: &value, Bound: &value, Schedule: &hare.Schedule{
		Jobs:  []string{"bert"},
		Lanes: []hare.Lane{{GPU: "a/0", Job: []int32{0}, Rounds: []int64{3}, PeriodUs: []int64{2e6}, StartUs: []int64{0}}},
	}}
	var b bytes.Buffer
	if err := plot.SVG(&b, inst, res, plot.Options{Title: "One job"}); err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(b.String(), "<title>")
	title, _, _ := strings.Cut(rest, "</title>")
	fmt.Println(title)
	// Output: One job: weighted JCT 6 · proved optimal · 1 job · 1 GPU · makespan 6 s
}
