package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/hare-sched/hare"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// snapshotVersion rises whenever a ledger of an earlier version cannot be read any more, or would mean something
// else. Snapshots of other versions are refused, and the whole journal is read instead.
const snapshotVersion = 3

// Snapshot is the state of a ledger at one moment. It does not change while the ledger goes on.
type Snapshot struct {
	live []byte // one line of JSON: agents, jobs that have not ended, events
	past []byte // jobs that have ended, see archive
}

// Bytes is what Restore reads.
func (s *Snapshot) Bytes() []byte {
	data := make([]byte, 0, s.Size())
	return append(append(append(data, s.live...), '\n'), s.past...)
}

// Size is the number of bytes of Bytes.
func (s *Snapshot) Size() int { return len(s.live) + 1 + len(s.past) }

// Snapshot takes a snapshot. The time is that of writing what lives, and the jobs that have ended since the last
// snapshot: those that had ended before are encoded already.
func (l *Ledger) Snapshot() (*Snapshot, error) {
	if err := l.archive(); err != nil {
		return nil, err
	}
	live, err := json.Marshal(l.saved())
	if err != nil {
		return nil, err
	}
	return &Snapshot{live, slices.Clip(l.past.data)}, nil
}

// Restore is the ledger that a snapshot was taken of.
func Restore(data []byte) (*Ledger, error) {
	live, past, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, fmt.Errorf("ledger: a snapshot without its first line")
	}
	var version struct{ Version int }
	if err := json.Unmarshal(live, &version); err != nil {
		return nil, fmt.Errorf("ledger: a snapshot: %w", err)
	}
	if version.Version != snapshotVersion {
		return nil, fmt.Errorf("ledger: a snapshot of version %d and not %d", version.Version, snapshotVersion)
	}
	var s savedLedger
	dec := json.NewDecoder(bytes.NewReader(live))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("ledger: a snapshot: %w", err)
	}
	l := New()
	if err := l.restore(&s, past); err != nil {
		return nil, fmt.Errorf("ledger: a snapshot: %w", err)
	}
	return l, nil
}

