package verify_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hare-sched/hare/verify"
	"github.com/hare-sched/hare/wire"
)

// documents are the documents of one call of a verifier.
type documents struct {
	name             string
	instance, result []byte
	previous, before []byte // nil if not given
}

// goVerdict returns the exit code of hare verify: 0 accepted, 1 refused, 2 not readable.
func goVerdict(p *documents) (code int, said string) {
	inst, err := wire.DecodeInstance(bytes.NewReader(p.instance), wire.Limits{})
	if err != nil {
		return 2, err.Error()
	}
	res, err := wire.DecodeResult(bytes.NewReader(p.result), wire.Limits{})
	if err != nil {
		return 2, err.Error()
	}
	prev := &verify.Previous{}
	if p.previous != nil {
		if prev.Result, err = wire.DecodeResult(bytes.NewReader(p.previous), wire.Limits{}); err != nil {
			return 2, err.Error()
		}
	}
	if p.before != nil {
		if prev.Instance, err = wire.DecodeInstance(bytes.NewReader(p.before), wire.Limits{}); err != nil {
			return 2, err.Error()
		}
	}
	rep := verify.CheckReplan(inst, res, prev)
	if !rep.OK {
		return 1, rep.String()
	}
	return 0, rep.String()
}

// python is hare_verify.py in a process that serves one call after another.
type python struct {
	dir string
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

func startPython(t *testing.T) *python {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("PYTHON_REQUIRED") != "" {
			t.Fatal("there is no python3")
		}
		t.Skip("there is no python3")
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	p := &python{dir: t.TempDir()}
	p.cmd = exec.Command(path, filepath.Join("testdata", "verdicts.py"), here)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, 1<<20)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		_ = p.cmd.Wait()
	})
	return p
}

// verdict returns the exit code of hare_verify.py and its output.
func (py *python) verdict(x *documents) (code int, said string, err error) {
	var args []string
	for _, f := range []struct {
		flag, name string
		text       []byte
	}{{"", "instance", x.instance}, {"", "result", x.result}, {"--previous", "previous", x.previous},
		{"--previous-instance", "before", x.before}} {
		if f.text == nil {
			continue
		}
		path := filepath.Join(py.dir, f.name+".json")
		if err := os.WriteFile(path, f.text, 0o600); err != nil {
			return 0, "", err
		}
		if f.flag != "" {
			args = append(args, f.flag)
		}
		args = append(args, path)
	}
	line, err := json.Marshal(args)
	if err != nil {
		return 0, "", err
	}
	if _, err := py.in.Write(append(line, '\n')); err != nil {
		return 0, "", err
	}
	if !py.out.Scan() {
		return 0, "", fmt.Errorf("hare_verify.py has ended: %w", cmp.Or(py.out.Err(), io.EOF))
	}
	var answer struct {
		Code int
		Said string
	}
	err = json.Unmarshal(py.out.Bytes(), &answer)
	return answer.Code, answer.Said, err
}

// Both verifiers, written independently, give the same verdict on any documents.
func TestVerifiersAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of calls of both take some seconds")
	}
	var pys []*python
	for range min(4, runtime.GOMAXPROCS(0)) {
		pys = append(pys, startPython(t))
	}
	all := slices.Concat(soundDocuments(t), placedDocuments(t), mixedDocuments(t), levelDocuments(t), branchDocuments(t),
		searchDocuments(t), exampleDocuments(t), extremeDocuments(t))
	odd := edgeDocuments(t)
	r := rand.New(rand.NewPCG(2026, *mutantSeed))
	pool := fieldValues(all)
	for i, base := range slices.Concat(all, odd) {
		each := *mutants
		if i >= len(all) {
			each = (each + r.IntN(5)) / 5 // these documents are many and forged already
		}
		for n := range each {
			m := base
			m.name = fmt.Sprintf("%s, mutant %d", base.name, n)
			which := &m.result
			switch x := r.IntN(12); {
			case x == 0:
				which = &m.instance
			case x == 1 && m.previous != nil:
				which = &m.previous
			case x == 2 && m.before != nil:
				which = &m.before
			case x == 3 && m.previous != nil:
				m.previous, m.before = nil, nil
			}
			var what []string
			*which, what = mutant(r, *which, pool)
			m.name += ": " + strings.Join(what, ", ")
			odd = append(odd, m)
		}
	}
	all = append(all, odd...)
	counts := map[int]int{}
	differ := 0
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, py := range pys {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				x := &all[i]
				ours, oursSaid := goVerdict(x)
				theirs, theirsSaid, err := py.verdict(x)
				mu.Lock()
				counts[ours]++
				switch {
				case err != nil:
					t.Errorf("%s: %v", x.name, err)
				case (ours == 0) == (theirs == 0) && theirs >= 0:
				default:
					if differ++; differ <= 20 {
						t.Errorf("%s:\npackage verify says %d, %.300s\nhare_verify.py says %d, %.600s", x.name, ours,
							oursSaid, theirs,
							theirsSaid)
						keep(t, x, differ)
					}
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d calls, by exit code %v, %d differ", len(all), counts, differ)
	for code := range 3 {
		if counts[code] < 200 {
			t.Errorf("only %d with exit code %d", counts[code], code)
		}
	}
}

// mutants may be raised for a longer search: go test ./verify -run Agree -mutants 50.
var mutants = flag.Int("mutants", 2, "how many mutants TestVerifiersAgree makes of each set of documents")

// mutantSeed chooses other documents and other mutants of them: go test ./verify -run Agree -mutant-seed 14.
var mutantSeed = flag.Uint64("mutant-seed", 13, "which documents and mutants TestVerifiersAgree makes")

// otherDocuments is added to the seeds of documents; it is 0 for the default of -mutant-seed.
func otherDocuments() uint64 { return 100_000 * (*mutantSeed - 13) }

// keep writes the documents of a difference to the folder that VERIFY_KEEP names.
func keep(t *testing.T, x *documents, n int) {
	dir := os.Getenv("VERIFY_KEEP")
	if dir == "" {
		return
	}
	for name, text := range map[string][]byte{"instance": x.instance, "result": x.result, "previous": x.previous,
		"before": x.before} {
		if text != nil {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.%s.json", n, name)), text, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}
