package ledger

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// randomRecord is a record that may follow in the journal of a ledger; nil where the one that was drawn may not.
func randomRecord(rng *rand.Rand, l *Ledger) *Record {
	names := slices.Sorted(maps.Keys(l.agents))
	alive := l.AgentNames()
	switch n := rng.IntN(100); {
	case n < 12:
		return &Record{Submit: randomSubmit(rng)}
	case n < 15 && len(l.byTime) > 0:
		return &Record{Cancel: &Cancel{Job: jobID(1 + rng.IntN(len(l.byTime))), By: []string{"", "ann"}[rng.IntN(2)]}}
	case n < 17 && len(l.byTime) > 0:
		return randomChange(rng, l)
	case n < 20 || len(names) == 0:
		return randomRegister(rng, l)
	case n < 22 && len(alive) > 0:
		name := alive[rng.IntN(len(alive))]
		return &Record{Expire: &AgentEpoch{name, l.agents[name].epoch}}
	case n < 25:
		return &Record{Drain: &Drain{names[rng.IntN(len(names))], rng.IntN(3) == 0, "fans"}}
	case n < 26:
		return &Record{Tick: true}
	case n < 27 && len(l.byTime) > 0:
		x := clusterdoc.CheckpointCopy{Attempt: 1, Round: rng.Int64N(9), Bytes: 9, SHA256: "abc"}
		return &Record{Copy: &Copied{jobID(1 + rng.IntN(len(l.byTime))), x}}
	case n < 60 && len(alive) > 0:
		return randomSync(rng, l.agents[alive[rng.IntN(len(alive))]])
	case len(l.waiting) > 0:
		return randomAnswers(rng, l)
	}
	return nil
}

func randomChange(rng *rand.Rand, l *Ledger) *Record {
	hold, weight := rng.IntN(2) == 0, float64(rng.IntN(4))
	c := &Change{Job: jobID(1 + rng.IntN(len(l.byTime))), By: "ann", JobPatch: clusterdoc.JobPatch{
		Labels: map[string]*string{"team": []*string{nil, new("blue")}[rng.IntN(2)]}, Reason: "night"}}
	if rng.IntN(2) == 0 {
		c.Hold = &hold
	} else {
		c.Weight = &weight
	}
	if needed, err := l.Changes(c.Job, &c.JobPatch); err != nil || !needed {
		return nil
	}
	return &Record{Change: c}
}

func randomSubmit(rng *rand.Rand) *Submit {
	s := &Submit{Job: clusterdoc.NewJob{Name: "job", Command: []string{"true"}, GPUs: 1 + rng.IntN(3),
		Retries: rng.IntN(3), Env: map[string]string{"A": fmt.Sprint(rng.IntN(9))},
		User: []string{"", "ann", "ben"}[rng.IntN(3)], Labels: map[string]string{"team": fmt.Sprint(rng.IntN(3))}}}
	if rng.IntN(3) == 0 {
		s.Job.Command, s.Job.Module, s.Job.Directory, s.Job.Rounds = nil, "line", "/jobs", 100
		s.Job.GPUs, s.Job.Retries = 1, 5
		if rng.IntN(3) > 0 {
			s.Job.Sync, s.Shares, s.Job.GPUs, s.Job.Tasks = SyncRelaxed, true, 0, 1+rng.IntN(3)
			s.Job.Rounds = 1 + rng.Int64N(5)
			s.Job.CheckpointDirectory = []string{"", "", "/shared"}[rng.IntN(3)]
		}
	}
	if rng.IntN(3) == 0 {
		s.Job.On = map[string]float64{[]string{"V100", "T4"}[rng.IntN(2)]: 1.5}
	}
	if rng.IntN(3) == 0 {
		s.Job.SecretEnv = map[string]string{"TOKEN": fmt.Sprint("secret ", rng.IntN(9))}
		s.SecretSum = SumSecrets(s.Job.SecretEnv, "salt")
	}
	if rng.IntN(2) == 0 {
		s.Key = fmt.Sprint("key", rng.Uint64())
	}
	return s
}