// The form of a snapshot: agents go by name and jobs by number. TestEveryFieldIsSaved fails where a field of the
// ledger is missing here.
type (
	savedLedger struct {
		Version int
		Agents  []savedAgent `json:",omitempty"`
		Jobs    []savedJob   `json:",omitempty"` // that have not ended
		Waiting []hare.Event `json:",omitempty"`
		Seq     int64        `json:",omitempty"`
		Touched []int        `json:",omitempty"`
		Pins    []int        `json:",omitempty"`
		Types   []string     `json:",omitempty"`
		NowUs   int64        `json:",omitempty"`
	}
	savedAgent struct {
		Registration clusterdoc.Registration
		SecretSum    string             `json:",omitempty"`
		Epoch        int64              `json:",omitempty"`
		Lost         bool               `json:",omitempty"`
		Draining     bool               `json:",omitempty"`
		DrainReason  string             `json:",omitempty"`
		Devices      []savedDevice      `json:",omitempty"`
		Orders       []clusterdoc.Order `json:",omitempty"`
		LastOrder    int64              `json:",omitempty"`
		Reports      int64              `json:",omitempty"`
		Port         int                `json:",omitempty"`
	}
	savedDevice struct {
		Fault     string `json:",omitempty"`
		InSession bool   `json:",omitempty"`
		Job       int    `json:",omitempty"` // 0 where no job holds the device
	}
	savedJob struct {
		ID          int
		Spec        clusterdoc.NewJob
		Key         string `json:",omitempty"`
		SecretSum   string `json:",omitempty"`
		State       clusterdoc.JobState
		Reason      string                     `json:",omitempty"`
		SubmittedUs int64                      `json:",omitempty"`
		StartedUs   int64                      `json:",omitempty"`
		EndedUs     int64                      `json:",omitempty"`
		Arrived     bool                       `json:",omitempty"`
		Knows       int                        `json:",omitempty"`
		Granted     [][]string                 `json:",omitempty"` // of a job that has not ended
		Attempts    []savedAttempt             `json:",omitempty"`
		Live        bool                       `json:",omitempty"` // the last attempt goes on
		Failures    int                        `json:",omitempty"`
		Lost        int                        `json:",omitempty"`
		Vain        int                        `json:",omitempty"`
		LostRound   int64                      `json:",omitempty"`
		Round       int64                      `json:",omitempty"`
		Loss        string                     `json:",omitempty"`
		Cancelled   string                     `json:",omitempty"`
		SavedRound  int64                      `json:",omitempty"`
		Holders     []string                   `json:",omitempty"`
		Pin         *savedPin                  `json:",omitempty"`
		TrainedUs   int64                      `json:",omitempty"`
		Copy        *clusterdoc.CheckpointCopy `json:",omitempty"`
		Apart       []savedPair                `json:",omitempty"`

		Grants   []savedGrant     `json:",omitempty"`
		Counted  map[string]int64 `json:",omitempty"`
		Anywhere bool             `json:",omitempty"`
	}
	savedGrant struct {
		Round int64 `json:",omitempty"`
		Task  int   `json:",omitempty"`
		GPU   string
	}
	savedPin struct {
		Nodes   []string
		Away    []string `json:",omitempty"`
		UntilUs int64
	}
	savedPair struct {
		First, Second string
		AtUs          int64
	}
	savedAttempt struct {
		Tasks     []savedTask
		Running   int    `json:",omitempty"`
		Stopping  bool   `json:",omitempty"`
		Failed    bool   `json:",omitempty"`
		Lost      bool   `json:",omitempty"`
		Saved     bool   `json:",omitempty"`
		Error     string `json:",omitempty"`
		Result    string `json:",omitempty"`
		OrderedUs int64  `json:",omitempty"`
		EndedUs   int64  `json:",omitempty"`

		Out      []savedCompute `json:",omitempty"`
		Last     int            `json:",omitempty"`
		Ready    bool           `json:",omitempty"`
		Port     int            `json:",omitempty"`
		Base     int64          `json:",omitempty"`
		Round    int64          `json:",omitempty"`
		Done     []int          `json:",omitempty"`
		Vain     int            `json:",omitempty"`
		Moved    bool           `json:",omitempty"`
		Complete bool           `json:",omitempty"`
	}
	savedCompute struct {
		Number   int
		Round    int64 `json:",omitempty"`
		Task     int   `json:",omitempty"`
		Agent    string
		Device   int `json:",omitempty"`
		State    clusterdoc.TaskState
		Stopping bool `json:",omitempty"`
		Gone     bool `json:",omitempty"`
	}
	savedTask struct {
		Agent   string
		Devices []int
		State   clusterdoc.TaskState
		Exit    *int   `json:",omitempty"`
		Signal  string `json:",omitempty"`
		Error   string `json:",omitempty"`
		RanUs   int64  `json:",omitempty"`
	}
)

func (l *Ledger) saved() *savedLedger {
	s := &savedLedger{Version: snapshotVersion, Waiting: l.waiting, Seq: l.seq, NowUs: l.nowUs,
		Touched: numbers(l.touched), Pins: numbers(l.pins), Types: slices.Sorted(maps.Keys(l.types))}
	for _, name := range slices.Sorted(maps.Keys(l.agents)) {
		a := l.agents[name]
		x := savedAgent{Registration: a.Registration, SecretSum: a.secretSum, Epoch: a.epoch, Lost: a.lost,
			Draining: a.draining, DrainReason: a.drainReason, Orders: a.orders, LastOrder: a.lastOrder,
			Reports: a.reports, Port: a.port}
		for _, d := range a.devices {
			y := savedDevice{Fault: d.fault, InSession: d.inSession}
			if d.job != nil {
				y.Job = number(d.job.id)
			}
			x.Devices = append(x.Devices, y)
		}
		s.Agents = append(s.Agents, x)
	}
	for _, j := range l.byTime {
		if j != nil {
			s.Jobs = append(s.Jobs, j.encoded())
		}
	}
	return s
}

