package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"strings"
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
		if out, errs, code := runHare(t, "", "online", "replay", log); out != "3 events, decisions identical\n" || code != exitDone {
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
		"other decision": {strings.Replace(string(text), `"gpu":"a/0","at_s":0}]`, `"gpu":"a/1","at_s":0}]`, 1), "event 1 (line 2) is decided in another way", exitNo},
		"no header":      {strings.SplitN(string(text), "\n", 2)[1], "unknown field", exitUsage},
		"gap":            {strings.Replace(string(text), `"seq":2`, `"seq":3`, 1), "line 3: event 3 at 1 cannot follow event 1", exitUsage},
		"cut":            {string(text[:len(text)-9]), "line 4: ", exitUsage},
		"empty":          {"", "the document is empty", exitUsage},
		"impossible":     {strings.Replace(string(text), `"task":0,"gpu":"a/0","compute_s"`, `"task":1,"gpu":"a/0","compute_s"`, 1), "line 3: ", exitUsage},
	} {
		out, errs, code := runHare(t, c.log, "online", "replay", "-")
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
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
		{[]string{"online", "--cluster", file(t, "c", `{"nodes":[{"name":"a","gpus":{"V100":2},"in_service_s":[[0,4]]}]}`)}, "in_service_s"},
		{[]string{"online", "replay"}, "one log"},
		{[]string{"backup", t.TempDir(), "x"}, "backup of"},
		{[]string{"restore", "nothing", t.TempDir()}, "restore of"},
	} {
		if _, errs, code := runHare(t, "", c.args...); code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, code, errs)
		}
	}
}

// Each answer comes before the next event is sent.
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
	guard := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
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
