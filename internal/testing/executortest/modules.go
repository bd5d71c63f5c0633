// Package executortest helps to test executors: it has a round job that can be made to wait, compares checkpoints with
// plain loops, and finds the processes of jobs.
package executortest

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// slow is the example line whose tasks take 5 ms, or TASK_S seconds. Its tasks wait at a gate, where there is one.
const slow = `import os, time
from line import build, optimiser, loss
import line

BACKEND = "plain"

def batch(round, task):
    time.sleep(float(os.environ.get("TASK_S", "0.005")))
    gate = os.environ.get("GATE")
    if gate and round >= int(os.environ["GATE_ROUND"]):
        open(gate + ".reached", "w").close()
        while not os.path.exists(gate):
            time.sleep(0.01)
    return line.batch(round, task)
`

// root is the directory of the module.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("there is no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
}

// Python skips the test where there is no Python 3.11, which round jobs need, and returns the PYTHONPATH with which
// Python finds the package of workers.
func Python(t testing.TB) (path string) {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; assert sys.version_info >= (3, 11)").CombinedOutput()
	if err != nil {
		t.Skipf("no Python 3.11: %v: %s", err, out)
	}
	return filepath.Join(root(t), "executor", "python", "src")
}

// Modules writes two round jobs into a directory: line, the example, and slow, which computes the same with tasks that
// take some milliseconds, and which a Gate holds.
func Modules(t testing.TB, dir string) {
	t.Helper()
	line, err := os.ReadFile(filepath.Join(root(t), "executor", "python", "examples", "line.py"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"line.py": string(line), "slow.py": slow} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Gate keeps a job that trains slow from going on until it is open.
type Gate struct {
	t    testing.TB
	file string
}

// NewGate makes a gate before a round, the first of which is 0, and says so in the variables of a job.
func NewGate(t testing.TB, env map[string]string, round int64) *Gate {
	g := &Gate{t, filepath.Join(t.TempDir(), "gate")}
	env["GATE"], env["GATE_ROUND"] = g.file, fmt.Sprint(round)
	return g
}

// Open lets the job go on.
func (g *Gate) Open() {
	g.t.Helper()
	if err := os.WriteFile(g.file, nil, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// Reached reports whether the job has come to the gate: what it saves of the rounds before is saved then, which may be
// fewer than all.
func (g *Gate) Reached() bool {
	_, err := os.Stat(g.file + ".reached")
	return err == nil
}

// ExpectLoop compares the only checkpoint of a directory with the parameters that a plain loop over the rounds and
// their tasks gives, bit for bit. For slow the loop is that of line, which computes the same sooner.
func ExpectLoop(t testing.TB, checkpoints string, n *clusterdoc.NewJob, tasks int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(checkpoints, "*.hare"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the checkpoints in %s are %v: %v", checkpoints, files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	header, state, _ := bytes.Cut(text, []byte("\n"))
	if !bytes.Contains(header, fmt.Appendf(nil, `"version":%d,`, n.Rounds)) {
		t.Errorf("the checkpoint after %d rounds is %s", n.Rounds, header)
	}
	module := n.Module
	if module == "slow" {
		module = "line"
	}
	cmd := exec.Command("python3", filepath.Join(root(t), "executor", "worker", "testdata", "loop.py"), n.Directory,
		module, fmt.Sprint(tasks), fmt.Sprint(n.Seed), fmt.Sprint(n.Rounds))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(root(t), "executor", "python", "src"),
		"PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := hex.DecodeString(strings.TrimSpace(string(out))); err != nil || !bytes.Equal(state, want) {
		t.Errorf("the parameters %x differ from those of a loop: %x (%v)", state, want, err)
	}
}