func randomRegister(rng *rand.Rand, l *Ledger) *Record {
	r := clusterdoc.Registration{Protocol: 1, Name: fmt.Sprint("n", rng.IntN(6)), Incarnation: "one of sixteen bytes",
		Labels: map[string]string{"rack": "r1"}}
	for i := range 2 + rng.IntN(6)/5 {
		r.Devices = append(r.Devices, clusterdoc.AgentDevice{Type: []string{"V100", "T4"}[i%2]})
	}
	if a := l.agents[r.Name]; a != nil {
		l.eachTask(a, func(j *job, at *attempt, k int) {
			if rng.IntN(4) > 0 {
				r.Holds = append(r.Holds, clusterdoc.TaskReport{TaskID: j.taskID(at, k), State: clusterdoc.TaskRunning})
			}
		})
	}
	if l.Registrable(&r, func(string) bool { return true }) != nil {
		return nil
	}
	rec, _ := l.Registration(&r, fmt.Sprint("sum", rng.Uint64()), len(r.Holds)%2 == 0)
	return &Record{Register: rec}
}

func randomSync(rng *rand.Rand, a *agent) *Record {
	s := &SyncRecord{AgentEpoch: AgentEpoch{a.Name, a.epoch}, After: a.reports}
	for _, o := range a.orders {
		r := clusterdoc.TaskReport{TaskID: o.TaskID, State: clusterdoc.TaskRunning, RanS: rng.Float64()}
		if n := rng.IntN(5); n == 0 || o.Type == clusterdoc.OrderStop {
			exit := []int{0, 1}[rng.IntN(2)]
			r.State, r.ExitCode = clusterdoc.TaskEnded, &exit
		} else if n == 1 {
			r.State, r.Signal, r.Error = clusterdoc.TaskEnded, "SIGKILL", "out of memory"
		}
		if r.State == clusterdoc.TaskEnded {
			r.Apart = []int{rng.IntN(3), rng.IntN(3)}
		}
		if o.Start != nil && o.Start.Rounds != nil {
			r.Round, r.Loss = 1+rng.Int64N(100), "NaN"
		}
		if o.Home != nil {
			if r.State != clusterdoc.TaskRunning && rng.IntN(10) > 0 {
				r.State = clusterdoc.TaskRunning
			}
			if r.Port = rng.IntN(3) * 4711; rng.IntN(4) == 0 {
				r.Round = rng.Int64N(o.Home.Rounds + 1)
			}
		}
		if exit := 0; o.Compute != nil && rng.IntN(4) > 0 {
			r.State, r.ExitCode = clusterdoc.TaskEnded, &exit
		}
		s.Reports = append(s.Reports, r)
	}
	if rng.IntN(10) == 0 {
		s.Faults = &map[int]string{}
		if rng.IntN(2) == 0 {
			s.Faults = &map[int]string{rng.IntN(len(a.devices)): "XID 79"}
		}
	}
	return &Record{Sync: s}
}

