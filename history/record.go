package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"bufio"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/internal/atomicfile"
)

// recordForm is the form of the logs of Recorder.
const recordForm = "shadow-log/v1"

// Times of Recorder.
const (
	lookUs    = 600 * 1_000_000       // how often a log says that somebody looks and nothing changes
	compactUs = 24 * 3600 * 1_000_000 // how often a log is made shorter
)

// recordLine is one line of a log of Recorder: the beginning of a process that looks, a job or a node that
// is new or has changed, one that has gone, or that nothing changed.
type recordLine struct {
	Form     string        `json:"hare,omitempty"`
	AtUs     int64         `json:"at_us"` // since 1970
	Begin    string        `json:"begin,omitempty"`
	Interval int64         `json:"interval_us,omitempty"`
	Job      *recordedJob  `json:"job,omitempty"`
	JobGone  string        `json:"job_gone,omitempty"`
	Node     *recordedNode `json:"node,omitempty"`
	NodeGone string        `json:"node_gone,omitempty"`
}

// recordedJob is a job without its zeros; the state has its name.
type recordedJob Job

// MarshalJSON leaves zeros out.
func (j *recordedJob) MarshalJSON() ([]byte, error) {
	plain := Job(*j)
	plain.Place = Place{}
	return withoutZeros(&plain, map[string]any{"State": j.State.String()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (j *recordedJob) UnmarshalJSON(text []byte) error {
	read := struct {
		*Job
		State string
	}{Job: (*Job)(j)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	at := slices.Index(stateNames[:], read.State)
	if at < 0 || j.ID == "" {
		return fmt.Errorf("the job %.60q has the state %.40q", j.ID, read.State)
	}
	j.State = State(at)
	for _, us := range []int64{j.SubmitUs, j.EligibleUs, j.StartUs, j.EndUs, j.LimitUs, j.EstimateUs} {
		if us < 0 || us > maxTimeUs {
			return fmt.Errorf("the job %.60q has the time %d", j.ID, us)
		}
	}
	for _, n := range []int64{j.GPUs, j.Nodes, j.PerTask} {
		if n < 0 || n > hare.MaxGPUs {
			return fmt.Errorf("the job %.60q has %d GPUs or nodes", j.ID, n)
		}
	}
	if j.PartMicro < 0 || j.PartMicro > 1e6 {
		return fmt.Errorf("the job %.60q has %d millionths of a GPU", j.ID, j.PartMicro)
	}
	for _, h := range j.On {
		bad := func(n int) bool { return n < 0 || n > hare.MaxGPUs }
		if h.GPUs < 0 || h.GPUs > hare.MaxGPUs || h.Node == "" || slices.ContainsFunc(h.Numbers, bad) {
			return fmt.Errorf("the job %.60q has %d GPUs on the node %.60q", j.ID, h.GPUs, h.Node)
		}
	}
	for _, s := range j.Seconds {
		if s.Us <= 0 || s.Us > maxTimeUs || s.Type == "" {
			return fmt.Errorf("the job %.60q has the time %d on the type %.60q", j.ID, s.Us, s.Type)
		}
	}
	if j.CPUMilli < 0 || j.CPUMilli > 1e15 || j.MemoryMiB < 0 || j.MemoryMiB > 1e15 {
		return fmt.Errorf("the job %.60q has %d thousandths of CPUs and %d MiB", j.ID, j.CPUMilli, j.MemoryMiB)
	}
	return nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *recordedNode) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, (*Node)(n)); err != nil {
		return err
	}
	n.Down = nil
	for _, g := range n.GPUs {
		if g.Type == "" || g.Count <= 0 || g.Count > hare.MaxGPUs {
			return fmt.Errorf("the node %.60q has %d GPUs of the type %.60q", n.Name, g.Count, g.Type)
		}
	}
	if n.Name == "" || n.CPUMilli < 0 || n.CPUMilli > 1e15 || n.MemoryMiB < 0 || n.MemoryMiB > 1e15 {
		return fmt.Errorf("the node %.60q has %d thousandths of CPUs and %d MiB", n.Name, n.CPUMilli, n.MemoryMiB)
	}
	return nil
}

// recordedNode is a node without its zeros and without its times out of service, which the times of
// the lines tell.
type recordedNode Node

// MarshalJSON leaves zeros out.
func (n *recordedNode) MarshalJSON() ([]byte, error) {
	plain := Node(*n)
	plain.Down = nil
	return withoutZeros(&plain, nil)
}

// withoutZeros writes a struct as JSON without members that are zero, with some members replaced.
func withoutZeros(v any, replaced map[string]any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	members := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&members); err != nil {
		return nil, err
	}
	for name, value := range members {
		switch v := value.(type) {
		case nil:
			delete(members, name)
		case map[string]any:
			if name == "Place" {
				delete(members, name)
			}
		case string, bool, json.Number:
			if text := fmt.Sprint(v); text == "" || text == "false" || text == "0" {
				delete(members, name)
			}
		}
	}
	for name, value := range replaced {
		members[name] = value
	}
	return json.Marshal(members)
}

// key tells the attempts of jobs apart.
func (j *recordedJob) key() string {
	id, _, _ := strings.Cut(j.ID, "#")
	return id + "@" + itoa(j.SubmitUs)
}

// RecorderConfig says how a cluster is recorded.
type RecorderConfig struct {
	Source     string // of the log: slurm, kube or ray
	IntervalUs int64  // how often somebody looks
	KeepUs     int64  // how long jobs that have ended stay in the log; 0 means for ever
}

// Recorder notes what changes on a cluster that is read again and again, in a file with one JSON object
// a line, which ReadRecorded reads. What Record has noted is on disk, and a line that a kill cut off
// is dropped by the next Recorder. It is not safe for concurrent use.
type Recorder struct {
	// SinceUs is when the log that goes on was written last; of a new one, when it began. What ended
	// since then may be noted yet.
	SinceUs int64

	cfg       RecorderConfig
	f         *os.File
	path      string
	size      int64
	beganUs   int64             // the first line
	lastUs    int64             // the last line
	compactUs int64             // when the log was made shorter
	jobs      map[string]string // as they stand in the log, by key
	alive     map[string]bool   // those that have not ended
	nodes     map[string]string
}

// OpenRecorder begins a log, or goes on with one.
func OpenRecorder(path string, cfg RecorderConfig, nowUs int64) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	r := &Recorder{cfg: cfg, f: f, path: path, compactUs: nowUs}
	if err := r.begin(nowUs); err != nil {
		_ = r.f.Close()
		return nil, err
	}
	return r, nil
}

