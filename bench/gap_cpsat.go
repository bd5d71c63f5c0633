package bench

import (
	"bytes"
	"cmp"
	"context"
	_ "embed" // cpsat.py
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/verify"
)

// CPSAT runs the models of cpsat.py.
type CPSAT struct {
	// Python is an interpreter with ortools, which `make cpsat` installs.
	Python string
}

//go:embed cpsat.py
var cpsatScript string

// cpsatNames are the models of cpsat.py.
var cpsatNames = []string{"tasks", "blocks", "rounds", "whole", "split"}

// cpsatModels reports whether a model is made for the instance: tasks and blocks if all
// jobs are relaxed, rounds if some are, whole if none is, and split if none is and some
// are gangs.
func cpsatModels(inst *hare.Instance, model string) bool {
	var seen [3]bool
	for i := range inst.Jobs {
		seen[inst.Jobs[i].Sync] = true
	}
	switch model {
	case "tasks", "blocks":
		return seen == [3]bool{hare.Relaxed: true}
	case "rounds":
		return seen[hare.Relaxed]
	case "whole":
		return !seen[hare.Relaxed]
	}
	return seen[hare.Gang] && !seen[hare.Relaxed] // the model split
}

// ErrNoORTools says that the interpreter cannot run the models.
var ErrNoORTools = errors.New("OR-Tools is not there: make cpsat installs it into .venv")

// Check runs the interpreter once and returns the version of OR-Tools.
func (cs *CPSAT) Check(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, cs.Python, "-c",
		"import ortools; from ortools.sat.python import cp_model; print(ortools.__version__)").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cs.Python, ErrNoORTools)
	}
	return strings.TrimSpace(string(out)), nil
}

type cpsatJob struct {
	W    int64       `json:"w"`
	A    int64       `json:"a"`
	R    int64       `json:"R"`
	K    int64       `json:"K"`
	Sync string      `json:"sync"`
	On   []*[2]int64 `json:"on"`
}

type cpsatQuestion struct {
	Model   string     `json:"model"`
	LimitS  float64    `json:"limit_s"`
	Workers int        `json:"workers"`
	Seed    int64      `json:"seed"`
	GPUs    []int64    `json:"gpus"`
	Jobs    []cpsatJob `json:"jobs"`
}

type cpsatAnswer struct {
	Status  string     `json:"status"`
	Seconds float64    `json:"seconds"`
	Bound   *float64   `json:"bound"`
	Blocks  [][7]int64 `json:"blocks"`
}

// cpsatBlock is some rounds of a job back to back on GPUs of one type.
type cpsatBlock struct {
	job, class                          int
	startUs, round, rounds, gpus, tasks int64
}

// run solves inst with row.Model and fills in the row. The plan is rebuilt with every
// GPU named and must pass verify; the value is that of the plan.
func (cs *CPSAT) run(ctx context.Context, inst *hare.Instance, limit time.Duration, cfg GapConfig,
	row *GapRow) error {
	m := model.New(inst)
	if len(m.Classes) != len(m.Types) || slices.ContainsFunc(m.Classes, func(c model.Class) bool {
		return len(c.Windows) != 1 || c.Windows[0] != hare.Window{StartUs: 0, EndUs: hare.Forever}
	}) {
		row.Termination = "no model of pausing nodes"
		return nil
	}
	q, unitUs, unitMicro := newCPSATProblem(m)
	q.Model, q.LimitS, q.Workers, q.Seed = row.Model, limit.Seconds(), cfg.Solver.Workers, cfg.Seed
	input, err := json.Marshal(q)
	if err != nil {
		return err
	}
	// CP-SAT keeps to its limit within a second or so, but presolve may not.
	limited, cancel := context.WithTimeout(ctx, 2*limit+30*time.Second)
	defer cancel()
	command := exec.CommandContext(limited, cs.Python, "-c", cpsatScript)
	var out, faults bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &out, &faults
	began := time.Now()
	err = command.Run()
	row.Seconds = time.Since(began).Seconds()
	if limited.Err() != nil {
		row.Termination = "no answer in twice the time"
		return nil
	}
	var a cpsatAnswer
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &a)
	}
	if err != nil {
		last := strings.Split(strings.TrimSpace(faults.String()), "\n")
		// out of memory, or numbers beyond 64 bits
		row.Termination = "failed: " + cmp.Or(last[len(last)-1], err.Error())
		return nil
	}
	row.Seconds, row.Termination = a.Seconds, a.Status
	if a.Bound != nil && !math.IsInf(*a.Bound, 0) {
		row.BoundHolds = row.Model == "tasks" || row.Model == "whole" && !hasGang(m)
		b := amountOf(*a.Bound * float64(unitUs) / 1e6 * float64(unitMicro) / 1e6)
		for i := range m.Jobs {
			b = b.Sub(hare.Product(m.Jobs[i].WeightMicro, m.Jobs[i].ReleaseUs))
		}
		b = b.RoundDown()
		row.Bound = &b
	}
	if len(a.Blocks) == 0 {
		return nil
	}
	blocks := make([]cpsatBlock, len(a.Blocks))
	for i, b := range a.Blocks {
		blocks[i] = cpsatBlock{int(b[0]), int(b[1]), b[2] * unitUs, b[3], b[4], b[5], b[6]}
	}
	value := cpsatValue(m, blocks)
	sched, err := cpsatSchedule(m, blocks)
	if err != nil {
		return err
	}
	res := &hare.Result{Objective: hare.ObjectiveWeightedJCT, Value: &value, Schedule: sched}
	if rep := verify.Check(inst, res); len(rep.Faults) > 0 {
		return fmt.Errorf("verify refuses its plan: %s", rep.Faults[0])
	}
	row.Value = &value
	return nil
}

