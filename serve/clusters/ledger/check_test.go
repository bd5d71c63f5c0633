package ledger

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Documents of agents have sizes, and nothing in them does something where it is printed.
func TestSizesOfRegistrations(t *testing.T) {
	good := func() *clusterdoc.Registration {
		return &clusterdoc.Registration{Protocol: clusterdoc.ProtocolVersion, Name: "n", Version: "0.1.0 (commit é)",
			Incarnation: "one of sixteen bytes", Labels: map[string]string{"rack": "r1"}, CPUs: 64, MemoryGiB: 512,
			Devices: []clusterdoc.AgentDevice{{Type: "V100", UUID: "GPU-1"}}}
	}
	if err := CheckRegistration(good()); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	tests := map[string]func(r *clusterdoc.Registration){
		"/version|long":      func(r *clusterdoc.Registration) { r.Version = long },
		"/labels|many":       func(r *clusterdoc.Registration) { r.Labels = many(60_000) },
		"/labels/|empty":     func(r *clusterdoc.Registration) { r.Labels[""] = "x" },
		"/labels/a|long":     func(r *clusterdoc.Registration) { r.Labels["a"] = long },
		"/devices/0/uuid|":   func(r *clusterdoc.Registration) { r.Devices[0].UUID = long },
		"/devices/0/type|":   func(r *clusterdoc.Registration) { r.Devices[0].Type = long },
		"/cpus|negative":     func(r *clusterdoc.Registration) { r.CPUs = -1 },
		"/cpus|NaN":          func(r *clusterdoc.Registration) { r.CPUs = math.NaN() },
		"/memory_gib|":       func(r *clusterdoc.Registration) { r.MemoryGiB = 1e300 },
		"/devices|many":      func(r *clusterdoc.Registration) { r.Devices = devices(257, 1) },
		"/devices/32/type|":  func(r *clusterdoc.Registration) { r.Devices = devices(64, 64) },
		"/name|none":         func(r *clusterdoc.Registration) { r.Name = "" },
		"/incarnation|short": func(r *clusterdoc.Registration) { r.Incarnation = "x" },
	}
	for _, bad := range []string{"\x00", "\n", "\x1b[2J", "\x7f", "\u0085", "\u009b2J", "\u061c", "\u200f", "\u2028",
		"\u2029", "\u202a", "\u202e", "\u2066", "\u2069", "\xff"} {
		tests[fmt.Sprintf("/name|%q", bad)] = func(r *clusterdoc.Registration) { r.Name += bad }
		tests[fmt.Sprintf("/version|%q", bad)] = func(r *clusterdoc.Registration) { r.Version += bad }
		tests[fmt.Sprintf("/devices/0/type|%q", bad)] = func(r *clusterdoc.Registration) { r.Devices[0].Type += bad }
		tests[fmt.Sprintf("/devices/0/uuid|%q", bad)] = func(r *clusterdoc.Registration) { r.Devices[0].UUID += bad }
		tests[fmt.Sprintf("/labels/a|%q", bad)] = func(r *clusterdoc.Registration) { r.Labels["a"] = bad }
		tests[fmt.Sprintf("/labels/a%s|", bad)] = func(r *clusterdoc.Registration) { r.Labels["a"+bad] = "x" }
	}
	for _, id := range []string{"", "1", "j0", "j01", "j" + long, "jx"} {
		tests["/holds/0/job|"+id] = func(r *clusterdoc.Registration) {
			r.Holds = []clusterdoc.TaskReport{{TaskID: clusterdoc.TaskID{Job: id}, State: clusterdoc.TaskRunning}}
		}
	}
	for name, change := range tests {
		r := good()
		change(r)
		expectFault(t, name, CheckRegistration(r))
	}
	for _, bad := range []string{"\n", "\u202e", "\x1b"} {
		job := func(change func(j *clusterdoc.NewJob)) error {
			j := &clusterdoc.NewJob{Command: []string{"sh", "-c", "a\nb"}, Name: "müller ok"}
			if err := CheckJob(j); err != nil {
				t.Fatal(err)
			}
			change(j)
			return CheckJob(j)
		}
		expectFault(t, "/name|", job(func(j *clusterdoc.NewJob) { j.Name += bad }))
		expectFault(t, "/on|", job(func(j *clusterdoc.NewJob) { j.On = map[string]float64{"V" + bad: 1} }))
		expectFault(t, "/class/user|", job(func(j *clusterdoc.NewJob) { j.Class = map[string]string{"user": "a" + bad} }))
		expectFault(t, "/directory|", job(func(j *clusterdoc.NewJob) { j.Directory = "/a" + bad }))
		if CheckReason("fans"+bad) == nil {
			t.Errorf("the reason %q is taken", bad)
		}
	}
	// A cluster has so many types of GPUs at most that jobs can be told each new one.
	l := New()
	var conflict *Conflict
	for i := 0; ; i++ {
		r := good()
		r.Name, r.Devices = fmt.Sprint("n", i), devices(32, 32)
		for k := range r.Devices {
			r.Devices[k].Type += fmt.Sprint(" of ", i)
		}
		err := l.Registrable(r, func(string) bool { return true })
		if err != nil {
			if !errors.As(err, &conflict) || conflict.Code != "too_many_types" || i != 8 {
				t.Errorf("node %d: %v", i, err)
			}
			return
		}
		if err := l.Apply(&Record{Register: &Register{Registration: *r}}); err != nil || i > 8 {
			t.Fatal(i, err)
		}
	}
}

