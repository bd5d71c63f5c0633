package bench_test

import (
	"strings"
	"testing"

	"github.com/hare-sched/hare/bench"
)

func TestReadSwitchesRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                           "no JSON",
		`{"set":"small"}`:            "0 models",
		`{"set":"small","more":1}`:   "unknown field",
		`{"models":[{"bytes":"x"}]}`: "no JSON",
	} {
		if _, err := bench.ReadSwitches(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