func hasGang(m *model.Model) bool {
	return slices.ContainsFunc(m.Jobs, func(j model.Job) bool { return j.Sync == hare.Gang })
}

// newCPSATProblem states times and weights in their greatest common units.
func newCPSATProblem(m *model.Model) (q cpsatQuestion, unitUs, unitMicro int64) {
	for i := range m.Jobs {
		j := &m.Jobs[i]
		unitMicro, unitUs = gcd(unitMicro, j.WeightMicro), gcd(unitUs, j.ReleaseUs)
		for _, mode := range j.Modes {
			unitUs = gcd(gcd(unitUs, mode.ComputeUs), mode.SyncUs)
		}
	}
	unitMicro = max(unitMicro, 1)
	for _, c := range m.Classes { // one class for each type, in the order of types
		q.GPUs = append(q.GPUs, int64(len(c.GPUs)))
	}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		job := cpsatJob{W: j.WeightMicro / unitMicro, A: j.ReleaseUs / unitUs, R: j.Rounds, K: j.Tasks,
			Sync: j.Sync.String(), On: make([]*[2]int64, len(m.Types))}
		for _, mode := range j.Modes {
			job.On[mode.Type] = &[2]int64{mode.ComputeUs / unitUs, mode.SyncUs / unitUs}
		}
		q.Jobs = append(q.Jobs, job)
	}
	return q, unitUs, unitMicro
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// times returns how long a block holds the GPU with the most tasks of a round and, for
// relaxed jobs, the synchronisation after it.
func (cb *cpsatBlock) times(m *model.Model) (holdUs, syncUs int64) {
	job := &m.Jobs[cb.job]
	for _, mode := range job.Modes {
		if mode.Type != m.Classes[cb.class].Type {
			continue
		}
		if job.Sync != hare.Relaxed {
			return mode.DurationUs(), 0
		}
		return (cb.tasks + cb.gpus - 1) / cb.gpus * mode.ComputeUs, mode.SyncUs
	}
	return 0, 0 // the job has no such mode, which verify will report
}

// cpsatValue returns Σ w (C − a), exactly, from the ends of the blocks alone.
func cpsatValue(m *model.Model, blocks []cpsatBlock) (sum hare.Amount) {
	ends := make([]int64, len(m.Jobs))
	for i := range blocks {
		b := &blocks[i]
		hold, sync := b.times(m)
		ends[b.job] = max(ends[b.job], b.startUs+b.rounds*hold+sync)
	}
	for j, end := range ends {
		sum = sum.Add(hare.Product(m.Jobs[j].WeightMicro, end-m.Jobs[j].ReleaseUs))
	}
	return sum
}

// cpsatSchedule gives every block its GPUs in order of start. Enough GPUs are free if no
// instant needs more than there are.
func cpsatSchedule(m *model.Model, blocks []cpsatBlock) (*hare.Schedule, error) {
	sched := &hare.Schedule{Jobs: make([]string, len(m.Jobs)), Lanes: make([]hare.Lane, len(m.GPUs))}
	for i := range m.Instance.Jobs {
		sched.Jobs[i] = m.Instance.Jobs[i].ID
	}
	for i := range m.GPUs {
		sched.Lanes[i].GPU = m.GPUs[i].ID
	}
	slices.SortStableFunc(blocks, func(a, b cpsatBlock) int { return cmp.Compare(a.startUs, b.startUs) })
	free := make([]int64, len(m.GPUs))
	for i := range blocks {
		b := &blocks[i]
		hold, _ := b.times(m)
		given := int64(0)
		for _, g := range m.Classes[b.class].GPUs {
			if given == b.gpus {
				break
			}
			if free[g] > b.startUs {
				continue
			}
			tasks := b.tasks / b.gpus
			if given < b.tasks%b.gpus {
				tasks++
			}
			given++
			free[g] = b.startUs + b.rounds*hold
			l := &sched.Lanes[g]
			l.Job, l.Round, l.Rounds = append(l.Job, int32(b.job)), append(l.Round, b.round), append(l.Rounds,
				b.rounds)
			l.Tasks, l.StartUs = append(l.Tasks, tasks), append(l.StartUs, b.startUs)
			period := int64(0)
			if b.rounds > 1 {
				period = hold
			}
			l.PeriodUs = append(l.PeriodUs, period)
		}
		if given < b.gpus {
			return nil, fmt.Errorf("CP-SAT's plan needs %d more GPUs than there are at %d µs", b.gpus-given, b.startUs)
		}
	}
	return sched, nil
}
