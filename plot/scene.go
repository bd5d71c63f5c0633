package plot

import (
	"errors"
	"slices"
	"strings"

	hare "github.com/hare-sched/hare"
)

// span is one entry of a lane: rounds that start periodUs apart, each of which holds the
// GPU for holdUs. The last syncUs of holdUs are synchronisation.
type span struct {
	job                    int32
	gang                   bool // whether the GPU is held during synchronisation
	round, rounds, tasks   int64
	startUs, periodUs      int64
	holdUs, syncUs, lastUs int64 // lastUs is when the GPU is finally released
	setupUs                int64 // how long the GPU is set up for the job before startUs
	shape                  int32
	counts                 int64 // the units that one round does
	spread                 int   // the level of the rounds in hare.Levels, or noSpread
	running                bool  // whether the span is work that runs at time 0, or now in a timeline
	planned                bool  // whether the span of a timeline begins now or later
}

// lane is a GPU and its spans in order of time.
type lane struct {
	gpu   string
	typ   int // the index in scene.types
	node  int // the index in the nodes of the cluster
	away  []hare.Window
	spans []span
}

// scene is a schedule resolved against its instance, independent of any picture.
type scene struct {
	inst  *hare.Instance
	res   *hare.Result
	title string
	types []string
	lanes []lane     // by type, then as gpuOrder says
	nodes []nodeRows // the nodes of the lanes, where nodes matter to the instance
	endUs int64      // the end of the last thing shown, at least 1
	jobs  []jobTimes
	// levels are those of the cluster, and reserved are the reservations that begin before endUs.
	levels   *hare.Levels
	reserved []reservation
	// live says that the scene is a Timeline, and nowUs is its now.
	live  bool
	nowUs int64
}

// jobTimes are the start of a job's first task and the end of its last synchronisation.
type jobTimes struct {
	startUs, endUs int64
	seen           bool
	spread         int     // the coarsest level of a round, or noSpread
	shapes         []int32 // those that its rounds have, sorted
}

// lateUs returns by how long a job ends after its deadline; 0 means that it is not late.
func (s *scene) lateUs(job int32) int64 {
	if d := s.inst.Jobs[job].DeadlineUs; d > 0 && s.jobs[job].seen {
		return max(0, s.jobs[job].endUs-d)
	}
	return 0
}

// ErrNoSchedule says that a result carries no schedule to draw.
var ErrNoSchedule = errors.New("plot: the result has no schedule: solve with detail lanes")

// noSpread is the spread of a span whose instance has no levels.
const noSpread = -1

// nodeRows are the rows of one node and type in a chart of an instance to which nodes
// matter.
type nodeRows struct {
	name  string
	racks []string // as racksOf says
	typ   int
	first int // the index in scene.lanes; the other lanes of the node follow
	lanes int
	// reserved are the indices in scene.reserved of the reservations that have the node.
	reserved []int32
}

// reservation is a reservation of the instance that begins before the plan ends.
type reservation struct {
	fromUs, untilUs int64
	who             string // for whom, such as "reserved for ops"
}

func profile(on []hare.Profile, typ string) (hare.Profile, bool) {
	i, ok := slices.BinarySearchFunc(on, typ, func(p hare.Profile, t string) int { return strings.Compare(p.Type, t) })
	if !ok {
		return hare.Profile{}, false
	}
	return on[i], true
}