// Close closes the file.
func (r *Recorder) Close() error { return r.f.Close() }

func (r *Recorder) begin(nowUs int64) error {
	if err := r.load(); err != nil {
		return err
	}
	if err := r.f.Truncate(r.size); err != nil {
		return err
	}
	if r.lastUs > nowUs {
		return fmt.Errorf("%s: its last line is of a time to come: set the clock, or write another log", r.path)
	}
	if err := r.compact(nowUs); err != nil {
		return err
	}
	if r.SinceUs = r.lastUs; r.SinceUs == 0 {
		r.SinceUs = nowUs
	}
	first := recordLine{AtUs: nowUs, Begin: r.cfg.Source, Interval: r.cfg.IntervalUs}
	if r.size == 0 {
		first.Form, r.beganUs = recordForm, nowUs
	}
	return r.write([]recordLine{first})
}

// load reads what stands in the file.
func (r *Recorder) load() error {
	if _, err := r.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r.jobs, r.alive, r.nodes = map[string]string{}, map[string]bool{}, map[string]string{}
	r.size, r.beganUs, r.lastUs = 0, 0, 0
	size, err := readRecords(r.path, r.f, func(_ int, l *recordLine) error {
		if r.beganUs == 0 {
			r.beganUs = l.AtUs
		}
		r.lastUs = max(r.lastUs, l.AtUs)
		switch {
		case l.Begin != "" && l.Begin != r.cfg.Source:
			return fmt.Errorf("is a log of %.20s, not of %s: give another file", l.Begin, r.cfg.Source)
		case l.Job != nil:
			text, err := json.Marshal(l.Job)
			if err != nil {
				return err
			}
			r.jobs[l.Job.key()], r.alive[l.Job.key()] = string(text), l.Job.State == Pending || l.Job.State == Running
		case l.JobGone != "":
			delete(r.alive, l.JobGone)
		case l.Node != nil:
			text, err := json.Marshal(l.Node)
			if err != nil {
				return err
			}
			r.nodes[l.Node.Name] = string(text)
		case l.NodeGone != "":
			delete(r.nodes, l.NodeGone)
		}
		return nil
	})
	r.size = size
	return err
}

