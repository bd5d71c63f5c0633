package history_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

// pretended is a cluster whose past and future are known: it tells jobs that have been submitted, and
// forgets them a while after their ends.
type pretended struct {
	jobs   []history.Job
	downUs [2]int64 // of node n1
}

const recordStart = 1_800_000_000e6

func drawCluster(rng *rand.Rand, jobs int) *pretended {
	p := &pretended{downUs: [2]int64{recordStart + 2000e6, recordStart + 3000e6}}
	for i := range jobs {
		submit := recordStart + rng.Int64N(6000)*1e6
		start := submit + rng.Int64N(300)*1e6
		j := history.Job{ID: fmt.Sprint("j", i), Name: "train", User: "ann", SubmitUs: submit, EligibleUs: submit,
			StartUs: start, EndUs: start + (1+rng.Int64N(1500))*1e6, GPUs: 1, Nodes: 1, PerTask: 1, State: history.Completed,
			On: []history.Held{{Node: fmt.Sprint("n", rng.IntN(2)), Type: "V100", GPUs: 1, Numbers: []int{i % 4}}}}
		p.jobs = append(p.jobs, j)
	}
	return p
}

// at tells the cluster at a time.
func (p *pretended) at(nowUs int64) *history.Log {
	l := &history.Log{Source: "slurm", NowUs: nowUs, Report: &history.Report{}}
	for n := range 2 {
		l.Nodes = append(l.Nodes, history.Node{Name: fmt.Sprint("n", n), GPUs: []hare.TypeCount{{Type: "V100", Count: 4}},
			Out: n == 1 && nowUs >= p.downUs[0] && nowUs < p.downUs[1]})
	}
	for i, j := range p.jobs {
		j.Place = history.Place{File: "squeue", Line: i + int(nowUs%7)} // differs in each reading
		switch {
		case nowUs < j.SubmitUs || nowUs > j.EndUs+300e6:
			continue
		case nowUs < j.StartUs:
			j.State, j.StartUs, j.EndUs, j.On = history.Pending, 0, 0, nil
		case nowUs < j.EndUs:
			j.State, j.EndUs = history.Running, 0
		}
		l.Jobs = append(l.Jobs, j)
	}
	return l
}

// TestRecorderSurvives looks at a cluster in virtual time, is killed at random points, also in the
// middle of a line, and still tells each job as it was.
func TestRecorderSurvives(t *testing.T) {
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p := drawCluster(rng, 60)
		path := filepath.Join(t.TempDir(), "shadow.ndjson")
		cfg := history.RecorderConfig{Source: "slurm", IntervalUs: 60e6}
		if seed%2 == 1 {
			cfg.KeepUs = 1e15 // is made shorter each time, and loses nothing
		}
		now := int64(recordStart)
		open := func() *history.Recorder {
			r, err := history.OpenRecorder(path, cfg, now)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r, kills := open(), 0
		for ; now < recordStart+9000e6; now += 60e6 {
			before, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Record(p.at(now), now); err != nil {
				t.Fatal(err)
			}
			if rng.IntN(3) > 0 {
				continue
			}
			kills++
			_ = r.Close()
			if after, err := os.Stat(path); err == nil && after.Size() > before.Size() && rng.IntN(2) == 0 {
				if err := os.Truncate(path, before.Size()+rng.Int64N(after.Size()-before.Size())); err != nil {
					t.Fatal(err)
				}
			}
			r = open()
		}
		if err := r.Close(); err != nil || kills < 35 {
			t.Fatalf("%d kills, %v", kills, err)
		}
		log := readRecorded(t, path)
		if log.BeganUs != recordStart || log.Source != "slurm" || len(log.Jobs) != len(p.jobs) {
			t.Fatalf("began at %d, %d jobs of %d", log.BeganUs, len(log.Jobs), len(p.jobs))
		}
		want := map[string]history.Job{}
		for _, j := range p.jobs {
			want[j.ID] = j
		}
		for _, j := range log.Jobs {
			j.Place = history.Place{}
			if d := cmp.Diff(want[j.ID], j, cmpopts.IgnoreUnexported(history.Job{})); d != "" {
				t.Errorf("seed %d: %s", seed, d)
			}
		}
		down := log.Nodes[1].Down
		if len(down) != 1 || down[0].StartUs < p.downUs[0] || down[0].StartUs > p.downUs[0]+180e6 ||
			down[0].EndUs < p.downUs[1] || down[0].EndUs > p.downUs[1]+180e6 {
			t.Errorf("seed %d: n1 was out of service in %v", seed, down)
		}
		if _, err := log.Build(history.Config{FromUs: log.BeganUs, Speeds: history.ShippedSpeeds()}); err != nil {
			t.Error(err)
		}
	}
}