// randomAnswers answers some events, and gives GPUs to a job with the last one.
func randomAnswers(rng *rand.Rand, l *Ledger) *Record {
	answers := make([]SessionAnswer, 1+rng.IntN(len(l.waiting)))
	if rng.IntN(3) > 0 {
		answers = make([]SessionAnswer, len(l.waiting))
	}
	if rng.IntN(20) == 0 {
		answers[0].Refused = "no"
	}
	last := &answers[len(answers)-1]
	taken := map[string]bool{}
	for _, j := range l.byTime {
		for k := range j.granted {
			for _, g := range j.granted[k] {
				taken[g] = true
			}
		}
	}
	var free []string
	for _, name := range slices.Sorted(maps.Keys(l.agents)) {
		for i, d := range l.agents[name].devices {
			if g := l.agents[name].gpu(i); d.inSession && d.job == nil && !taken[g] {
				free = append(free, g)
			}
		}
	}
	for _, j := range l.byTime {
		if j.relaxed != nil {
			free = randomGrants(rng, j, last, free)
			continue
		}
		if !j.arrived || j.live != nil || j.state.Final() || slices.ContainsFunc(j.granted, func(g []string) bool {
			return g != nil
		}) {
			continue
		}
		if n := j.tasks * j.perTask; j.perTask == 1 && n <= len(free) {
			for k := range n - rng.IntN(5)/4 { // sometimes the last task gets nothing
				last.Decisions = append(last.Decisions, Decision{Job: j.id, Task: int64(k), GPUs: []string{free[k]}})
			}
			free = free[n:]
		}
	}
	return &Record{Answers: answers}
}

// randomGrants gives some tasks of the round of a relaxed job to GPUs, and takes one back at times.
func randomGrants(rng *rand.Rand, j *job, last *SessionAnswer, free []string) []string {
	if !j.arrived {
		return free
	}
	taken := map[int]bool{}
	for _, g := range j.relaxed.grants {
		taken[g.task] = true
	}
	round := int64(0)
	if j.live != nil {
		round = j.live.relaxed.round
		for _, k := range j.live.relaxed.done {
			taken[k] = rng.IntN(10) > 0
		}
		for _, c := range j.live.relaxed.out {
			if !c.gone {
				taken[c.task] = true
			}
		}
	}
	for k := range RoundTasks(&j.spec) {
		switch {
		case taken[k] && rng.IntN(30) == 0:
			last.Decisions = append(last.Decisions, Decision{Job: j.id, Round: round, Task: int64(k)})
		case !taken[k] && len(free) > 0 && rng.IntN(8) > 0:
			last.Decisions = append(last.Decisions, Decision{Job: j.id, Round: round, Task: int64(k), GPUs: free[:1]})
			free = free[1:]
		}
	}
	return free
}

// randomJournal is a journal of n records, as they are read from the disk.
func randomJournal(t *testing.T, rng *rand.Rand, n int) []Record {
	t.Helper()
	l := New()
	var all []Record
	for at := int64(1e15); len(all) < n; at += rng.Int64N(60e6) {
		r := randomRecord(rng, l)
		if r == nil {
			continue
		}
		r.AtUs = at
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var read Record
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if err := l.Apply(&read); err != nil {
			t.Fatal(err)
		}
		all = append(all, read)
	}
	return all
}

// parts are the structs of the state.
var parts = []any{agent{}, device{}, job{}, roundState{}, relaxedState{}, attempt{}, relaxedAttempt{}, task{},
	affinity{}, unreachablePair{}, grant{}, compute{}, usage{}, change{}}

// TestSnapshotsStandForTheJournal checks on random journals that a snapshot and the records behind it give the state
// of the whole journal, and that the random journals set each field of the state.
func TestSnapshotsStandForTheJournal(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 17))
		records := randomJournal(t, rng, 600)
		whole, other := New(), New()
		for i := range records {
			if err := whole.Apply(&records[i]); err != nil {
				t.Fatal(err)
			}
			if err := other.Apply(&records[i]); err != nil {
				t.Fatalf("seed %d: record %d behind a snapshot: %v", seed, i, err)
			}
			if rng.IntN(60) > 0 {
				continue
			}
			other = restored(t, other)
			look(whole, seen)
			if diff := compare(whole, other); diff != "" {
				t.Fatalf("seed %d: another state after record %d: %s", seed, i, diff)
			}
		}
	}
	for _, v := range append([]any{Ledger{}}, parts...) {
		for i := range reflect.TypeOf(v).NumField() {
			if name := reflect.TypeOf(v).Name() + "." + reflect.TypeOf(v).Field(i).Name; !seen[name] {
				t.Errorf("the random journals never set %s: let them, and save it in snapshots", name)
			}
		}
	}
}

