package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hare-sched/hare/internal/lp"
)

// patience is how long a test waits for what should happen soon: no test passes or fails by it on
// a busy machine.
const patience = time.Minute

// asHare is the environment variable that makes the test binary run as hare.
const asHare = "HARE_TEST_AS_HARE"

func TestMain(m *testing.M) {
	runTaskIfAsked() // what agents start does not inherit asHare
	runRoundsIfAsked()
	runPoolIfAsked()
	watchGPUsIfAsked()
	lp.ServeIfWorker() // without it, results would be those of an engine that cannot start
	if os.Getenv(asHare) != "" {
		main()
	}
	if dir := os.Getenv(witnessDir); dir != "" {
		beWitness(dir)
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, args...)
	c.Env = append(os.Environ(), asHare+"=1")
	return c
}

// runHare runs one command line to its end.
func runHare(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	c := command(args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

const tiny = `{"hare": "instance/v1", "cluster": {"nodes": [{"name": "a", "gpus": {"V100": 2}}]},
 "jobs": [{"id": "x", "rounds": 3, "tasks": 2, "on": {"V100": {"compute_s": 1, "sync_s": 0.5}}}]}`

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFromInstanceToPicture(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, step := range []struct {
		args []string
		want string // in standard output
	}{
		{[]string{"generate", "--jobs", "6", "--gpus", "V100=3,T4=2", "--seed", "4", "-o", at("i.json.gz")}, ""},
		{[]string{"generate", "--like", "philly", "--jobs", "50", "--gpus", "V100=8,K80=8", "--sync", "gang", "--quantum",
			"1h", "-o", at("philly.json")}, ""},
		{[]string{"hash", at("philly.json")}, ""},
		{[]string{"generate", "--like", "philly", "--jobs", "50", "--gpus", "GPU=64", "-o", at("philly.csv")}, ""},
		{[]string{"simulate", "--policy", "hlas", "--trace", at("philly.csv"), "--gpus", "GPU=64", "--sync", "rigid"},
			"hlas"},
		{[]string{"bench", "simulate", "--policies", "hlas", "--jobs", "200", "--in-this-process"},
			"| hlas | rigid | 200 | 2490 |"},
		{[]string{"solve", at("i.json.gz"), "--work-limit", "3000", "-o", at("r.json.zst")}, "above the best possible plan"},
		{[]string{"verify", at("i.json.gz"), at("r.json.zst")}, "accepted"},
		{[]string{"verify", "--json", at("i.json.gz"), at("r.json.zst")}, `"ok": true`},
		{[]string{"bound", at("i.json.gz"), "--method", "machine"}, `"certified": true`},
		{[]string{"plot", at("i.json.gz"), at("r.json.zst"), "-o", at("g.svg")}, ""},
		{[]string{"plot", at("i.json.gz"), at("r.json.zst"), "-o", at("g.png")}, ""},
		{[]string{"plot", at("i.json.gz"), at("r.json.zst"), "-o", at("g.html")}, ""},
		{[]string{"import", "gavel", "--jobs", "5", "-o", at("gavel.json")}, ""},
		{[]string{"hash", at("gavel.json")}, ""},
	} {
		stdout, stderr, code := runHare(t, "", step.args...)
		if code != 0 || !strings.Contains(stdout, step.want) {
			t.Fatalf("hare %s: exit %d\n%s%s", strings.Join(step.args, " "), code, stdout, stderr)
		}
	}
	for _, name := range []string{"g.svg", "g.png", "g.html"} {
		if info, err := os.Stat(at(name)); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPipedSolveIsJSONAlone(t *testing.T) {
	stdout, stderr, code := runHare(t, tiny, "solve", "-")
	var res struct {
		Value, Bound json.Number
		Termination  string
	}
	if err := json.Unmarshal([]byte(stdout), &res); err != nil || code != 0 || stderr != "" {
		t.Fatalf("exit %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	if res.Value != "4.5" || res.Bound != "4.5" || res.Termination != "optimal" {
		t.Errorf("%+v", res)
	}
	again, _, _ := runHare(t, tiny, "solve", "-")
	cut := func(s string) string { return s[:strings.Index(s, `"timing"`)] }
	if cut(again) != cut(stdout) {
		t.Error("equal calls gave other bytes")
	}
}

func TestExitCodes(t *testing.T) {
	instance := file(t, "i.json", tiny)
	stdout, _, _ := runHare(t, "", "solve", instance)
	forged := file(t, "r.json", strings.Replace(stdout, `"value":4.5`, `"value":4.4`, 1))
	if strings.Replace(stdout, `"value":4.5`, `"value":4.4`, 1) == stdout {
		t.Fatalf("no value to forge in %s", stdout)
	}
	for name, c := range map[string]struct {
		args  []string
		stdin string
		code  int
		want  string // in the output
	}{
		"forged value": {[]string{"verify", instance, forged}, "", 1, "value"},
		"infeasible": {[]string{"solve", "-"}, strings.Replace(tiny, `"on": {"V100"`, `"on": {"H100"`, 1), 1,
			"/jobs/0"},
		"infeasible bound": {[]string{"bound", "-"}, strings.Replace(tiny, `"on": {"V100"`, `"on": {"H100"`, 1), 1,
			"infeasible"},
		"unknown command": {[]string{"sovle"}, "", 2, "unknown command"},
		"unknown flag":    {[]string{"solve", "--magic"}, "", 2, "--help"},
		"no argument":     {[]string{"solve"}, "", 2, "one instance file"},
		"bad option":      {[]string{"solve", "--gap", "2", instance}, "", 2, "gap"},
		"absent file":     {[]string{"solve", "/nowhere/x.json"}, "", 2, "/nowhere/x.json"},
		"no place to put": {[]string{"solve", instance, "-o", "/nowhere/x.json"}, "", 2, "/nowhere"},
		"empty":           {[]string{"solve", "-"}, "", 2, "standard input"},
		"truncated":       {[]string{"solve", "-"}, tiny[:80], 2, "standard input"},
		"brackets":        {[]string{"solve", "-"}, strings.Repeat("[", 1e7), 2, "standard input"},
		"unknown field": {[]string{"solve", "-"}, strings.Replace(tiny, `"rounds"`, `"round"`, 1), 2,
			`did you mean "rounds"`},
		"many GPUs": {[]string{"solve", "-"}, strings.Replace(tiny, `"name"`, `"count": 2000000000, "name"`, 1), 2,
			"count"},
		"seven decimals": {[]string{"solve", "-"}, strings.Replace(tiny, "0.5", "0.5000001", 1), 2, "sync_s"},
		"huge number":    {[]string{"solve", "-"}, strings.Replace(tiny, "0.5", "1e309", 1), 2, "sync_s"},
		"sum beyond": {[]string{"solve", "-"}, strings.Replace(tiny, `"rounds": 3`, `"rounds": 9007199254740992`, 1), 2,
			"/jobs"},
		"stdin twice":     {[]string{"verify", "-", "-"}, "", 2, "standard input"},
		"unknown picture": {[]string{"plot", instance, forged, "-o", "x.gif"}, "", 2, ".svg"},
		"unknown trace":   {[]string{"import", "magic"}, "", 2, "--list-formats"},
		"long instance":   {[]string{"generate", "--like", "philly", "--jobs", "1000000"}, "", 2, "as a trace"},
		"two types": {[]string{"generate", "--like", "philly", "--jobs", "5", "--gpus", "V100=2,K80=2", "-o", "x.csv"},
			"", 2, "one GPU type"},
		"like nothing":    {[]string{"generate", "--like", "borg"}, "", 2, "only philly"},
		"load, no trace":  {[]string{"generate", "--load", "2"}, "", 2, "--like philly"},
		"like, arrivals":  {[]string{"generate", "--like", "philly", "--arrivals", "none"}, "", 2, "--arrivals"},
		"bench policy":    {[]string{"bench", "simulate", "--policies", "hlass"}, "", 2, "hlas"},
		"bad GPUs":        {[]string{"generate", "--gpus", "V100"}, "", 2, "V100"},
		"beyond loopback": {[]string{"serve", "--listen", "0.0.0.0:0"}, "", 2, "--insecure"},
		"no server":       {[]string{"healthcheck", "http://127.0.0.1:1/healthz"}, "", 1, "refused"},
	} {
		stdout, stderr, code := runHare(t, c.stdin, c.args...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("%s: exit %d, want %d and %q\n%.300s%.300s", name, code, c.code, c.want, stdout, stderr)
		}
		if c.code == 2 && strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: not one line: %.500s", name, stderr)
		}
	}
}

func TestHelpTeaches(t *testing.T) {
	for _, c := range newRoot().Commands() {
		if !c.Hidden && c.Name() != "completion" && c.Name() != "help" && !c.HasSubCommands() &&
			(c.Example == "" || c.Short == "") {
			t.Errorf("hare %s has no example", c.Name())
		}
	}
}

// TestInfeasibleIsANo checks that every command which finds an instance infeasible
// exits with 1 and prints the reason.
func TestInfeasibleIsANo(t *testing.T) {
	for name, c := range map[string]struct{ doc, code string }{
		"never in service " +
			"together": {
			`{"hare":"instance/v1","cluster":{"nodes":[{"name":"a","gpus":{"T4":1},"in_service_s":[[0,10]]},{"name":"b",` +
				`"gpus":{"T4":1},"in_service_s":[[20,null]]}]},
			"jobs":[{"id":"g","tasks":2,"sync":"gang","on":{"T4":{"compute_s":1}}}]}`, "never_together"},
		"wider than its type": {strings.Replace(tiny, `"tasks": 2`, `"tasks": 3, "sync": "gang"`, 1), "too_wide"},
		"no such GPU":         {strings.Replace(tiny, `"on": {"V100"`, `"on": {"T4"`, 1), "no_gpu"},
	} {
		path := file(t, "i.json", c.doc)
		for _, args := range [][]string{{"solve", path}, {"bound", path}, {"bound", path, "--method", "machine"},
			{"whatif", path, "--remove-job", "x"}, {"whatif", path, "--scale-weight", "g=2"}} {
			if args[0] == "whatif" && !strings.Contains(c.doc, `"id": "x"`) == (args[2] == "--remove-job") {
				continue
			}
			if _, stderr, code := runHare(t, "", args...); code != exitNo ||
				!strings.Contains(stderr, "infeasible: /jobs/0: ") || !strings.Contains(stderr, "("+c.code+")") {
				t.Errorf("%s: %v: exit %d, %s", name, args, code, stderr)
			}
		}
	}
}

// TestFlagsRefuseNothing checks that every flag of every command refuses
// meaningless values: negative numbers, zero where it would silently mean the
// default, and empty texts.
func TestFlagsRefuseNothing(t *testing.T) {
	// The commands themselves refuse bad values of these flags, with a better
	// message.
	own := []string{"--every", "--workers", "--lp-limit", "--generate", "--interval", "--failures"}
	// The help of these flags explains the meaning of zero.
	zero := []string{"--work-limit", "--gap", "--seed", "--queue", "--grace", "--shutdown-delay", "--reset",
		"--restart", "--mtbf", "--failures", "--switch", "--reshape", "--plan-latency", "--late-weight",
		"--per-rack", "generate --running", "--solves", "--rate", "--body", "--stored", "--sessions", "--streams",
		"quota --jobs", "solve --time-limit", "bound --time-limit", "whatif --time-limit", "explain --time-limit",
		"import --jobs", "submit --retries", "logs --task", "logs --offset", "kube --react", "kube --lease-time",
		"serve --checkpoints", "agent --copy-every", "agent --keep-checkpoints"}
	tried := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := "--" + f.Name
			if slices.Contains(own, name) {
				return
			}
			try := func(value string) (refused bool) {
				t.Helper()
				root := newRoot()
				again, _, err := root.Find(strings.Fields(c.CommandPath())[1:])
				if err != nil {
					t.Fatal(err)
				}
				if err := again.Flags().Set(f.Name, value); err != nil {
					return true // the flag is not a number
				}
				tried++
				return checkFlags(again) != nil
			}
			refuses := func(value string, want bool) {
				t.Helper()
				if try(value) != want {
					t.Errorf("%s %s=%q: refused %v", c.CommandPath(), name, value, !want)
				}
			}
			switch kind := f.Value.Type(); kind {
			case "bool":
			case "int", "int64", "uint64", "float64", "duration":
				unit := ""
				if kind == "duration" {
					unit = "s"
				}
				signed := name == "--seed" && kind == "int64"
				refuses("-1"+unit, !signed)
				refuses("0"+unit, !slices.Contains(zero, name) && !slices.Contains(zero, c.Name()+" "+name))
				if kind == "float64" {
					refuses("NaN", true)
					refuses("Inf", true)
				}
			default:
				refuses("", true)
			}
		})
	}
	walk(newRoot())
	if tried < 150 {
		t.Errorf("%d values tried", tried)
	}
	for _, c := range []struct{ args, want string }{
		{"generate --jobs 0", "--jobs must be positive"},
		{"bound - --time-limit -1s", "--time-limit must not be negative"},
		{"simulate --policy fifo --generate -1", "--generate"},
		{"simulate --policy fifo --generate 5 --failures -1", "--failures"},
		{"simulate --policy fifo --generate 5 --interval -1s", "--interval"},
		{"solve - --gap NaN", "--gap must be a number"},
		{"bench gap --workers -1 --list", "--workers"},
		{"serve --max-body 9999999999999999", "--max-body must be at most"},
		{"solve - --warm=", "--warm must not be empty"},
		{"simulate --policy fifo,", "--policy must not have empty parts"},
		{"whatif - --remove-job=", "--remove-job"},
		{"key list --data-dir=", "--data-dir must not be empty"},
	} {
		if _, errs, code := runHare(t, tiny, strings.Fields(c.args)...); code != exitUsage ||
			!strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d: %s", c.args, code, errs)
		}
	}
}
