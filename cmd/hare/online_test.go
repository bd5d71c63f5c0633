package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const twoGPUs = `{"nodes": [{"name": "a", "gpus": {"V100": 2}}]}`

func TestOnlineAndReplay(t *testing.T) {
	cluster := file(t, "cluster.json", twoGPUs)
	log := filepath.Join(t.TempDir(), "run.ndjson")
	events := `{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"j","on":{"V100":{}}}}
{"seq":2,"at_s":1,"type":"task_ended","job":"j","round":0,"task":0,"gpu":"a/0","compute_s":1}
{"seq":3,"at_s":1,"type":"job_ended","job":"j"}
`
	want := `{"seq":1,"decisions":[{"type":"start","job":"j","round":0,"task":0,"gpu":"a/0","at_s":0}]}
{"seq":2,"decisions":[{"type":"start","job":"j","round":1,"task":0,"gpu":"a/0","at_s":1}]}
{"seq":3,"decisions":[{"type":"withdraw","job":"j","round":1,"task":0,"gpu":"a/0","at_s":1}]}
`
	for _, policy := range []string{"hlas", "fifo"} {
		out, errs, code := runHare(t, events, "online", "--cluster", cluster, "--policy", policy, "--log", log)
		if out != want || code != exitDone {
			t.Errorf("%s: %d %s\n%s", policy, code, errs, out)
		}
		if out, errs, code := runHare(t, "", "online", "replay", log); out != "3 events, decisions identical\n" ||
			code != exitDone {
			t.Errorf("%s: %d %s\n%s", policy, code, errs, out)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		log, want string
		code      int
	}{
		"other decision": {strings.Replace(string(text), `"gpu":"a/0","at_s":0}]`, `"gpu":"a/1","at_s":0}]`, 1),
			"event 1 (line 2) is decided in another way", exitNo},
		"no header": {strings.SplitN(string(text), "\n", 2)[1], "unknown field", exitUsage},
		"gap": {strings.Replace(string(text), `"seq":2`, `"seq":3`, 1), "line 3: event 3 at 1 cannot follow event 1",
			exitUsage},
		"cut":   {string(text[:len(text)-9]), "line 4: ", exitUsage},
		"empty": {"", "the file is empty: give a log", exitUsage},
		"impossible": {strings.Replace(string(text), `"task":0,"gpu":"a/0","compute_s"`, `"task":1,"gpu":"a/0","compute_s"`,
			1), "line 3: ", exitUsage},
	} {
		out, errs, code := runHare(t, c.log, "online", "replay", "-")
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
}

// TestOnlineRegret checks the lines of a log with two jobs in the wrong order, and
// faults after the first lines.
func TestOnlineRegret(t *testing.T) {
	log := `{"hare":"log/v1","policy":"hlas","clock":"events","cluster":{"nodes":[{"name":"a","gpus":{"V100":1}}]}}
{"event":{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"long","on":{"V100":{"compute_s":10}}}},` +
		`"decisions":[{"type":"start","job":"long","round":0,"task":0,"gpu":"a/0","at_s":0}]}
{"event":{"seq":2,"at_s":0,"type":"job_arrived","job":{"id":"short","on":{"V100":{"compute_s":1}}}},"decisions":[]}
{"event":{"seq":3,"at_s":10,"type":"task_ended","job":"long","round":0,"task":0,"gpu":"a/0","compute_s":10},` +
		`"decisions":[]}
{"event":{"seq":4,"at_s":10,"type":"job_ended","job":"long"},"decisions":[{"type":"start","job":"short","round":0,` +
		`"task":0,"gpu":"a/0","at_s":10}]}
{"event":{"seq":5,"at_s":11,"type":"task_ended","job":"short","round":0,"task":0,"gpu":"a/0","compute_s":1},` +
		`"decisions":[]}
{"event":{"seq":6,"at_s":11,"type":"job_ended","job":"short"},"decisions":[]}
`
	starts := []string{
		`{"seq":2,"at_s":5,"last":false,"jobs":{"counted":0,"running":2,`,
		`{"seq":4,"at_s":10,"last":false,"jobs":{"counted":1,"running":1,"cancelled":0,"empty":0},"achieved":10,` +
			`"bound":10,"regret":1.000000,`,
		`{"seq":6,"at_s":11,"last":true,"jobs":{"counted":2,"running":0,"cancelled":0,"empty":0},"achieved":21,"bound":1`,
	}
	for _, c := range []struct {
		name, log  string
		args, want []string
		code       int
		errs       string
	}{
		{"intervals", log, []string{"--every", "5s"}, starts, exitDone, ""},
		{"the end", log, nil, starts[2:], exitDone, ""},
		{"in full", log, []string{"--detail", "full"}, starts[2:], exitDone, ""},
		{"cut", log[:len(log)-20], []string{"--every", "5s"}, starts[:2], exitUsage, "standard input: line 7: "},
		{"gap", strings.Replace(log, `"seq":5`, `"seq":7`, 1), []string{"--every", "5s"}, starts[:1], exitUsage,
			"line 6: event 7 at 11 cannot follow event 4 at 10"},
		{"impossible", strings.Replace(log, `"job_ended","job":"short"`, `"job_ended","job":"shirt"`, 1),
			[]string{"--every", "5s"}, starts[:2], exitUsage, `event 6 names job "shirt", which did not arrive`},
		{"no log", "", nil, nil, exitUsage, "the file is empty: give a log"},
		{"replayed", log, []string{"--against", "hlas"}, starts[2:], exitDone, ""},
		{"replayed and cut", log[:len(log)-20], []string{"--against", "fifo"}, nil, exitUsage, "standard input: line 7: "},
		{"a policy of simulations", log, []string{"--against", "optimus"}, nil, exitUsage, "simulations alone"},
		{"no policy", log, []string{"--against", "hlsa"}, nil, exitUsage,
			`--against: "hlsa" is not known: did you mean "hlas"? Use one of asrpt, easy_backfill, fifo, `},
		{"intervals of a replay", log, []string{"--against", "hlas", "--every", "1h"}, nil, exitUsage, "leave --every out"},
	} {
		out, errs, code := runHare(t, c.log, append([]string{"online", "regret", "-"}, c.args...)...)
		lines := strings.SplitAfter(out, "\n")
		if code != c.code || !strings.Contains(errs, c.errs) || len(lines) != len(c.want)+1 {
			t.Errorf("%s: exit %d\n%s%s", c.name, code, out, errs)
			continue
		}
		for i, want := range c.want {
			if c.name == "replayed" && !strings.Contains(lines[i], `"against":{"policy":"hlas","stalled":0,"weighted_jct":21,`+
				`"mean_jct_s":10.5,"p99_slowdown":11,"regret":1.`) {
				t.Errorf("%s: %s", c.name, lines[i])
			}
			if !strings.HasPrefix(lines[i], want) || strings.Contains(lines[i], `"certificate":`) != (c.name == "in full") {
				t.Errorf("%s: no %s in %s", c.name, want, lines[i])
			}
		}
	}
}

func TestOnlineRefusesAndGoesOn(t *testing.T) {
	cluster := file(t, "instance.json", tiny)
	out, errs, code := runHare(t, "{\"seq\":1}\n\n"+`{"seq":1,"at_s":2,"type":"tick"}
{"seq":3,"at_s":2,"type":"tick"}
{"seq":2,"at_s":1,"type":"tick"}
{"seq":2,"at_s":2,"type":"gpu_left","gpu":"a/7"}
`+strings.Repeat(" ", 1<<21)+`x
{"seq":2,"at_s":2,"type":"tick"}`, "online", "--cluster", cluster)
	lines := strings.Split(out, "\n")
	for i, want := range []string{
		`{"seq":1,"error":{"status":422,"line":1,"pointer":"","code":"missing_field"`,
		`{"seq":1,"decisions":[]}`,
		`{"seq":3,"error":{"status":409,"line":4,"pointer":"/seq","code":"out_of_sequence"`,
		`{"seq":2,"error":{"status":422,"line":5,"pointer":"/at_s","code":"time_goes_back"`,
		`{"seq":2,"error":{"status":422,"line":6,"pointer":"/gpu"`,
		`{"seq":null,"error":{"status":413,"line":7,"pointer":"","code":"body_too_large"`,
		`{"seq":2,"decisions":[]}`,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Fatalf("line %d: want %s\n%s", i+1, want, out)
		}
	}
	if code != exitUsage || !strings.Contains(errs, "5 of 8 lines were refused") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestOnlineUsage(t *testing.T) {
	cluster := file(t, "cluster.json", twoGPUs)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"online"}, "give the cluster"},
		{[]string{"online", "--cluster", "-"}, "standard input is for the events"},
		{[]string{"online", "--cluster", filepath.Join(t.TempDir(), "none")}, "no such file"},
		{[]string{"online", "--cluster", cluster, "--policy", "best"}, "not known"},
		{[]string{"online", "--cluster", cluster, "--parameters", file(t, "p", `[]`)}, "must be a JSON object"},
		{[]string{"online", "--cluster", cluster, "--parameters", file(t, "p", `{"kapa":1}`)}, "kapa"},
		{[]string{"online", "--cluster", file(t, "c", `{"nodes":[{"name":"a","gpus":{"V100":2},"in_service_s":[[0,4]]}]}`)},
			"in_service_s"},
		{[]string{"online", "replay"}, "one log"},
		{[]string{"online", "regret"}, "one log"},
		{[]string{"online", "regret", filepath.Join(t.TempDir(), "none")}, "no such file"},
		{[]string{"online", "regret", cluster, "--every", "0"}, "--every must be a microsecond or more"},
		{[]string{"online", "regret", cluster, "--every", "-1h"}, "--every must be a microsecond or more"},
		{[]string{"online", "regret", cluster, "--every", "soon"}, "see hare online regret --help"},
		{[]string{"online", "regret", cluster, "--detail", "half"}, "summary or full"},
		{[]string{"online", "regret", cluster}, "is a cluster: give a log"},
		{[]string{"backup", t.TempDir(), "x"}, "backup of"},
		{[]string{"restore", "nothing", t.TempDir()}, "restore of"},
	} {
		if _, errs, code := runHare(t, "", c.args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, code, errs)
		}
	}
}

