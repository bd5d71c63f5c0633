package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// refusal runs a command line that is refused, in this process, and returns what it says.
func refusal(t *testing.T, args ...string) string {
	t.Helper()
	root := newRoot()
	root.SetArgs(args)
	_, err := root.ExecuteC()
	if err == nil {
		t.Fatalf("%q is not refused", args)
	}
	err = unknownCommand(root, err)
	if code := exitCode(err); code != exitUsage {
		t.Errorf("%q: exit %d: %v", args, code, err)
	}
	if text := err.Error(); !strings.Contains(text, "\n") {
		return text
	}
	t.Errorf("%q: more than a line: %v", args, err)
	return ""
}

// TestMistakes types mistakes: each answer names the place and what to write instead.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(tiny)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"i.json": tiny, "t.csv": "id,submit,gpus\nx,0,1\n",
		"cut.gz": packed.String()[:packed.Len()-9]} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range [][2]string{
		{"solve i.json --time-limit 2", `--time-limit "2": a time has units, such as 2s, 10m or 1h30m: write 2s`},
		{"solve i.json --time-limit 2m30", "write 2m30s"},
		{"solve i.json --time-limit 1d", "write 24h"},
		{"solve i.json --time-limit 5min", "write 5m"},
		{"bound i.json --time-limit soon", `--time-limit "soon": give a time with its unit`},
		{"solve i.json --gap 5%", `--gap "5%": give a fraction: write 0.05`},
		{"solve i.json --gap 0,05", "write 0.05"},
		{"solve i.json --gap 5", "for 5 % give 0.05"},
		{"whatif i.json --add V100=1 --gap 2", "for 2 % give 0.02"},
		{"solve i.json --gap", "--gap needs a value"},
		{"solve i.json --seed 1e3", `--seed "1e3": give a whole number: write 1000`},
		{"solve i.json --timelimit 2s", "did you mean --time-limit?"},
		{"solve i.json -time-limit 2s", "did you mean --time-limit?"},
		{"solve i.json --limit 2s", "there is --time-limit and --work-limit"},
		{"solve i.json --out r.json", "it is called --output"},
		{"solve i.json --bound prise", `--bound: unknown method "prise": did you mean "price"?`},
		{"solve i.json --method srft", `did you mean "srtf"?`},
		{"solve i.json --method lifo", "known: asrpt, "},
		{"solve i.json --detail all", "--detail: unknown detail \"all\"; known: none, jobs, lanes, tasks"},
		{"solve i.json j.json", "hare solve takes one instance file, got 2 arguments"},
		{"solve", "got 0 arguments"},
		{"solve no.json", "no.json"},
		{"bound i.json --method prices", `did you mean "price"?`},
		{"explain i.json i.json --job x", "name the job after the result"},
		{"whatif i.json", "there is no scenario"},
		{"whatif i.json --add H100", "give TYPE=COUNT, such as H100=8"},
		{"whatif i.json --add H100:4", "write H100=4"},
		{"whatif i.json --add 4xH100", "write H100=4"},
		{"whatif i.json --add V100=four", "such as V100=8"},
		{"whatif i.json --add 4", "give TYPE=COUNT, such as V100=4"},
		{"whatif i.json --remove-gpus 2", "such as n1=2"},
		{"whatif i.json --remove-gpus a:2", "write a=2"},
		{"whatif i.json --set-quota ann", "USER=COUNT"},
		{"whatif i.json --drop-node a=3600", "write a@3600"},
		{"whatif i.json --drop-node a@", "n3@96h"},
		{"whatif i.json --drop-node b@96h", `there is no node "b"; the nodes are "a"`},
		{"whatif i.json --remove-job y", `there is no job "y"; the jobs are "x"`},
		{"whatif i.json --add V100=1 --prune-below 3h", "give weight-seconds"},
		{"whatif i.json --add-job t.csv", "t.csv is a table (CSV): give a job"},
		{"whatif i.json --patch i.json", "i.json is an instance: give a JSON patch"},
		{"whatif i.json --scenario i.json", "i.json is an instance: give a scenario"},
		{"simulate --trace i.json --policy fifo", "give it by --instance i.json"},
		{"simulate --instance i.json --policy rollin", `did you mean "rolling"?`},
		{"simulate --instance i.json --policies fifo", "did you mean --policy?"},
		{"simulate --instance i.json --policy fifo --quantum 60", "write 60s"},
		{"generate --gpus V100:4", "write TYPE=COUNT"},
		{"generate --jobs ten", `--jobs "ten": give a whole number`},
		{"plot i.json i.json --width 100", "--width 100: it must be 400 to 8000"},
		{"serve --port 80", "it is called --listen"},
		{"submit --gpus V100:4 -- true", "--gpus 4 --on V100"},
		{"slove i.json", `unknown command "slove": did you mean "solve"?`},
		{"squeue", `unknown command "squeue": did you mean "jobs"?`},
		{"version x", "hare version takes no arguments"},
		{"i.json", "as in hare solve i.json"},
		{"solve .", "is a folder: name a file"},
		{"simulate i.json --policy fifo", "write --instance i.json"},
		{"simulate --instance i.json --policy fifo --bound yes", `--bound "yes": it must be one of auto, always, never`},
		{"simulate --instance i.json --policy fifo --format gavle", `--format: trace: unknown format "gavle": did you mean`},
		{"import slrum t.csv", `did you mean "slurm"?`},
		{"import t.csv", "hare import --list-formats names all formats"},
		{"shadow slrum t.csv", `unknown source "slrum": did you mean "slurm"?`},
		{"cluster creat", `hare cluster has no subcommand "creat": did you mean "create"?`},
		{"bench gp", `hare bench has no subcommand "gp". There are gap, `},
		{"online polcies", `hare online has no subcommand "polcies": did you mean "policies"?`},
		{"help slove", `unknown command "slove": did you mean "solve"?`},
		{"ray foo", "hare ray takes no arguments"},
		{"slurm foo", "hare slurm takes no arguments, got 1 argument (see hare slurm --help)"},
		{"solve cut.gz", "cut.gz: the compressed text is cut off or damaged: make or copy it again"},
		{"whatif cut.gz --add V100=1", "cut.gz: the compressed text is cut off"},
		{"simulate --trace cut.gz --policy fifo", "cut.gz: the compressed text is cut off"},
		{"import history cut.gz", "cut.gz"},
		{"import slurm cut.gz", "cut.gz"},
		{"solve i.json --gap nan%", "give a number, such as 0.05"},
		{"solve i.json --work-limit 99999999999999999999", "the number is too large"},
		{"solve i.json --previous i.json --at 5m --stability -1", "--stability must not be negative, and is -1"},
		{"solve i.json --previous i.json --at 5m --stability NaN", "such as 0.1"},
		{"simulate --instance i.json --policy fifo --sync banana", "--sync changes nothing here"},
		{"simulate --instance i.json --policy fifo --table no.csv", "it belongs to --trace"},
		{"simulate --trace small_test --policy fifo --arrivals poisson:1", "it belongs to --generate"},
		{"online --cluster i.json --policy rollin", `--policy: "rollin" is not known: did you mean "rolling"?`},
		{"online policies fiffo", `"fiffo" is not known: did you mean "fifo"?`},
		{"submit --server http://127.0.0.1:9 --on V100:4 -- true", "write --gpus 4 --on V100"},
		{"jobs --server http://127.0.0.1:99999", "a port is at most 65535"},
		{"key create --data-dir .", "--role is missing: agent, read, solve or admin"},
		{"backup . no/file", "no/file: there is no folder no: create it or name another"},
		{"backup . .", "it is a folder: name a file"},
		{"restore i.json new", "damaged: i.json is neither a data directory nor a backup of Hare"},
		{"agent --server http://127.0.0.1:9 --cluster lab --name n --directory i.json --devices cpu=1",
			"i.json: it is a file: name a folder"},
		{"serve --listen 8080", "such as 127.0.0.1:8080"},
		{"serve --listen localhost", "such as 127.0.0.1:8080"},
		{"serve --listen 127.0.0.1:0 --data-dir i.json", "i.json is not a folder: name another one"},
	} {
		if got := refusal(t, strings.Fields(x[0])...); !strings.Contains(got, x[1]) {
			t.Errorf("hare %s\n  says %s\n  want %s", x[0], got, x[1])
		}
	}
	if got := refusal(t, "undrian"); !strings.Contains(got, `did you mean "undrain"?`) {
		t.Error(got)
	}
}