// Record notes what has changed since the last call. It takes time in proportion to the log that it is
// given.
func (r *Recorder) Record(log *Log, nowUs int64) error {
	nowUs = max(nowUs, r.lastUs)
	if r.cfg.KeepUs > 0 && nowUs-r.compactUs >= compactUs {
		if err := r.compact(nowUs); err != nil {
			return err
		}
	}
	var lines []recordLine
	seen := map[string]bool{}
	for i := range log.Jobs {
		j := recordedJob(log.Jobs[i])
		live := j.State == Pending || j.State == Running
		key := j.key()
		seen[key] = true
		if _, known := r.jobs[key]; !known && !live && j.EndUs < r.beganUs || !live && j.EndUs == 0 {
			continue // had ended before the log began
		}
		text, err := json.Marshal(&j)
		if err != nil {
			return err
		}
		if r.jobs[key] != string(text) {
			lines = append(lines, recordLine{AtUs: nowUs, Job: &j})
			r.jobs[key] = string(text)
		}
		if r.alive[key] = live; !live {
			delete(r.alive, key)
		}
	}
	for _, key := range sortedStrings(r.alive) {
		if !seen[key] {
			lines = append(lines, recordLine{AtUs: nowUs, JobGone: key})
			delete(r.alive, key)
		}
	}
	nodes := map[string]bool{}
	for i := range log.Nodes {
		n := recordedNode(log.Nodes[i])
		nodes[n.Name] = true
		text, err := json.Marshal(&n)
		if err != nil {
			return err
		}
		if r.nodes[n.Name] != string(text) {
			lines = append(lines, recordLine{AtUs: nowUs, Node: &n})
			r.nodes[n.Name] = string(text)
		}
	}
	for _, name := range sortedStrings(r.nodes) {
		if !nodes[name] {
			lines = append(lines, recordLine{AtUs: nowUs, NodeGone: name})
			delete(r.nodes, name)
		}
	}
	if len(lines) == 0 && nowUs-r.lastUs < lookUs {
		return nil
	}
	if len(lines) == 0 {
		lines = []recordLine{{AtUs: nowUs}}
	}
	err := r.write(lines)
	if err != nil { // what stands in the file counts
		err = errors.Join(err, r.load())
	}
	return err
}

