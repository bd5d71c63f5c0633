package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// witnessDir is the environment variable that makes the test binary a job that writes down when it ran.
const witnessDir = "WITNESS_DIR"

// beWitness is the job: it prints numbered lines and notes the time of each in a file of its own, which no part of
// Hare reads or writes.
func beWitness(dir string) {
	name := os.Getenv("HARE_JOB") + "." + os.Getenv("HARE_ATTEMPT") + "." + os.Getenv("RANK")
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	note := func(what string) { _, _ = fmt.Fprintln(f, time.Now().UnixNano(), what) }
	note("start " + strconv.Itoa(os.Getpid()))
	lines, err := strconv.Atoi(os.Getenv("WITNESS_LINES"))
	if err != nil {
		panic(err)
	}
	for i := range lines {
		fmt.Println("line", i)
		note("line")
		time.Sleep(40 * time.Millisecond)
	}
	note("end")
	os.Exit(0)
}

// witness is what a process of a job wrote down of itself.
type witness struct {
	name        string // job.attempt.rank
	pid         int
	first, last int64 // Unix time in ns
	lines       int   // that it had printed
	ended       bool  // it came to its end
}

func witnessName(job string, attempt int64, task int) string {
	return fmt.Sprintf("%s.%d.%d", job, attempt, task)
}

// readWitnesses reads the files of all processes.
func readWitnesses(t *testing.T, dir string) map[string]*witness {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*witness{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		w := &witness{name: file.Name()}
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) < 2 || !strings.HasSuffix(line, "\n") {
				continue // the process was killed while it wrote
			}
			at, err := strconv.ParseInt(words[0], 10, 64)
			if err != nil {
				t.Fatalf("%s: %q", file.Name(), line)
			}
			switch words[1] {
			case "start":
				if w.pid != 0 {
					t.Errorf("%s was started twice", w.name)
				}
				w.first = at
				w.pid, _ = strconv.Atoi(words[2])
			case "line":
				w.lines++
			case "end":
				w.ended = true
			}
			w.last = at
		}
		if w.pid != 0 {
			all[w.name] = w
		}
	}
	return all
}

// seenCluster is what can be seen of a cluster from outside: the documents of its jobs, the outputs that the server
// has, and the witnesses. check compares them, and shares no code with what started the jobs.
type seenCluster struct {
	jobs      []*clusterdoc.Job
	lines     map[string]int // of each process of a job
	logs      map[string]string
	witnesses map[string]*witness
}

// check returns what must not be.
func (s *seenCluster) check() (faults []string) {
	fault := func(format string, a ...any) { faults = append(faults, fmt.Sprintf(format, a...)) }
	onGPU := map[string][]*witness{}
	known := map[string]bool{}
	for _, job := range s.jobs {
		end := "succeeded"
		switch {
		case job.State == clusterdoc.JobSucceeded:
		case job.State == clusterdoc.JobFailed && job.Retries == 0:
			end = "failed" // a process of the job was killed, which is no loss with a node
		default:
			fault("job %s, which always succeeds in the end, is %s: %s", job.ID, job.State, job.Reason)
		}
		var before int64 // the last sign of life of earlier attempts
		for i, at := range job.Attempts {
			if at.Attempt != int64(i+1) {
				fault("job %s: attempt %d stands at place %d", job.ID, at.Attempt, i+1)
			}
			last := i == len(job.Attempts)-1
			if last != (at.Result == end) || !last && job.Retries == 0 && at.Result != "lost" {
				fault("job %s: attempt %d of %d is %q", job.ID, at.Attempt, len(job.Attempts), at.Result)
			}
			if last && end == "failed" && !slices.ContainsFunc(at.Tasks, func(x *clusterdoc.TaskInfo) bool {
				return x.Signal == "SIGKILL" && x.State == clusterdoc.TaskEnded
			}) {
				fault("job %s has failed, and nobody has killed a process of it: %s", job.ID, at.Error)
			}
			latest := before
			for _, task := range at.Tasks {
				name := witnessName(job.ID, at.Attempt, task.Task)
				known[name] = true
				w := s.witnesses[name]
				s.checkLog(fault, name, s.lines[job.ID], at, task, w)
				if w == nil {
					if at.Result == "succeeded" {
						fault("%s succeeded and never ran", name)
					}
					continue
				}
				if w.first <= before {
					fault("%s began %d ms before an earlier attempt ended", name, (before-w.first)/1e6)
				}
				latest = max(latest, w.last)
				if at.Result == "succeeded" && !w.ended {
					fault("%s succeeded and did not come to its end", name)
				}
				for _, gpu := range task.GPUs {
					onGPU[gpu] = append(onGPU[gpu], w)
				}
			}
			before = latest
		}
	}
	for name := range s.witnesses {
		if !known[name] {
			fault("%s ran, and no document knows of it", name)
		}
	}
	for gpu, all := range onGPU {
		slices.SortFunc(all, func(a, b *witness) int { return int(a.first - b.first) })
		for i := 1; i < len(all); i++ {
			if all[i].first <= all[i-1].last {
				fault("%s had %s and %s at the same time", gpu, all[i-1].name, all[i].name)
			}
		}
	}
	slices.Sort(faults)
	return faults
}

