// Package history reads what happened on a cluster, as Slurm, Kubernetes, Ray or a table of jobs
// tell it, and makes two things of it: the instance that the cluster had to solve, and the
// schedule that the cluster followed. Each reader says in a Report what it took, what it
// assumed and what it left out.
//
// Files have three layers. At the bottom are logs, reports and amounts in texts. Above them are the readers of each
// source (slurm, kube, ray, tables), which share a reader of what all have, the builder that makes instances of logs,
// and exports. At the top, Read knows all readers by name.
package history

import (
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// State is how a job ended, or that the job has not ended.
type State uint8

// These are the states of jobs.
const (
	Unknown State = iota
	Pending
	Running
	Completed
	Failed    // ended with an error of its own
	Cancelled // by its user or an operator
	TimedOut
	NodeFailed
	Requeued // was stopped and began again from its start, as another Job
)

var stateNames = [...]string{"unknown", "pending", "running", "completed", "failed", "cancelled", "timeout",
	"node_fail", "requeued"}

// String returns the name of the state, as tables of jobs write it.
func (st State) String() string { return stateNames[st] }

// Job is a job of a cluster. Times are microseconds since 1970-01-01 UTC; 0 means not known, or
// not yet.
type Job struct {
	ID    string // each attempt of a requeued job has an ID of its own
	Name  string
	Place Place

	User, Account, Partition, QOS string
	Reservation                   string

	State                                State
	SubmitUs, EligibleUs, StartUs, EndUs int64
	LimitUs                              int64 // 0 means no limit
	// EstimateUs is how long the user said that the job takes, where that is not its limit.
	EstimateUs int64

	// GPUs counts the GPUs of the whole job, and Nodes the nodes; 0 means not known. PerTask is
	// the number of GPUs that must be on one node, 0 where it follows from GPUs and Nodes. Several such
	// groups of GPUs may share a node.
	GPUs, Nodes, PerTask int64
	// Type is the GPU type that the job must have; "" means any type that it may use.
	Type string
	// Types are the GPU types of a job that asks for GPUs of several types; nil for all others. Sorted.
	Types []string
	// OnHold says that the job must not start until its user or an operator lets it.
	OnHold bool
	// Exclusive says that no other job may be on the nodes of the job.
	Exclusive bool
	// Features is the constraint on features of nodes, in Slurm's form.
	Features string
	// OnlyNodes are nodes that the job must have, and NotNodes nodes that it must not have; sorted.
	OnlyNodes, NotNodes []string
	// Only and Exclude are labels by which the job chooses nodes; sorted.
	Only, Exclude []hare.LabelValues
	// CPUMilli and MemoryMiB are the thousandths of CPUs and the memory of the whole job.
	CPUMilli, MemoryMiB int64

	// On says which nodes the job had and how many GPUs of which types. The list is sorted by node.
	On []Held
	// PartMicro is the part of its one GPU that a job had, in millionths, such as shards, MPS or time slices; 0 means
	// whole GPUs. Several such jobs may have had one GPU at once.
	PartMicro int64
	// After are the IDs of jobs whose ends the job waited for.
	After []string
	// Seconds are the durations on GPU types that the job's comment gives, sorted by type.
	Seconds []TypeSeconds

	parts   parts // while texts are read: what stands for parts of GPUs
	lined   bool  // the text told the command line
	guessed bool  // the GPUs are those of the command line alone
	asked   bool  // the GPUs are those that the job asked for, and no text tells which it had
	// confirmed says that squeue tells of the job, and suspended that it was or is suspended.
	confirmed, suspended bool
	noStart, noEnd       bool // the table of the job has no such column
	// resizes says that accounting tells what the job had until it changed its size, and resizedUs since when it has
	// the size that is told; 0 means from its start.
	resizes   bool
	resizedUs int64
	device    uint8 // the number of the resource by which Kubernetes counts its GPUs; 0 for none
	stays     bool  // the text cannot tell what the job asked for: it may use only the types on which it ran
}

// Held is what a job held on one node.
type Held struct {
	Node string
	// Type is the GPU type; "" means that it is not known, or that the job had no GPU there.
	Type string
	// GPUs counts the GPUs; 0 means that it is not known. Assumed says that the log tells only how many
	// the job had on all its nodes, and that they divide evenly.
	GPUs    int64
	Assumed bool `json:",omitempty"`
	// Numbers are the numbers of the GPUs on the node; nil means that they are not known.
	Numbers []int
}

// TypeSeconds is how long a job takes on one GPU type.
type TypeSeconds struct {
	Type string
	Us   int64
}

// Node is a machine of the cluster.
type Node struct {
	Name                string
	GPUs                []hare.TypeCount // sorted by type
	CPUMilli, MemoryMiB int64
	Features            []string // sorted
	Partitions          []string // sorted
	// Labels are further labels, of Kubernetes; sorted by name.
	Labels []hare.Label
	// Down are the times out of service, in microseconds since 1970, in order and disjoint. An end
	// of hare.Forever means that the node is still out of service.
	Down []hare.Window
	// Out says that nothing starts on the node at the end of the log.
	Out bool

	parts parts // while texts are read
	// future says that Slurm has a definition of the node, which is not there yet (FUTURE).
	future bool
}

// Reservation keeps nodes for some users.
type Reservation struct {
	Name            string
	Nodes           []string
	FromUs, UntilUs int64
	Users, Accounts []string
}

// Log is what a reader found.
type Log struct {
	Source       string // one of Sources or PublicSources
	Nodes        []Node
	Jobs         []Job
	Reservations []Reservation
	// NowUs is when the log ends: the time at which it was read, or its last event.
	NowUs int64
	// BeganUs is from when on a log of ReadRecorded tells all; 0 for what others tell.
	BeganUs int64
	Report  *Report
}

// addDown adds times out of service and keeps the list in order and disjoint.
func (n *Node) addDown(from, until int64) {
	if until <= from {
		return
	}
	n.Down = append(n.Down, hare.Window{StartUs: from, EndUs: until})
	slices.SortFunc(n.Down, func(a, b hare.Window) int {
		if a.StartUs != b.StartUs {
			if a.StartUs < b.StartUs {
				return -1
			}
			return 1
		}
		return 0
	})
	merged := n.Down[:1]
	for _, w := range n.Down[1:] {
		last := &merged[len(merged)-1]
		if w.StartUs <= last.EndUs {
			last.EndUs = max(last.EndUs, w.EndUs)
			continue
		}
		merged = append(merged, w)
	}
	n.Down = merged
}

// addGPUs adds GPUs of a type.
func (n *Node) addGPUs(gpuType string, count int) {
	i, found := slices.BinarySearchFunc(n.GPUs, gpuType, func(g hare.TypeCount, t string) int {
		return strings.Compare(g.Type, t)
	})
	if found {
		n.GPUs[i].Count += count
		return
	}
	n.GPUs = slices.Insert(n.GPUs, i, hare.TypeCount{Type: gpuType, Count: count})
}

// parts counts what stands for parts of GPUs. A job has one kind of them.
type parts struct{ shards, mps int64 }

func (p parts) none() bool { return p.shards == 0 && p.mps == 0 }

// times multiplies counts.
func (p parts) times(n int64) parts { return parts{p.shards * n, p.mps * n} }
