package explain_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hare-sched/hare"
	explaindoc "github.com/hare-sched/hare/wire/explain"
)

// Prices are read as exactly as they are written.
func TestPricesInJSON(t *testing.T) {
	bound := hare.Product(7e6, 1_234_567)
	prices := explaindoc.Prices{InstanceSHA256: "0a", Bound: &bound, Meaning: "m", GridS: []hare.Seconds{0, 1_500_000},
		Types: []explaindoc.TypePrice{{Type: "V100", Total: bound.Neg(), Prices: []explaindoc.Nanos{0, 1, 2_500_000_000}}},
		Sizes: []explaindoc.SizePrice{{Type: "V100", Tasks: 2, Prices: []explaindoc.Nanos{412_000_000}}}}
	text, err := json.Marshal(prices)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"instance_sha256":"0a","bound":8.641969,"meaning":"m","grid_s":[0,1.5],"types":[{"type":"V100",` +
		`"total":-8.641969,"bound_fall":0,"prices":[0,0.000000001,2.5]}],` +
		`"sizes":[{"type":"V100","tasks":2,"prices":[0.412]}]}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
	var again explaindoc.Prices
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(prices, again, cmp.Comparer(func(a, b hare.Amount) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
}