// TestOnlineAnswersAtOnce checks that each answer comes before the next event is
// sent.
func TestOnlineAnswersAtOnce(t *testing.T) {
	c := command("online", "--cluster", file(t, "cluster.json", twoGPUs))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
	defer guard.Stop()
	r := bufio.NewReader(out)
	for _, n := range []string{"1", "2", "3"} {
		if _, err := io.WriteString(in, `{"seq":`+n+`,"at_s":0,"type":"tick"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := r.ReadString('\n'); err != nil || line != `{"seq":`+n+`,"decisions":[]}`+"\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// TestOnlineInterrupted checks that a signal ends a session that waits for events
// or for the reader of its decisions, and that the log is complete however many
// signals arrive.
func TestOnlineInterrupted(t *testing.T) {
	cluster := file(t, "cluster.json", twoGPUs)
	for _, unread := range []bool{false, true} {
		t.Run(fmt.Sprintf("unread %v", unread), func(t *testing.T) {
			log := filepath.Join(t.TempDir(), "run.ndjson")
			c := command("online", "--cluster", cluster, "--log", log)
			stdin, in, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close() }()
			c.Stdin = stdin
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			c.Stderr = &errs
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			_ = stdin.Close()
			guard := time.AfterFunc(patience, func() { _ = c.Process.Kill() })
			defer guard.Stop()
			r, sent := bufio.NewReader(out), 0
			tick := func() error {
				sent++
				_, err := fmt.Fprintf(in, `{"seq":%d,"at_s":0,"type":"tick"}`+"\n", sent)
				return err
			}
			if err := tick(); err != nil {
				t.Fatal(err)
			}
			if line, err := r.ReadString('\n'); err != nil {
				t.Fatalf("%q %v", line, err)
			}
			want := exitDone
			if unread {
				want = exitNo
				// The test writes until pipes and buffers are full and the session
				// stops reading: then an event is not taken for two seconds.
				for err == nil {
					if err := in.SetWriteDeadline(time.Now().Add(2 * time.Second)); err != nil {
						t.Fatal(err)
					}
					err = tick()
				}
			}
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = c.Process.Signal(syscall.SIGTERM) // the process may have ended
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); code != want {
				t.Errorf("%v: %s", c.ProcessState, &errs)
			}
			if out, errs, code := runHare(t, "", "online", "replay", log); code != exitDone ||
				!strings.Contains(out, "decisions identical") {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
			if got := names(t, filepath.Dir(log)); len(got) != 1 {
				t.Errorf("left: %v", got)
			}
		})
	}
}

// TestOnlineLogOutlivesItsReader checks that the log is written even if the reader
// of the decisions is gone.
func TestOnlineLogOutlivesItsReader(t *testing.T) {
	log := filepath.Join(t.TempDir(), "run.ndjson")
	c := command("online", "--cluster", file(t, "cluster.json", twoGPUs), "--log", log)
	c.Stdin = strings.NewReader(`{"seq":1,"at_s":0,"type":"tick"}` + "\n")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	c.Stdout = w
	_ = c.Run()
	_ = w.Close()
	if c.ProcessState.ExitCode() != exitInternal {
		t.Errorf("%v", c.ProcessState)
	}
	if out, errs, code := runHare(t, "", "online", "replay", log); code != exitDone ||
		!strings.HasPrefix(out, "1 event,") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// The policies of sessions are listed, one is shown with its parameters, and a name that is
// none is refused.
func TestOnlinePolicies(t *testing.T) {
	for _, x := range []struct {
		args []string
		want string
		code int
	}{
		{nil, "rolling (default)  estimates  yes    nothing       migration_s,", 0},
		{[]string{"slurm"}, "max_age_s  number  s     604800   the age at which", 0},
		{[]string{"fifo"}, "It has no parameters.", 0},
		{[]string{"fifo", "--json"}, `{"policies":[{"name":"fifo","text":"first come first served, task by task",`, 0},
		{[]string{"gavel:allox"}, "", 2},
		{[]string{"fifo", "hlas"}, "", 2},
	} {
		out, errs, code := runHare(t, "", append([]string{"online", "policies"}, x.args...)...)
		if code != x.code || !strings.Contains(out, x.want) || (code != 0) != (errs != "") {
			t.Errorf("%v: %d, %s%s", x.args, code, out, errs)
		}
	}
}