// TestWrongDocuments gives other documents where an instance or a result is due.
func TestWrongDocuments(t *testing.T) {
	t.Chdir(t.TempDir())
	result, _, _ := runHare(t, tiny, "solve", "-", "-q")
	bound, _, _ := runHare(t, tiny, "bound", "-")
	what, _, _ := runHare(t, tiny, "whatif", "-", "--add", "V100=1", "-q", "-o", "-")
	files := map[string]string{"i.json": tiny, "r.json": result, "bound.json": bound, "what.ndjson": what,
		"none.json": " \n",
		"page.html": "<!DOCTYPE html>\n<html>", "picture": `<?xml version="1.0"?><svg>`, "t.csv": "id,submit\nx,0\n",
		"sacct.txt": "JobID|User\n1|ann\n", "nodes.txt": "NodeName=a CPUs=2\n", "c.json": `{"nodes": []}`,
		"log.ndjson": `{"hare":"log/v1","policy":"hlas"}`, "text": "hello\n", "utf16": "\xff\xfe{\x00", "zip": "PK\x03\x04x",
		"slurm.json": `{"meta": {}, "jobs": []}`, "pods.json": `{"apiVersion": "v1", "kind": "List"}`,
		"list.json": "[" + tiny + "]", "bom.json": "\xef\xbb\xbf" + tiny, "number": "12"}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"r.json":      "r.json is a result: give the instance",
		"bound.json":  "as hare bound writes it: give an instance",
		"what.ndjson": "is an answer of hare whatif",
		"none.json":   "is empty", "page.html": "is a page (HTML)", "picture": "is a picture (SVG)",
		"t.csv":      "is a table (CSV): give an instance (hare import history",
		"sacct.txt":  "is a text of sacct: give an instance (hare import slurm",
		"nodes.txt":  "is a text of Slurm (scontrol)",
		"c.json":     "is a cluster",
		"log.ndjson": "is a log of an online session", "text": `it begins with "hello"`, "utf16": "save it as UTF-8",
		"zip": "unpack it", "slurm.json": "is JSON of Slurm", "pods.json": "is a document of Kubernetes",
		"list.json": "a list that begins with an instance", "bom.json": "byte order mark", "number": "a single value",
	} {
		if got := refusal(t, "solve", name); !strings.Contains(got, want) {
			t.Errorf("solve %s: %s", name, got)
		}
		if got := refusal(t, "whatif", name, "--add", "V100=1"); name != "bom.json" && !strings.Contains(got, want) {
			t.Errorf("whatif %s: %s", name, got)
		}
	}
	for _, args := range []string{"verify r.json i.json", "plot r.json i.json -o x.svg", "explain r.json i.json x",
		"replay r.json i.json", "export slurm r.json i.json"} {
		if got := refusal(t, strings.Fields(args)...); !strings.Contains(got, "the other way round") {
			t.Errorf("%s: %s", args, got)
		}
	}
	for args, want := range map[string]string{
		"verify i.json i.json":                     "i.json is an instance: give a result",
		"explain i.json bound.json":                "give a result",
		"solve i.json --warm i.json":               "i.json is an instance: give a result",
		"online replay r.json":                     "a result: give a log of an online session",
		"online --cluster r.json":                  "r.json is a result: give a cluster",
		"estimate i.json":                          "i.json is an instance: give a table (CSV)",
		"estimate r.json --history t.csv":          "",
		"simulate --instance r.json --policy fifo": "r.json is a result: give the instance",
	} {
		if got := refusal(t, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("%s: %s", args, got)
		}
	}
}

