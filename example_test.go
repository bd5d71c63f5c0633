package hare_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/wire"
)

// A reader reports all faults of a document at once. Each fault says where it is and how to
// mend it.
func ExampleInvalidErrors() {
	_, err := wire.DecodeInstance(strings.NewReader(`{"hare": "instance/v1",
		"cluster": {"nodes": [{"name": "a", "gpus": {"V100": 4}}]},
		"jobs": [{"id": "bert", "wieght": 2, "on": {"V100": {"compute_s": 1.2345678}}}, {"id": "bert"}]}`), wire.Limits{})
	var faults hare.InvalidErrors
	if errors.As(err, &faults) {
		for _, f := range faults {
			fmt.Println(f)
		}
	}
	// Output:
	// /jobs/0/wieght: unknown field "wieght": did you mean "weight"? (unknown_field)
	// /jobs/0/on/V100/compute_s: 1.2345678 has more than six decimals: round it to millionths (too_many_decimals)
	// /jobs/1: "on" is missing: give the times on each GPU type, e.g. {"V100": {"compute_s": 1.2}} (missing_field)
	// /jobs/1/id: id "bert" appears twice, first at /jobs/0: ids must differ (duplicate_id)
}

func ExampleResult_Gap() {
	value, bound := hare.Product(4e6, 1e6), hare.Product(3e6, 1e6)
	gap, _ := (&hare.Result{Value: &value, Bound: &bound}).Gap()
	fmt.Println(gap.FloatString(6))
	// Output:
	// 0.333334
}

func ExampleParseMicros() {
	for _, text := range []string{"12.5", "1.5e1", "0.0000001"} {
		n, err := hare.ParseMicros(text)
		fmt.Println(text, n, err)
	}
	// Output:
	// 12.5 12500000 <nil>
	// 1.5e1 15000000 <nil>
	// 0.0000001 0 has more than six decimals: round it to millionths
}