// checkLog compares an output that the server has with what the process printed.
func (s *seenCluster) checkLog(fault func(string, ...any), name string, lines int, at *clusterdoc.Attempt,
	task *clusterdoc.TaskInfo, w *witness) {
	var whole strings.Builder
	for i := range lines {
		fmt.Fprintln(&whole, "line", i)
	}
	log := s.logs[name]
	switch {
	case !strings.HasPrefix(whole.String(), log):
		fault("the output of %s is not what it printed: %q", name, log)
	case at.Result == "succeeded" && log != whole.String():
		fault("the output of %s is incomplete: %d of %d bytes", name, len(log), whole.Len())
	case task.State == clusterdoc.TaskEnded && w != nil && strings.Count(log, "\n") < w.lines:
		fault("%s ended with %d lines printed, and %d are kept", name, w.lines, strings.Count(log, "\n"))
	}
}

// TestExecutorCheckFindsFaults shows the checker what must not be, one thing after another.
func TestExecutorCheckFindsFaults(t *testing.T) {
	sound := func() *seenCluster {
		code := 0
		return &seenCluster{
			lines: map[string]int{"j1": 2},
			logs:  map[string]string{"j1.1.0": "line 0\n", "j1.2.0": "line 0\nline 1\n"},
			witnesses: map[string]*witness{
				"j1.1.0": {name: "j1.1.0", pid: 7, first: 10, last: 20, lines: 1},
				"j1.2.0": {name: "j1.2.0", pid: 8, first: 30, last: 50, lines: 2, ended: true}},
			jobs: []*clusterdoc.Job{{ID: "j1", State: clusterdoc.JobSucceeded,
				NewJob: clusterdoc.NewJob{Retries: 1}, Attempts: []*clusterdoc.Attempt{
					{Attempt: 1, Result: "lost", Tasks: []*clusterdoc.TaskInfo{
						{GPUs: []string{"n/0"}, State: clusterdoc.TaskLost}}},
					{Attempt: 2, Result: "succeeded", Tasks: []*clusterdoc.TaskInfo{
						{GPUs: []string{"n/0"}, State: clusterdoc.TaskEnded, ExitCode: &code}}}}}}}
	}
	if faults := sound().check(); len(faults) > 0 {
		t.Fatal(faults)
	}
	for want, break_ := range map[string]func(s *seenCluster){
		"which always succeeds in the end, is failed": func(s *seenCluster) { s.jobs[0].State = clusterdoc.JobFailed },
		"nobody has killed a process of it": func(s *seenCluster) {
			s.jobs[0].State, s.jobs[0].Retries, s.jobs[0].Attempts[1].Result = clusterdoc.JobFailed, 0, "failed"
		},
		`attempt 1 of 2 is "failed"`: func(s *seenCluster) {
			s.jobs[0].Retries, s.jobs[0].Attempts[0].Result = 0, "failed"
		},
		"began 0 ms before an earlier attempt ended": func(s *seenCluster) { s.witnesses["j1.1.0"].last = 35 },
		"had j1.1.0 and j1.2.0 at the same time":     func(s *seenCluster) { s.witnesses["j1.1.0"].last = 31 },
		"succeeded and never ran":                    func(s *seenCluster) { delete(s.witnesses, "j1.2.0") },
		"succeeded and did not come to its end":      func(s *seenCluster) { s.witnesses["j1.2.0"].ended = false },
		"ran, and no document knows of it":           func(s *seenCluster) { s.witnesses["j1.3.0"] = &witness{} },
		"is incomplete: 7 of 14 bytes":               func(s *seenCluster) { s.logs["j1.2.0"] = "line 0\n" },
		"is not what it printed":                     func(s *seenCluster) { s.logs["j1.1.0"] = "line 0\nline 0\n" },
		"ended with 1 lines printed, and 0 are kept": func(s *seenCluster) {
			s.logs["j1.1.0"] = ""
			s.jobs[0].Attempts[0].Tasks[0].State = clusterdoc.TaskEnded
		},
		"attempt 1 of 2 is \"succeeded\"": func(s *seenCluster) { s.jobs[0].Attempts[0].Result = "succeeded" },
		"attempt 3 stands at place 2":     func(s *seenCluster) { s.jobs[0].Attempts[1].Attempt = 3 },
	} {
		s := sound()
		break_(s)
		if faults := s.check(); !strings.Contains(strings.Join(faults, "\n"), want) {
			t.Errorf("%q is not found: %v", want, faults)
		}
	}
}