// TestAlteredNamesWhatHasChanged checks on random journals that each job and agent that is described otherwise behind
// a record is among those that the record has altered.
func TestAlteredNamesWhatHasChanged(t *testing.T) {
	named, changed := 0, 0
	for seed := range uint64(6) {
		l := New()
		jobs, agents := map[string]*clusterdoc.Job{}, map[string]*clusterdoc.Agent{}
		for i, r := range randomJournal(t, rand.New(rand.NewPCG(seed, 19)), 500) {
			if err := l.Apply(&r); err != nil {
				t.Fatal(err)
			}
			alteredJobs, alteredAgents := l.Altered()
			named += len(alteredJobs) + len(alteredAgents)
			for n := range l.byTime {
				id := jobID(n + 1)
				if now := l.Job(id, true); !reflect.DeepEqual(jobs[id], now) {
					if jobs[id] = now; !slices.Contains(alteredJobs, id) {
						t.Errorf("seed %d, record %d: job %s is not named", seed, i, id)
					}
					changed++
				}
			}
			for _, a := range l.Agents() {
				if !reflect.DeepEqual(agents[a.Name], a) {
					if agents[a.Name] = a; !slices.Contains(alteredAgents, a.Name) {
						t.Errorf("seed %d, record %d: agent %s is not named", seed, i, a.Name)
					}
					changed++
				}
			}
		}
	}
	if named > changed+changed/5 {
		t.Errorf("%d are named, and %d have changed", named, changed)
	}
}

func restored(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	data := s.Bytes()
	back, err := Restore(data)
	if err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	if len(data) != s.Size() {
		t.Errorf("%d bytes and not %d", len(data), s.Size())
	}
	return back
}

// look notes which fields are set; those of the archive are set in each ledger that has been restored.
func look(l *Ledger, seen map[string]bool) {
	note := func(v reflect.Value) {
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				seen[v.Type().Name()+"."+v.Type().Field(i).Name] = true
			}
		}
	}
	note(reflect.ValueOf(*l))
	note(reflect.ValueOf(l.usage))
	seen["Ledger.past"], seen["Ledger.ordered"] = true, true // the latter is empty between records
	for _, a := range l.agents {
		note(reflect.ValueOf(*a))
		for _, d := range a.devices {
			note(reflect.ValueOf(d))
		}
	}
	for _, j := range l.jobs {
		note(reflect.ValueOf(*j))
		if j.affinity != nil {
			note(reflect.ValueOf(*j.affinity))
		}
		for _, x := range j.changes {
			note(reflect.ValueOf(x))
		}
		for _, p := range j.unreachable {
			note(reflect.ValueOf(p))
		}
		if j.rounds != nil {
			note(reflect.ValueOf(*j.rounds))
		}
		if j.relaxed != nil {
			note(reflect.ValueOf(*j.relaxed))
			for _, g := range j.relaxed.grants {
				note(reflect.ValueOf(g))
			}
		}
		for _, at := range j.attempts {
			if at.relaxed != nil {
				note(reflect.ValueOf(*at.relaxed))
				for _, c := range at.relaxed.out {
					note(reflect.ValueOf(c))
				}
			}
			note(reflect.ValueOf(*at))
			for _, x := range at.tasks {
				note(reflect.ValueOf(x))
			}
		}
	}
}

