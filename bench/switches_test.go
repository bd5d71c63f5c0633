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

func TestSwitchesBesideWarmOnes(t *testing.T) {
	const text = `{"set":"small","batch_factor":8,"device":{"name":"d","kind":"cuda","python":"3","torch":null,"load":0},
		"repetitions":1,"models":[{"name":"a","bytes":1000000,"groups":1,"losses_apart":0.002,"losses_noise":0.0005}],
		"methods":[
			{"method":"warm","p50_ms":-1,"p99_ms":2,"gap_p50_ms":0.5,"pairs":[
				{"from":"a","to":"b","p50_ms":-1,"p99_ms":0,"repetitions":1},
				{"from":"b","to":"a","p50_ms":2,"p99_ms":0,"repetitions":1}]},
			{"method":"hare","p50_ms":3,"p99_ms":4,"pairs":[
				{"from":"b","to":"a","p50_ms":4,"p99_ms":0,"repetitions":1},
				{"from":"a","to":"b","p50_ms":5,"p99_ms":0,"repetitions":1}]},
			{"method":"new process","p50_ms":9,"p99_ms":9,"pairs":[
				{"from":"","to":"a","p50_ms":9,"p99_ms":9,"repetitions":2}]}]}`
	s, err := bench.ReadSwitches(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := s.Write(&out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ", batches 8 times as large") {
		t.Errorf("no batch factor in\n%s", out.String())
	}
	for _, line := range []string{
		"| warm | -1.00 | 2.00 | 0.00 | 0.50 | 2 |",
		"| hare | 3.00 | 4.00 | 4.00 | – | 2 |", // 4 - 2 and 5 + 1
		"| new process | 9.00 | 9.00 | – | – | 2 |",
		"| a | 1.0 | 1 | 0.00 | no | 2.0e-03 | 5.0e-04 |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
}
