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
		Version    int
		Agents     []savedAgent `json:",omitempty"`
		Jobs       []savedJob   `json:",omitempty"` // that have not ended
		Waiting    []hare.Event `json:",omitempty"`
		Seq        int64        `json:",omitempty"`
		Touched    []int        `json:",omitempty"`
		Affinities []int        `json:"Pins,omitempty"`
		Types      []string     `json:",omitempty"`
		NowUs      int64        `json:",omitempty"`
		Usage      *savedUsage  `json:",omitempty"` // nil: as of a version without a history
	}
	savedUsage struct {
		AtUs int64
		Open Usage
		Over []Usage `json:",omitempty"`
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
		ID              int
		Spec            clusterdoc.NewJob
		Key             string `json:",omitempty"`
		SecretSum       string `json:",omitempty"`
		State           clusterdoc.JobState
		Reason          string                     `json:",omitempty"`
		SubmittedUs     int64                      `json:",omitempty"`
		StartedUs       int64                      `json:",omitempty"`
		EndedUs         int64                      `json:",omitempty"`
		Arrived         bool                       `json:",omitempty"`
		Knows           int                        `json:",omitempty"`
		Granted         [][]string                 `json:",omitempty"` // of a job that has not ended
		Attempts        []savedAttempt             `json:",omitempty"`
		Live            bool                       `json:",omitempty"` // the last attempt goes on
		Failures        int                        `json:",omitempty"`
		Lost            int                        `json:",omitempty"`
		LossesSinceSave int                        `json:"Vain,omitempty"`
		LostRound       int64                      `json:",omitempty"`
		Round           int64                      `json:",omitempty"`
		Loss            string                     `json:",omitempty"`
		Cancelled       string                     `json:",omitempty"`
		SavedRound      int64                      `json:",omitempty"`
		Holders         []string                   `json:",omitempty"`
		Affinity        *savedAffinity             `json:"Pin,omitempty"`
		TrainedUs       int64                      `json:",omitempty"`
		Copy            *clusterdoc.CheckpointCopy `json:",omitempty"`
		Unreachable     []savedPair                `json:"Apart,omitempty"`

		Grants   []savedGrant     `json:",omitempty"`
		Counted  map[string]int64 `json:",omitempty"`
		Anywhere bool             `json:",omitempty"`

		Held      bool          `json:",omitempty"`
		Changes   []savedChange `json:",omitempty"`
		Submitted *submittedAs  `json:",omitempty"`

		Ran []string `json:",omitempty"` // of a job that has ended: on which GPU types, for lists
	}
	savedChange struct {
		AtUs   int64
		By     string `json:",omitempty"`
		Change clusterdoc.JobPatch
	}
	savedGrant struct {
		Round int64 `json:",omitempty"`
		Task  int   `json:",omitempty"`
		GPU   string
	}
	savedAffinity struct {
		Nodes   []string
		Avoid   []string `json:"Away,omitempty"`
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

		Out       []savedCompute `json:",omitempty"`
		Last      int            `json:",omitempty"`
		Ready     bool           `json:",omitempty"`
		Port      int            `json:",omitempty"`
		Base      int64          `json:",omitempty"`
		Round     int64          `json:",omitempty"`
		Done      []int          `json:",omitempty"`
		LostInRow int            `json:"Vain,omitempty"`
		Moved     bool           `json:",omitempty"`
		Complete  bool           `json:",omitempty"`
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
		Touched: numbers(l.touched), Affinities: numbers(l.affinities), Types: slices.Sorted(maps.Keys(l.types)),
		Usage: &savedUsage{l.usage.atUs, l.usage.open, l.usage.over}}
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
		Live: j.live != nil, Failures: j.failures, Lost: j.lost, LossesSinceSave: j.lossesSinceSave, Cancelled: j.cancelled,
		Held: j.held, Submitted: j.submitted}
	for _, x := range j.changes {
		s.Changes = append(s.Changes, savedChange{x.atUs, x.by, x.JobPatch})
	}
	if r := j.rounds; r != nil {
		s.LostRound, s.Round, s.Loss, s.SavedRound, s.TrainedUs, s.Copy = r.lost, r.reported, r.loss, r.saved, r.trainedUs,
			r.copy
		for _, a := range r.holders {
			s.Holders = append(s.Holders, a.Name)
		}
	}
	if x := j.relaxed; x != nil {
		s.Counted, s.Anywhere = maps.Clone(x.counted), x.anywhere
		for _, g := range x.grants {
			s.Grants = append(s.Grants, savedGrant{g.round, g.task, g.gpu})
		}
	}
	if slices.ContainsFunc(j.granted, func(g []string) bool { return g != nil }) {
		s.Granted = j.granted
	}
	for _, p := range j.unreachable {
		s.Unreachable = append(s.Unreachable, savedPair{p.first, p.second, p.atUs})
	}
	if j.affinity != nil {
		s.Affinity = &savedAffinity{j.affinity.nodes, j.affinity.avoid, j.affinity.untilUs}
	}
	for _, at := range j.attempts {
		x := savedAttempt{Running: at.running, Stopping: at.stopping, Failed: at.failed, Lost: at.lost, Saved: at.saved,
			Error: at.error, Result: at.result, OrderedUs: at.orderedUs, EndedUs: at.endedUs}
		if r := at.relaxed; r != nil {
			x.Last, x.Ready, x.Port, x.Base, x.Round, x.Done = r.last, r.ready, r.port, r.base, r.round, r.done
			x.LostInRow, x.Moved, x.Complete = r.lostInRow, r.moved, r.complete
			for _, c := range r.out {
				x.Out = append(x.Out, savedCompute{c.number, c.round, c.task, c.agent.Name, c.device, c.state, c.stopping,
					c.gone})
			}
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
		j, err := decoded(&s.Jobs[i], l.agentNamed)
		if err != nil {
			return err
		}
		at := s.Jobs[i].ID - 1
		if at < 0 || at >= len(l.byTime) || l.byTime[at] != nil || l.past.has(at) {
			return fmt.Errorf("job %s is there twice, or out of order", j.id)
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
	for _, a := range l.agents {
		l.recount(a)
	}
	for _, j := range l.jobs {
		if j.state == clusterdoc.JobWaiting {
			l.usage.waitingGPUs += j.gpus()
		}
	}
	if s.Usage != nil {
		l.usage.atUs, l.usage.open, l.usage.over = s.Usage.AtUs, s.Usage.Open, s.Usage.Over
	} else {
		l.advance(s.NowUs)
	}
	var err error
	if l.touched, err = l.jobsOf(s.Touched); err == nil {
		l.affinities, err = l.jobsOf(s.Affinities)
	}
	return err
}

func (l *Ledger) agentNamed(name string) *agent { return l.agents[name] }

// decoded is the job of a saved form.
func decoded(s *savedJob, agentNamed func(string) *agent) (*job, error) {
	j := newJob(jobID(s.ID), &s.Spec)
	j.key, j.secretSum, j.state, j.reason, j.cancelled = s.Key, s.SecretSum, s.State, s.Reason, s.Cancelled
	j.submittedUs, j.startedUs, j.endedUs = s.SubmittedUs, s.StartedUs, s.EndedUs
	j.arrived, j.knows, j.granted = s.Arrived, s.Knows, s.Granted
	j.failures, j.lost, j.lossesSinceSave = s.Failures, s.Lost, s.LossesSinceSave
	j.held, j.submitted = s.Held, s.Submitted
	for _, x := range s.Changes {
		j.changes = append(j.changes, change{x.AtUs, x.By, x.Change})
	}
	if j.granted == nil {
		j.granted = make([][]string, j.tasks)
	}
	if len(j.granted) != j.tasks {
		return nil, fmt.Errorf("job %s has grants of %d tasks and not %d", j.id, len(j.granted), j.tasks)
	}
	if r := j.rounds; r != nil {
		r.lost, r.reported, r.loss, r.saved, r.trainedUs, r.copy = s.LostRound, s.Round, s.Loss, s.SavedRound, s.TrainedUs,
			s.Copy
		for _, name := range s.Holders {
			a := agentNamed(name)
			if a == nil {
				return nil, fmt.Errorf("job %s has a checkpoint on %q, which is not an agent", j.id, name)
			}
			r.holders = append(r.holders, a)
		}
	}
	if x := j.relaxed; x != nil {
		x.counted, x.anywhere = s.Counted, s.Anywhere
		for _, g := range s.Grants {
			x.grants = append(x.grants, grant{g.Round, g.Task, g.GPU})
		}
	}
	for _, p := range s.Unreachable {
		j.unreachable = append(j.unreachable, unreachablePair{p.First, p.Second, p.AtUs})
	}
	if s.Affinity != nil {
		j.affinity = &affinity{s.Affinity.Nodes, s.Affinity.Avoid, s.Affinity.UntilUs}
	}
	for i := range s.Attempts {
		at, err := decodedAttempt(j, int64(i+1), &s.Attempts[i], agentNamed)
		if err != nil {
			return nil, err
		}
		j.attempts = append(j.attempts, at)
	}
	if s.Live {
		if len(j.attempts) == 0 {
			return nil, fmt.Errorf("job %s runs without an attempt", j.id)
		}
		j.live = j.attempts[len(j.attempts)-1]
		if j.relaxed != nil {
			j.live.tasks[0].agent.addServer(j)
		}
	}
	return j, nil
}

// decodedAttempt is the attempt of a saved form.
func decodedAttempt(j *job, number int64, s *savedAttempt, agentNamed func(string) *agent) (*attempt, error) {
	at := &attempt{number: number, running: s.Running, stopping: s.Stopping, failed: s.Failed, lost: s.Lost,
		saved: s.Saved, error: s.Error, result: s.Result, orderedUs: s.OrderedUs, endedUs: s.EndedUs}
	if j.relaxed != nil && len(s.Tasks) != 1 {
		return nil, fmt.Errorf("an attempt of job %s has %d parameter servers", j.id, len(s.Tasks))
	}
	agentOf := func(name string) (*agent, error) {
		if a := agentNamed(name); a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("job %s has a task on %q, which is not an agent", j.id, name)
	}
	for _, x := range s.Tasks {
		a, err := agentOf(x.Agent)
		if err != nil {
			return nil, err
		}
		t := task{a, x.Devices, x.State, x.Exit, x.Signal, x.Error, x.RanUs}
		if !t.final() {
			at.open++
		}
		at.tasks = append(at.tasks, t)
	}
	if j.relaxed == nil {
		return at, nil
	}
	r := &relaxedAttempt{last: s.Last, ready: s.Ready, port: s.Port, base: s.Base, round: s.Round, done: s.Done,
		lostInRow: s.LostInRow, moved: s.Moved, complete: s.Complete}
	at.relaxed = r
	for _, x := range s.Out {
		a, err := agentOf(x.Agent)
		if err != nil {
			return nil, err
		}
		at.open++
		r.out = append(r.out, compute{x.Number, x.Round, x.Task, a, x.Device, x.State, x.Stopping, x.Gone})
	}
	return at, nil
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

// grow makes room for n jobs in all.
func (l *Ledger) grow(n int) {
	for len(l.byTime) < n {
		l.byTime = append(l.byTime, nil)
	}
}

// archive moves the jobs that have ended since it was last called to the archive. Nobody sees a difference.
func (l *Ledger) archive() error {
	final := func(j *job) bool { return j.state.Final() }
	l.touched, l.affinities = slices.DeleteFunc(l.touched, final), slices.DeleteFunc(l.affinities, final)
	for len(l.ended) > 0 {
		n := min(len(l.ended), chunkJobs)
		chunk := make([]endedJob, n)
		for i, j := range l.ended[:n] {
			s := j.encoded()
			s.Ran = j.types()
			text, err := json.Marshal(s)
			if err != nil {
				return err
			}
			chunk[i] = endedJob{number(j.id) - 1, j.state, j.key, text}
		}
		if err := l.past.add(chunk); err != nil {
			return err
		}
		for _, j := range l.ended[:n] {
			delete(l.jobs, j.id)
			l.byTime[number(j.id)-1] = nil
		}
		l.ended = l.ended[n:]
	}
	l.ended = nil
	return nil
}

// openArchive takes the jobs that have ended from the archive of a snapshot.
func (l *Ledger) openArchive(data []byte) error {
	err := l.past.open(data, func(at int, key string) {
		if key != "" {
			l.keys[key] = jobID(at + 1)
		}
		l.counts[l.past.state(at)]++
	})
	l.grow(len(l.past.jobs))
	return err
}

// find is the job of an ID, also one that has ended; nil where there is none. What is done to a job of the archive
// is not kept.
func (l *Ledger) find(id string) *job {
	if j := l.jobs[id]; j != nil {
		return j
	}
	at := number(id) - 1
	if !l.past.has(at) {
		return nil
	}
	var s savedJob
	text, err := l.past.text(at)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	var j *job
	if err == nil {
		j, err = decoded(&s, l.agentNamed)
	}
	if err != nil {
		// The checksum of the snapshot was right, so that only a fault of this program can lead here.
		return &job{id: id, state: l.past.state(at), reason: "what is known of the job cannot be read: " + err.Error()}
	}
	return j
}