func sortedStrings[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// write appends lines and waits until they are on disk.
func (r *Recorder) write(lines []recordLine) error {
	text, err := recordText(lines)
	if err != nil {
		return err
	}
	info, err := r.f.Stat()
	if err != nil {
		return err
	}
	if info.Size() != r.size {
		return fmt.Errorf("%s: another process writes this log: give each its own", r.path)
	}
	if _, err = r.f.WriteAt(text, r.size); err == nil {
		err = r.f.Sync()
	}
	if err != nil {
		return errors.Join(err, r.f.Truncate(r.size))
	}
	r.size += int64(len(text))
	r.lastUs = lines[len(lines)-1].AtUs
	return nil
}

func recordText(lines []recordLine) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for i := range lines {
		if err := e.Encode(&lines[i]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// compact leaves out of the log what was superseded, and jobs that ended too long ago. The file is
// replaced as a whole.
func (r *Recorder) compact(nowUs int64) error {
	r.compactUs = nowUs
	if r.cfg.KeepUs == 0 || r.size == 0 {
		return nil
	}
	fromUs := nowUs - r.cfg.KeepUs
	if _, err := r.f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	var lines []recordLine
	last := map[string]int{} // the line that counts of a job, and of a node before the log's new beginning
	if _, err := readRecords(r.path, r.f, func(_ int, l *recordLine) error {
		lines = append(lines, *l)
		switch {
		case l.Job != nil:
			last["job "+l.Job.key()] = len(lines)
		case l.Node != nil && l.AtUs < fromUs:
			last["node "+l.Node.Name] = len(lines)
		case l.NodeGone != "" && l.AtUs < fromUs:
			last["node "+l.NodeGone] = 0
		}
		return nil
	}); err != nil {
		return err
	}
	goneBefore := map[string]bool{}
	for _, l := range lines {
		if l.JobGone != "" && l.AtUs < fromUs {
			goneBefore[l.JobGone] = true
		}
	}
	kept := []recordLine{{Form: recordForm, AtUs: max(fromUs, lines[0].AtUs), Begin: r.cfg.Source,
		Interval: r.cfg.IntervalUs}}
	for i, l := range lines {
		switch {
		case l.Job != nil:
			j := l.Job
			if last["job "+j.key()] != i+1 || goneBefore[j.key()] || j.EndUs > 0 && j.EndUs < fromUs {
				continue
			}
		case l.JobGone != "":
			if l.AtUs < fromUs {
				continue
			}
		case l.AtUs >= fromUs:
			if i == 0 {
				continue
			}
		case l.Node == nil || last["node "+l.Node.Name] != i+1:
			continue
		}
		l.Form, l.AtUs = "", max(l.AtUs, kept[0].AtUs)
		kept = append(kept, l)
	}
	text, err := recordText(kept)
	if err != nil {
		return err
	}
	err = atomicfile.Write(r.path, 0o600, text)
	// The file may have been replaced also where Write returns an error. Without an open file Record fails, and does not
	// write to a file that has no name any more.
	_ = r.f.Close()
	var opened error
	r.f, opened = os.OpenFile(r.path, os.O_RDWR, 0o600)
	if err := errors.Join(err, opened); err != nil {
		return err
	}
	return r.load()
}

// readRecords calls each for every whole line of a log of Recorder, numbered from 1, and returns how
// many bytes they have. A line at the end that was cut off is left out.
func readRecords(name string, in io.Reader, each func(number int, l *recordLine) error) (size int64, err error) {
	b := bufio.NewReaderSize(in, 1<<16)
	for number := 1; ; number++ {
		text, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if number == 1 && len(text) > 0 && !bytes.HasPrefix(text, []byte(`{"hare":"`)) {
				return 0, &RowError{Place{File: name, Line: 1}, "is no log of hare shadow --live"}
			}
			return size, nil
		}
		if err != nil {
			return size, err
		}
		if size += int64(len(text)); size > maxBytes {
			return size, fmt.Errorf("%s: more than %d MiB", name, maxBytes>>20)
		}
		var l recordLine
		if err = json.Unmarshal(text, &l); err == nil && number == 1 && l.Form != recordForm {
			err = fmt.Errorf("the first line must have \"hare\":%q", recordForm)
		}
		if err == nil && !(l.AtUs > 0 && l.AtUs <= maxTimeUs) {
			err = errors.New("the time is not between 1970 and 2199")
		}
		if err != nil {
			return size, &RowError{Place{File: name, Line: number}, "is no line of a log of hare shadow --live: " + err.Error()}
		}
		if err := each(number, &l); err != nil {
			return size, &RowError{Place{File: name, Line: number}, err.Error()}
		}
	}
}
