package history

import (
	"github.com/hare-sched/hare"
)

// Config says how a log becomes an instance.
type Config struct {
	// Name is the name of the instance; empty means the source.
	Name string
	// FromUs and UntilUs choose the jobs that were waiting or running at FromUs or were submitted from
	// then to UntilUs, in microseconds since 1970. 0 means from the first job, and to the last.
	FromUs, UntilUs int64
	// Speeds tell how long jobs take on types on which they did not run; nil means ShippedSpeeds.
	Speeds *Speeds
	// Weights is "one" (the default), "share" (each user has the same weight in all) or "slowdown"
	// (the weight of a job is the inverse of its least time).
	Weights string
	// GPUsOnly leaves CPUs and memory out.
	GPUsOnly bool
	// Dependencies and Reservations keep what jobs waited for and what was reserved. Simulations go by
	// neither; without Dependencies a job is released when the cluster let it start.
	Dependencies, Reservations bool
	// AtUs is the time for which BuildNow makes the instance, in microseconds since 1970; 0 means the
	// end of the log. DefaultUs is the time of jobs of which nothing is known; 0 means an hour.
	AtUs, DefaultUs int64
}

// Built is an instance and what really happened on it.
type Built struct {
	Instance *hare.Instance
	// Happened is the schedule that the cluster followed, as a result without a bound. Package
	// verify reports whether it is feasible. It is nil for BuildNow.
	Happened *hare.Result
	// OriginUs is time 0 of the instance, in microseconds since 1970.
	OriginUs int64
	// Jobs are the jobs of the log that the instance has, in its order.
	Jobs   []*Job
	Report *Report
}

// builder makes an instance of a log.
type builder struct {
	cfg      Config
	log      *Log
	rep      *Report
	nodes    []Node
	index    map[string]int // of nodes by name
	jobs     []*placedJob   // in order of start
	originUs int64
	// partition says of each partition whether it leaves out a node with GPUs.
	partition map[string]bool
	taken     []bool       // while a job is placed: which GPUs of a node it has
	runaway   map[int]bool // jobs of the log of which it says wrongly that they run, by index
	labelled  []hare.Node  // the nodes with the labels by which jobs choose them
	types     []string     // the GPU types of all nodes, sorted
	medians   map[group]map[string]int64
	used      map[int][2]int64 // thousandths of CPUs and MiB of memory that running jobs hold, by node
}

// placedJob is a job of the log with the GPUs that it had.
type placedJob struct {
	*Job
	submitUs, startUs, endUs int64
	lanes                    []laneRef
	instance                 int // index in the instance
}

// laneRef is a GPU of a node.
type laneRef struct {
	node, gpu int
	gpuType   string
}

// group is what jobs have in common that should take as long as each other on one GPU type.
type group struct {
	user, name string
	gpus       int64
}