// encoded is the saved form of a job.
func (j *job) encoded() savedJob {
	s := savedJob{ID: number(j.id), Spec: j.spec, Key: j.key, SecretSum: j.secretSum, State: j.state, Reason: j.reason,
		SubmittedUs: j.submittedUs, StartedUs: j.startedUs, EndedUs: j.endedUs, Arrived: j.arrived, Knows: j.knows,
		Live: j.live != nil, Failures: j.failures, Lost: j.lost, Vain: j.vain, LostRound: j.lostRound, Round: j.round,
		Loss: j.loss, Cancelled: j.cancelled, SavedRound: j.savedRound, TrainedUs: j.trainedUs,
		Counted: maps.Clone(j.counted), Anywhere: j.anywhere, Copy: j.copy}
	for _, g := range j.grants {
		s.Grants = append(s.Grants, savedGrant{g.round, g.task, g.gpu})
	}
	if slices.ContainsFunc(j.granted, func(g []string) bool { return g != nil }) {
		s.Granted = j.granted
	}
	for _, a := range j.holders {
		s.Holders = append(s.Holders, a.Name)
	}
	for _, p := range j.apart {
		s.Apart = append(s.Apart, savedPair{p.first, p.second, p.atUs})
	}
	if j.pin != nil {
		s.Pin = &savedPin{j.pin.nodes, j.pin.away, j.pin.untilUs}
	}
	for _, at := range j.attempts {
		x := savedAttempt{Running: at.running, Stopping: at.stopping, Failed: at.failed, Lost: at.lost, Saved: at.saved,
			Error: at.error, Result: at.result, OrderedUs: at.orderedUs, EndedUs: at.endedUs, Last: at.last, Ready: at.ready,
			Port: at.port, Base: at.base, Round: at.round, Done: at.done, Vain: at.vain, Moved: at.moved, Complete: at.complete}
		for _, c := range at.out {
			x.Out = append(x.Out, savedCompute{c.number, c.round, c.task, c.agent.Name, c.device, c.state, c.stopping, c.gone})
		}
		for _, t := range at.tasks {
			x.Tasks = append(x.Tasks, savedTask{t.agent.Name, t.devices, t.state, t.exit, t.signal, t.error, t.ranUs})
		}
		s.Attempts = append(s.Attempts, x)
	}
	return s
}

func (l *Ledger) restore(s *savedLedger, past []byte) error {
	l.waiting, l.seq, l.nowUs = s.Waiting, s.Seq, s.NowUs
	for _, t := range s.Types {
		l.types[t] = true
	}
	for i := range s.Agents {
		x := &s.Agents[i]
		l.agents[x.Registration.Name] = &agent{Registration: x.Registration, secretSum: x.SecretSum, epoch: x.Epoch,
			lost: x.Lost, draining: x.Draining, drainReason: x.DrainReason, orders: x.Orders, lastOrder: x.LastOrder,
			reports: x.Reports, port: x.Port}
	}
	if err := l.openArchive(past); err != nil {
		return err
	}
	if n := len(s.Jobs); n > 0 {
		l.grow(s.Jobs[n-1].ID)
	}
	for i := range s.Jobs {
		j, err := l.decoded(&s.Jobs[i])
		if err != nil {
			return err
		}
		at := s.Jobs[i].ID - 1
		if at < 0 || at >= len(l.byTime) || l.byTime[at] != nil || l.past.has(at) {
			return fmt.Errorf("job %s stands twice, or is out of order", j.id)
		}
		l.byTime[at], l.jobs[j.id] = j, j
		l.counts[j.state]++
		if j.key != "" {
			l.keys[j.key] = j.id
		}
	}
	for at := range l.byTime {
		if l.byTime[at] == nil && !l.past.has(at) {
			return fmt.Errorf("job j%d is missing", at+1)
		}
	}
	for i := range s.Agents {
		a := l.agents[s.Agents[i].Registration.Name]
		for _, d := range s.Agents[i].Devices {
			x := device{fault: d.Fault, inSession: d.InSession}
			if d.Job != 0 {
				if x.job = l.jobs[jobID(d.Job)]; x.job == nil || x.job.live == nil {
					return fmt.Errorf("agent %q has a device of job j%d, which does not run", a.Name, d.Job)
				}
			}
			a.devices = append(a.devices, x)
		}
	}
	var err error
	if l.touched, err = l.jobsOf(s.Touched); err == nil {
		l.pins, err = l.jobsOf(s.Pins)
	}
	return err
}

