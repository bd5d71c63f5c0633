package sharing

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim/sharing/antman"
)

func TestConfigure(t *testing.T) {
	info := All()[0]
	for _, c := range []struct{ parameters, pointer, want string }{
		{`{"sharing": "none"}`, "/sharing", `"throttled"`},
		{`{"opportunistic": 1.5}`, "/opportunistic", "from 0 to 1"},
		{`{"busy_least": 0.95}`, "/busy_least", "above the greatest value of 0.9"},
		{`{"memory_least_gib": 20}`, "/memory_least_gib", "above the greatest value of 12"},
		{`{"busy_leest": 0.5}`, "/busy_leest", `did you mean "busy_least"?`},
		{`{"opportunists": 0}`, "/opportunists", "from 1 to"},
	} {
		_, err := info.Configure(Default(1), []byte(c.parameters))
		var fault *hare.InvalidError
		if !errors.As(err, &fault) || fault.Pointer != c.pointer || !strings.Contains(fault.Detail, c.want) {
			t.Errorf("%s: %v", c.parameters, err)
		}
	}
	got, err := info.Configure(Default(7), []byte(`{"sharing": "throttled", "opportunistic": 0, "busy_least": 0.5,
		"busy_most": 0.5, "memory_least_gib": 0, "memory_most_gib": 4, "gpu_memory_gib": 32, "max_busy": 1,
		"opportunists": 2, "interference": 0.1, "host_slowdown": 0, "control_s": 1, "control_step": 0.1,
		"tolerance": 0.02}`))
	want := Config{antman.Config{Sharing: antman.Throttled, MaxBusy: 1, Interference: .1, HostSlowdown: -1, ControlS: 1,
		ControlStep: .1, Tolerance: .02, Opportunists: 2}, 7, 0, .5, .5, 0, 4, 32}
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// The default that is shown of each parameter is that of the policy.
func TestShownDefaults(t *testing.T) {
	info := All()[0]
	shown := map[string]any{}
	for _, s := range info.Parameters() {
		if s.Default == nil || s.Text == "" {
			t.Errorf("%+v", s)
		}
		shown[s.Name] = s.Default
	}
	for _, parameters := range []map[string]any{{}, shown} {
		text, err := json.Marshal(parameters)
		if err != nil {
			t.Fatal(err)
		}
		got, err := info.Configure(Default(7), text)
		want := Default(7)
		got.AntMan, want.AntMan = got.AntMan.WithDefaults(), want.AntMan.WithDefaults()
		if err != nil || got != want {
			t.Errorf("%s gives %+v, want %+v, %v", text, got, want, err)
		}
	}
}

// A job that says what it is changes nothing of what is drawn for the others.
func TestDraw(t *testing.T) {
	c := Default(3)
	draw := func(first Kind) []antman.Job {
		jobs := make([]antman.Job, 1000)
		kinds := make([]Kind, len(jobs))
		kinds[0] = first
		count := 0
		n := c.Draw(jobs, kinds, 10)
		for _, j := range jobs {
			if j.Busy < .2 || j.Busy > .9 || j.MemoryGiB < 2 || j.MemoryGiB > 10 {
				t.Errorf("%+v", j)
			}
			if j.Opportunistic {
				count++
			}
		}
		if n != count || math.Abs(float64(count)-500) > 60 {
			t.Errorf("%d of 1000 jobs are opportunistic, Draw says %d", count, n)
		}
		return jobs
	}
	a, b := draw(Guaranteed), draw(Opportunistic)
	if a[0].Opportunistic || !b[0].Opportunistic || a[0].Busy != b[0].Busy || !reflect.DeepEqual(a[1:], b[1:]) {
		t.Error("the first job's class changes the draws")
	}
}
