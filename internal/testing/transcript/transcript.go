// Package transcript runs tests that are text: lines of what happens, each with what comes of it below.
package transcript

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
)

var update = flag.Bool("update", false, "write what comes of the lines into the transcripts of testdata")

// Run runs the cases of a file, which empty lines divide. begin is called for each case; what it returns is given the
// words of each line and returns what comes of the line. That must be the lines below that begin with two spaces.
// -update writes them. Lines that begin with # say why.
func Run(t *testing.T, path string, begin func(t *testing.T) func(words []string) string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	take := begin(t)
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "  "):
			continue
		case line == "\n":
			take = begin(t)
		}
		got.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			for out := range strings.Lines(take(words)) {
				got.WriteString("  " + strings.TrimRight(out, " \n") + "\n")
			}
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := strings.Split(string(text), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: got\n%s\nwant\n%s", path, i+1, line, want[min(i, len(want)-1)])
		}
	}
}

// Instance is what lines of Add make.
func Instance(lines string) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	for line := range strings.Lines(lines) {
		Add(inst, strings.Fields(line))
	}
	return inst
}

// Cluster is that of a line of nodes, without the word.
func Cluster(nodes string) *hare.Cluster { return &Instance("nodes " + nodes).Cluster }

// Add adds what a line says to an instance, and reports whether it says something of one:
//
//	nodes a=2A b=1A,2B
//	quota ann 2
//	jobs x gang 3x2 A:1 B:4+0.5 C:4+0.5/2.5 at=1 weight=2 user=ann only=a, y gang 1x3 A:2 B:2 mix
//
// Job x has three rounds of two tasks, which take 1 s on A, 4 s and 0.5 s of synchronisation on B, and on C 0.5 s on
// one node and 2.5 s on several. A line that cannot be read panics.
func Add(inst *hare.Instance, words []string) bool {
	switch words[0] {
	case "nodes":
		for _, w := range words[1:] {
			name, gpus, _ := strings.Cut(w, "=")
			n := hare.Node{Name: name}
			for _, g := range strings.Split(gpus, ",") {
				kind := strings.TrimLeft(g, "0123456789")
				n.GPUs = append(n.GPUs, hare.TypeCount{Type: kind, Count: int(number(strings.TrimSuffix(g, kind)))})
			}
			inst.Cluster.Nodes = append(inst.Cluster.Nodes, n)
		}
	case "quota":
		inst.Quota = append(inst.Quota, hare.Quota{User: words[1], GPUs: number(words[2])})
	case "jobs":
		for _, job := range strings.Split(strings.Join(words[1:], " "), ", ") {
			inst.Jobs = append(inst.Jobs, Job(strings.Fields(job)))
		}
	default:
		return false
	}
	return true
}

// Job is a job as Add has it.
func Job(words []string) hare.Job {
	rounds, tasks, _ := strings.Cut(words[2], "x")
	j := hare.Job{ID: words[0], WeightMicro: 1e6, Rounds: number(rounds), Tasks: number(tasks),
		Sync: hare.Sync(slices.Index([]string{"relaxed", "gang", "rigid"}, words[1]))}
	for _, w := range words[3:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "at":
			j.ReleaseUs = micros(value)
		case "weight":
			j.WeightMicro = micros(value)
		case "user":
			j.Users = []string{value}
		case "only":
			j.Only = []hare.LabelValues{{Label: hare.LabelNode, Values: []string{value}}}
		case "mix":
			j.Mix = true
		default:
			kind, times, _ := strings.Cut(w, ":")
			compute, sync, _ := strings.Cut(times, "+")
			near, far, levels := strings.Cut(sync, "/")
			p := hare.Profile{Type: kind, ComputeUs: micros(compute), SyncUs: micros(near)}
			if levels {
				p.SyncUs = micros(far)
				p.SyncAt = []hare.LevelSync{{Level: "any", SyncUs: p.SyncUs}, {Level: "node", SyncUs: micros(near)}}
			}
			j.On = append(j.On, p)
		}
	}
	return j
}

// Event is what a line says that begins with a time in seconds and a type of event:
//
//	0 job_arrived x gang x2 A:1
//	1 task_ended x/0/1 a/0 1
//	2 gpu_joined b/0 A
//	2 set_quota ann 2
//
// A task is its job, round and number, and stands before its GPU and the seconds that it computed.
func Event(words []string) (nowUs int64, e hare.Event) {
	i := slices.IndexFunc(hare.EventTypes(), func(t hare.EventType) bool { return t.String() == words[1] })
	e.Type = hare.EventTypes()[i]
	switch rest := append(words[2:], "", "", ""); e.Type {
	case hare.EventJobArrived:
		j := Job(words[2:])
		e.Job, e.Arrived = j.ID, &j
	case hare.EventTaskEnded, hare.EventTaskFailed, hare.EventComputeEnded:
		id := strings.Split(rest[0], "/")
		e.Job, e.Round, e.Task, e.GPU, e.ComputeUs = id[0], number(id[1]), number(id[2]), rest[1], micros(rest[2])
	case hare.EventGPUJoined, hare.EventGPULeft:
		e.GPU, e.GPUType = rest[0], rest[1]
	case hare.EventSetQuota:
		e.Change = &hare.Change{Quota: &hare.Quota{User: rest[0], GPUs: number(rest[1])}}
	default:
		e.Job = rest[0]
	}
	return micros(words[0]), e
}

// Decisions writes a line for each decision.
func Decisions(decisions []hare.Decision) string {
	var b strings.Builder
	for _, d := range decisions {
		fmt.Fprintf(&b, "%s %s/%d/%d %s\n", d.Type, d.Job, d.Round, d.Task, strings.Join(d.GPUs(), " "))
	}
	return b.String()
}

// number and micros read a number and seconds; none are 0.
func number(text string) int64 { return read(text, strconv.Atoi) }
func micros(text string) int64 { return read(text, hare.ParseMicros) }

func read[N int | int64](text string, parse func(string) (N, error)) int64 {
	n, err := parse(text)
	if err != nil && text != "" {
		panic(err)
	}
	return int64(n)
}