func readRecorded(t *testing.T, path string) *history.Log {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	log, err := history.ReadRecorded(path, f)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// TestRecorderForgets checks that jobs which ended too long ago leave the log, that a job which vanished
// counts as ended, that a pause is told, and that a log does not grow while nothing changes.
func TestRecorderForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	p := drawCluster(rng, 50)
	path := filepath.Join(t.TempDir(), "shadow.ndjson")
	cfg := history.RecorderConfig{Source: "slurm", IntervalUs: 30e6, KeepUs: 3600e6}
	now := int64(recordStart)
	r, err := history.OpenRecorder(path, cfg, now)
	if err != nil {
		t.Fatal(err)
	}
	record := func(until int64) {
		for ; now < until; now += 30e6 {
			if err := r.Record(p.at(now), now); err != nil {
				t.Fatal(err)
			}
		}
	}
	record(recordStart + 9000e6)
	long, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	record(recordStart + 90000e6) // over a day: the log is made shorter
	short, err := os.Stat(path)
	if err != nil || short.Size() > 20_000 || short.Size() > long.Size() {
		t.Errorf("%d bytes have become %d", long.Size(), short.Size())
	}
	p.jobs = []history.Job{{ID: "lost", SubmitUs: now - 1e6, StartUs: now, EndUs: now + 1e12, GPUs: 1,
		State: history.Running, On: []history.Held{{Node: "n0", Type: "V100", GPUs: 1}}}}
	record(now + 60e6)
	p.jobs = nil
	record(now + 60e6)
	_ = r.Close()
	now += 2000e6
	if r, err = history.OpenRecorder(path, cfg, now); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	log := readRecorded(t, path)
	if len(log.Jobs) != 1 || log.Jobs[0].ID != "lost" || log.Jobs[0].State != history.Completed ||
		log.Jobs[0].EndUs == 0 {
		t.Fatalf("%+v", log.Jobs)
	}
	if !strings.Contains(log.Report.String(), "nobody looked for") {
		t.Errorf("%s", log.Report)
	}
}

// TestRecorderRefuses checks what cannot be a log.
func TestRecorderRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shadow.ndjson")
	cfg := history.RecorderConfig{Source: "slurm", IntervalUs: 30e6}
	a, err := history.OpenRecorder(path, cfg, recordStart)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	if _, err := history.OpenRecorder(path, history.RecorderConfig{Source: "ray"}, recordStart); err == nil ||
		!strings.Contains(err.Error(), ":1: is a log of slurm") {
		t.Errorf("another source: %v", err)
	}
	b, err := history.OpenRecorder(path, cfg, recordStart+1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	p := drawCluster(rand.New(rand.NewPCG(1, 1)), 5)
	if err := a.Record(p.at(recordStart+5000e6), recordStart+5000e6); err == nil ||
		!strings.Contains(err.Error(), "another process") {
		t.Errorf("two write: %v", err)
	}
	for name, text := range map[string]string{
		":1: ":  "hello\n",
		"empty": "",
		":2: ":  `{"hare":"shadow-log/v1","at_us":5,"begin":"slurm"}` + "\n{}\n",
		":3: ":  `{"hare":"shadow-log/v1","at_us":5,"begin":"slurm"}` + "\n" + `{"at_us":6}` + "\n[]\n",
	} {
		_, err := history.ReadRecorded("f", strings.NewReader(text))
		var row *history.RowError
		if !errors.As(err, &row) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzReadRecorded checks that no text makes the reader panic.
func FuzzReadRecorded(f *testing.F) {
	f.Add(`{"hare":"shadow-log/v1","at_us":5,"begin":"slurm"}` + "\n" +
		`{"at_us":6,"job":{"ID":"a","State":"running","StartUs":5}}` + "\n" + `{"at_us":7,"job_gone":"a@0"}` + "\n" +
		`{"at_us":7,"node":{"Name":"n","GPUs":[{"Type":"T4","Count":1}]}}` + "\n" + `{"at_us":9,"node_gone":"n"}` + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		log, err := history.ReadRecorded("f", strings.NewReader(text))
		if err == nil {
			_, _ = log.Build(history.Config{FromUs: log.BeganUs, Speeds: history.ShippedSpeeds()})
		}
	})
}