// TestOutputsAreChecked walks all commands: every flag that names an output is refused before the work where it could
// not be written.
func TestOutputsAreChecked(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"i.json": tiny, "file": "x", "s.json": `{"id": "s"}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Flags of these names are outputs, but for the ones that draw on the terminal and the state of a helper.
	names := []string{"happened", "log", "out", "output", "plot", "record", "report", "rest", "svg"}
	seen := 0
	var walk func(path []string, c *cobra.Command)
	walk = func(path []string, c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(append(path[:len(path):len(path)], sub.Name()), sub)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			kind := outputKind(f)
			for _, name := range names {
				if f.Name == name && f.Value.Type() == "string" && kind == "" {
					t.Errorf("%s --%s is not marked as an output", c.CommandPath(), f.Name)
				}
			}
			if kind == "" {
				return
			}
			seen++
			line := append(path, "i.json", "--"+f.Name)
			for _, bad := range []string{filepath.Join("nowhere", "x.json"), filepath.Join("file", "x.svg"), ".", "i.json"} {
				if kind == outputFolder && (bad == "." || strings.HasPrefix(bad, "nowhere")) {
					continue // a folder that is there, or is made
				}
				if kind == outputLog && bad == "i.json" {
					continue
				}
				if err := checkOutputsOf(append(line[:len(line):len(line)], bad)); err == nil ||
					!strings.Contains(err.Error(), "--"+f.Name+" "+bad+": ") {
					t.Errorf("%s --%s %s: %v", c.CommandPath(), f.Name, bad, err)
				}
			}
		})
	}
	walk(nil, newRoot())
	if seen < 20 {
		t.Errorf("%d flags name outputs", seen)
	}
	for line, want := range map[string]string{
		"solve i.json -o r.svg":                              "end the name in .json",
		"plot i.json r.json -o x.pdf":                        "end the name in .svg, .png or .html",
		"whatif i.json --add V100=1 --plot x":                "end the name in .svg, .png or .html",
		"import history i.json --report a.json -o a.json":    "names the same file",
		"simulate --policy fifo --instance i.json -o x.html": "name a folder",
		"whatif i.json --scenario s.json -o ./s.json":        "it is also an input",
		"solve i.json -o " + strings.Repeat("x", 300):        "name too long",
	} {
		if err := checkOutputsOf(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	left, err := filepath.Glob(".*")
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// checkOutputsOf parses a command line and checks its outputs, as is done before each command.
func checkOutputsOf(line []string) error {
	c, rest, err := newRoot().Find(line)
	if err != nil {
		return err
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return checkOutputs(c, c.Flags().Args())
}