// compare says how two states differ. What Apply does not look at is left out: where jobs that have ended stand, and
// that they are among those that the next answer or tick forgets.
func compare(a, b *Ledger) string {
	options := cmp.Options{cmp.AllowUnexported(parts...), cmpopts.IgnoreUnexported(Traits{}),
		cmpopts.EquateEmpty()}
	links := cmp.Options{options, cmp.Comparer(func(x, y *agent) bool { return x.Name == y.Name }),
		cmp.Comparer(func(x, y *job) bool { return x == nil && y == nil || x != nil && y != nil && x.id == y.id })}
	open := func(jobs []*job) []int {
		return numbers(slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool { return j.state.Final() }))
	}
	counts := func(l *Ledger) map[clusterdoc.JobState]int {
		all := maps.Clone(l.counts)
		maps.DeleteFunc(all, func(_ clusterdoc.JobState, n int) bool { return n == 0 })
		return all
	}
	diff := cmp.Diff([]any{a.keys, a.waiting, a.seq, a.types, counts(a), a.nowUs, len(a.byTime), open(a.touched),
		open(a.affinities), slices.Sorted(maps.Keys(a.agents)), a.usage},
		[]any{b.keys, b.waiting, b.seq, b.types, counts(b), b.nowUs, len(b.byTime), open(b.touched), open(b.affinities),
			slices.Sorted(maps.Keys(b.agents)), b.usage}, options)
	for name := range a.agents {
		diff += cmp.Diff(*a.agents[name], *b.agents[name], links)
	}
	for i := range a.byTime {
		id := jobID(i + 1)
		x, y := a.find(id), b.find(id)
		diff += cmp.Diff(*x, *y, links)
		diff += cmp.Diff(a.Job(id, true), b.Job(id, true))
		if k := (clusterdoc.TaskID{Job: id, Attempt: 1}); a.Final(id) != b.Final(id) || a.Closed(k) != b.Closed(k) {
			diff += id + " is final or closed in one of them\n"
		}
	}
	return diff + cmp.Diff(rowsOf(a), rowsOf(b), cmpopts.IgnoreUnexported(Row{}, Traits{}))
}

// rowsOf are the rows of all jobs, by number.
func rowsOf(l *Ledger) []Row {
	rows, past := l.Rows(func(clusterdoc.JobState) bool { return true }, false)
	ended, err := past.Rows()
	if err != nil {
		panic(err)
	}
	rows = append(rows, ended...)
	for i := range rows {
		rows[i].Types = nil // an agent may have other GPUs by now
	}
	slices.SortFunc(rows, func(a, b Row) int { return a.Number - b.Number })
	return rows
}

func TestBadSnapshots(t *testing.T) {
	l := New()
	for _, r := range randomJournal(t, rand.New(rand.NewPCG(1, 1)), 400) {
		if err := l.Apply(&r); err != nil {
			t.Fatal(err)
		}
	}
	s, err := l.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	good := s.Bytes()
	for _, bad := range []string{"", "{}\n", "x\n", `{"Version":4}` + "\n", `{"Version":3,"Other":2}` + "\n",
		string(good[:len(good)-1]), string(good) + "\x01", `{"Version":3,"Touched":[1]}` + "\n",
		`{"Version":3,"Jobs":[{"ID":2,"Spec":{},"State":"waiting"}]}` + "\n"} {
		if _, err := Restore([]byte(bad)); err == nil {
			t.Errorf("%.60q is taken", bad)
		}
	}
}

// FuzzRestore checks that no bytes make Restore, or whoever looks at the jobs, panic.
func FuzzRestore(f *testing.F) {
	l := New()
	f.Add([]byte(`{"Version":3}` + "\n"))
	if s, err := l.Snapshot(); err == nil {
		f.Add(s.Bytes())
	}
	f.Add([]byte(`{"Version":3}` + "\n\x01\x01\x01\x00\x02\x07\x00\x02\x00\xfd\xff{}\x03\x00"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		l, err := Restore(data)
		if err != nil {
			return
		}
		all := func(clusterdoc.JobState) bool { return true }
		ids, _, _ := l.States(all, 0, 10, false)
		for _, id := range ids {
			_ = l.Job(id, false)
		}
		_, past := l.Rows(all, true)
		_, _ = past.Rows()
		_ = l.Agents()
	})
}
