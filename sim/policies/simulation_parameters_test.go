package policies_test

import (
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/policies"
	registry "github.com/hare-sched/hare/sim/policies"
)

// Parameters of simulations are checked as far as that goes without a cluster.
func TestSimulationParameters(t *testing.T) {
	for _, c := range []struct{ name, parameters, pointer string }{
		{"sampling", `{"ring": true}`, ""},
		{"sampling", `{"draws": 0}`, "/draws"},
		{"asrpt", `{"graphs": {"hare": "job-graphs/v1", "models": [], "configurations": []}}`, ""},
		{"asrpt", `{"graphs": {"hare": "job-graphs/v1", "models": [], "configuration": []}}`, "/graphs/configuration"},
		{"asrpt", `{"graphs": {"hare": "job-graphs/v1", "models": [], "configurations": [{"name": "c", "model": "m", ` +
			`"samples": 1, "stages": [{"layers": 1}]}]}}`, "/graphs/configurations/0/model"},
		{"asrpt", `{"graphs": 7}`, "/graphs"},
		{"rolling", `{"moves": -1}`, "/moves"},
		{"rolling", `{"aside": true}`, "/aside"},
		{"hlas", `{"queues": -1}`, "/queues"},
		{"fifo", `{"queues": 1}`, "/queues"},
		{"srtf", `{}`, ""},
	} {
		_, err := registry.SimulationParameters(c.name, []byte(c.parameters), true, false)
		var fault *hare.InvalidError
		if got := errors.As(err, &fault); got != (c.pointer != "") || got && fault.Pointer != c.pointer {
			t.Errorf("%s %s: %v, want %q", c.name, c.parameters, err, c.pointer)
		}
	}
	for _, info := range policies.All() {
		if s, ok := info.Session(); ok && s.Check([]byte(`{"no_parameter_has_this_name": 1}`)) == nil {
			t.Errorf("%s takes any parameters", info.Name)
		}
	}
}