// decoded is the job of a saved form.
func (l *Ledger) decoded(s *savedJob) (*job, error) {
	j := &job{id: jobID(s.ID), spec: s.Spec, key: s.Key, secretSum: s.SecretSum, state: s.State,
		reason: s.Reason, submittedUs: s.SubmittedUs, startedUs: s.StartedUs, endedUs: s.EndedUs, arrived: s.Arrived,
		knows: s.Knows, granted: s.Granted,
		failures: s.Failures, lost: s.Lost, vain: s.Vain, lostRound: s.LostRound, round: s.Round, loss: s.Loss,
		cancelled: s.Cancelled, savedRound: s.SavedRound, trainedUs: s.TrainedUs, counted: s.Counted, anywhere: s.Anywhere,
		relaxed: Shares(&s.Spec), copy: s.Copy}
	for _, g := range s.Grants {
		j.grants = append(j.grants, grant{g.Round, g.Task, g.GPU})
	}
	j.tasks, j.perTask = processes(&s.Spec)
	if j.granted == nil {
		j.granted = make([][]string, j.tasks)
	}
	for _, name := range s.Holders {
		a := l.agents[name]
		if a == nil {
			return nil, fmt.Errorf("job %s has a checkpoint on %q, which is no agent", j.id, name)
		}
		j.holders = append(j.holders, a)
	}
	for _, p := range s.Apart {
		j.apart = append(j.apart, pair{p.First, p.Second, p.AtUs})
	}
	if s.Pin != nil {
		j.pin = &pin{s.Pin.Nodes, s.Pin.Away, s.Pin.UntilUs}
	}
	for i := range s.Attempts {
		x := &s.Attempts[i]
		at := &attempt{number: int64(i + 1), running: x.Running, stopping: x.Stopping, failed: x.Failed, lost: x.Lost,
			saved: x.Saved, error: x.Error, result: x.Result, orderedUs: x.OrderedUs, endedUs: x.EndedUs, last: x.Last,
			ready: x.Ready, port: x.Port, base: x.Base, round: x.Round, done: x.Done, vain: x.Vain, moved: x.Moved,
			complete: x.Complete}
		if j.relaxed && len(x.Tasks) != 1 {
			return nil, fmt.Errorf("an attempt of job %s has %d homes", j.id, len(x.Tasks))
		}
		for _, y := range x.Tasks {
			t := task{l.agents[y.Agent], y.Devices, y.State, y.Exit, y.Signal, y.Error, y.RanUs}
			if t.agent == nil {
				return nil, fmt.Errorf("job %s has a task on %q, which is no agent", j.id, y.Agent)
			}
			if !t.final() {
				at.open++
			}
			at.tasks = append(at.tasks, t)
		}
		for _, y := range x.Out {
			c := compute{y.Number, y.Round, y.Task, l.agents[y.Agent], y.Device, y.State, y.Stopping, y.Gone}
			if c.agent == nil {
				return nil, fmt.Errorf("job %s has a task on %q, which is no agent", j.id, y.Agent)
			}
			at.open++
			at.out = append(at.out, c)
		}
		j.attempts = append(j.attempts, at)
	}
	if s.Live {
		if len(j.attempts) == 0 {
			return nil, fmt.Errorf("job %s runs without an attempt", j.id)
		}
		j.live = j.attempts[len(j.attempts)-1]
		if j.relaxed {
			j.live.tasks[0].agent.addHome(j)
		}
	}
	if len(j.granted) != j.tasks {
		return nil, fmt.Errorf("job %s has grants of %d tasks and not %d", j.id, len(j.granted), j.tasks)
	}
	return j, nil
}

func numbers(jobs []*job) (all []int) {
	for _, j := range jobs {
		all = append(all, number(j.id))
	}
	return all
}

func (l *Ledger) jobsOf(numbers []int) (all []*job, err error) {
	for _, n := range numbers {
		j := l.jobs[jobID(n)]
		if j == nil {
			return nil, fmt.Errorf("no job j%d", n)
		}
		all = append(all, j)
	}
	return all, nil
}