// expectFault wants a fault at the pointer that stands in name before "|".
func expectFault(t *testing.T, name string, err error) {
	t.Helper()
	pointer, _, _ := strings.Cut(name, "|")
	var es hare.InvalidErrors
	if !errors.As(err, &es) || !strings.HasPrefix(es[0].Pointer, pointer) {
		t.Errorf("%q: %v", name, err)
	}
}

func many(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		all[fmt.Sprint(i)] = "x"
	}
	return all
}

func devices(n, types int) (all []clusterdoc.AgentDevice) {
	for i := range n {
		all = append(all, clusterdoc.AgentDevice{Type: fmt.Sprint("T", i%types)})
	}
	return all
}

// Secret variables stand in orders alone, and when a job has ended nowhere in the state; what was submitted is known
// all the same.
func TestSecretsOfJobs(t *testing.T) {
	l := New()
	apply := func(r *Record) {
		t.Helper()
		if err := l.Apply(r); err != nil {
			t.Fatal(err)
		}
	}
	kept := func(want bool) {
		t.Helper()
		s, err := l.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		back, err := Restore(s.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		live, err := back.Snapshot()
		if err != nil || strings.Contains(string(live.live), "secret-value") != want {
			t.Errorf("%v: %s", err, live.live)
		}
		j := back.find("j1")
		if j.spec.SecretEnv["TOKEN"] == "secret-value" != want || back.Job("j1", true).SecretEnv["TOKEN"] != maskedValue {
			t.Errorf("%+v", j)
		}
		spec := clusterdoc.NewJob{Name: "a", Command: []string{"a"}, SecretEnv: map[string]string{"TOKEN": "secret-value"}}
		other := spec
		other.SecretEnv = map[string]string{"TOKEN": maskedValue}
		if !back.Submitted("j1", other, spec) || back.Submitted("j1", other) {
			t.Error("the job is not known any more, or as another")
		}
	}
	env := map[string]string{"TOKEN": "secret-value"}
	submit := &Record{Submit: &Submit{Job: clusterdoc.NewJob{Name: "a", Command: []string{"a"}, SecretEnv: env},
		SecretSum: SumSecrets(env, "salt")}}
	apply(submit)
	kept(true)
	apply(&Record{Register: &Register{Registration: clusterdoc.Registration{Name: "n", Devices: devices(1, 1)}}})
	for len(l.waiting) > 0 {
		answer := SessionAnswer{}
		if l.waiting[0].Type == hare.EventJobArrived {
			answer.Decisions = []Decision{{Job: "j1", GPUs: []string{"n/0"}}}
		}
		apply(&Record{Answers: []SessionAnswer{answer}})
	}
	if o := l.Orders("n"); len(o) != 1 || o[0].Start.Env["TOKEN"] != "secret-value" {
		t.Fatalf("%+v", o)
	}
	kept(true)
	exit := 0
	apply(&Record{Sync: &SyncRecord{AgentEpoch: AgentEpoch{"n", 1}, Reports: []clusterdoc.TaskReport{{
		TaskID: clusterdoc.TaskID{Job: "j1", Attempt: 1}, State: clusterdoc.TaskEnded, ExitCode: &exit}}}})
	if submit.Submit.Job.SecretEnv["TOKEN"] != "secret-value" {
		t.Error("the record was changed, which may not be written yet")
	}
	kept(false)
}
