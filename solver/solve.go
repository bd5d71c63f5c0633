package solver

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy"
	"github.com/hare-sched/hare/model"
	"github.com/hare-sched/hare/relax"
	"github.com/hare-sched/hare/verify"
)

// These are the phases of a solve, in order. With enough time PhasePlan comes before PhaseBound.
const (
	PhaseAssign  = "assign"  // makes a first schedule
	PhaseBound   = "bound"   // finds prices for the certificate
	PhasePlan    = "plan"    // finds prices for the search
	PhaseImprove = "improve" // runs the search
	PhaseBranch  = "branch"  // divides the schedules into cases, to prove the best one optimal
	PhaseVerify  = "verify"  // runs the independent check
)

// Event is the state of a running solve.
type Event struct {
	Phase   string
	Elapsed time.Duration
	Left    time.Duration // the time until the deadline; negative without a deadline
	Value   *hare.Amount  // the value of the incumbent; nil without one
	Bound   *hare.Amount  // the best bound so far; nil without one
	Nodes   int           // the nodes of the tree of PhaseBranch so far
}

// Config holds the settings beside the options. Its zero value is useful.
type Config struct {
	// LP is the linear-programming engine, as of package relax/highs; nil means none.
	LP relax.LP
	// EngineVersion names the LP engine in results.
	EngineVersion string
	// Version is the version of Hare; empty means "dev".
	Version string
	// Workers limits the number of goroutines; zero means GOMAXPROCS.
	Workers int
	// BoundWork limits the work of Bound in units of the option work_limit, so that the same
	// limit gives the same bound. Zero means no limit.
	BoundWork int64
	// Progress is called from the solving goroutine, at most every 50 ms and at each change
	// of phase. It may be nil.
	Progress func(Event)
	// Checkpoint is called often from the solving goroutine, once there is a schedule. Its
	// argument builds the verified result of the best pair so far and may be used only
	// during the call. To call it costs about as much as the end of a solve, which shortens
	// the search under a time limit; nothing else of the answer changes. Checkpoint may be
	// nil.
	Checkpoint func(best func() (*hare.Result, error))
	// WarmPrices has prices of the same instance or of a similar one, from which the bound
	// starts; nil means none. WarmPrices influences how soon a bound is good, never whether
	// it is true.
	WarmPrices *hare.Certificate
	// Start is a schedule of the instance from which the search begins if its own first
	// schedule is no better; nil means none. A schedule that breaks a constraint is ignored.
	Start *hare.Schedule
	// Methods are what the option method may name.
	Methods []Method
	// Ablation turns parts off, to measure what each is worth.
	Ablation Ablation
	// Restarts returns the number of restarts of the LP workers so far. A solve during which
	// the number grows is not reproducible. Nil means 0.
	Restarts func() int64
}

// Ablation names the parts of a solve that may be turned off.
type Ablation struct {
	Sizes         bool // prices by size for gang and rigid jobs
	Steps         bool // bounding relaxed jobs round by round
	FineGrid      bool // grids of more than 96 cells
	MinGain       bool // ending ascents that gain little
	PlanPrices    bool // separate prices for the search
	PlanWarmStart bool // starting the plan's ascent from the bound's prices
	SearchPrices  bool // prices in the search
	Search        bool
	Branch        bool // branch and bound of small instances of rigid jobs
	// SearchParts names searches and parts of searches, as greedy.SearchParts does, with commas between them.
	SearchParts string
}

// WithoutSearchPart turns one of the searches or their parts off as well.
func (ab *Ablation) WithoutSearchPart(name string) {
	ab.SearchParts = strings.TrimPrefix(ab.SearchParts+","+name, ",")
}

// searchParts returns the searches and parts of searches that are off.
func (ab *Ablation) searchParts() []string {
	return strings.FieldsFunc(ab.SearchParts, func(r rune) bool { return r == ',' })
}

// solve is one call of Solve or Replan.
type solve struct {
	inst     *hare.Instance
	model    *model.Model
	opt      hare.Options
	cfg      Config
	parent   context.Context // the caller's context: its end is a cancellation
	began    time.Time
	restarts int64
	res      *hare.Result

	limits     limits
	incumbent  *greedy.Plan
	value      hare.Amount
	best       proven           // the best bound
	priced     *hare.Relaxation // the best certified bound by prices; nil without one
	shown      proven           // the best bound on the way
	fault      error            // a bound could not be proved, which is a defect
	cut        bool             // the clock or the caller ended some work
	clocked    bool             // the clock, the number of cores or a failing LP engine influenced some work
	lastEvent  time.Time
	listTime   time.Duration   // the time that the first list schedule of a large instance took
	shownAt    time.Time       // when a bound on the way was shown
	proofTime  time.Duration   // the time that its proof took
	quit       context.Context // ends when the caller cancels
	phase      string
	treeNodes  int               // of branch and bound
	exhausted  bool              // a search has seen all plans
	concurrent *concurrentPrices // nil but while prices are found beside the search

	start     *greedy.Plan     // the caller's schedule; nil without one
	method    *Method          // makes the plan in place of the search; nil for the search
	made      *hare.Schedule   // by method; nil before
	stability *stabilitySearch // only for plans for the rest of an earlier plan, else nil
}

// context returns a context that ends when the share of the time limit is over.
func (s *solve) context(share float64) (context.Context, context.CancelFunc) {
	if s.opt.TimeLimit == 0 {
		return context.WithCancel(s.parent)
	}
	return context.WithDeadline(s.parent, s.began.Add(time.Duration(share*float64(s.opt.TimeLimit))))
}

// limits are the amounts of work and the shares of time that a solve may spend. They follow
// from the size of the instance and the options. Without a time limit, the result depends on
// the limits and not on the clock.
type limits struct {
	boundEffort, planEffort float64    // the factors of the numbers of iterations of the ascents
	restEffort              float64    // of the bound after a plan that comes first and soon bounds better than an ascent
	minGain                 float64    // the least gain of a step of the ascents, as a share; 0 makes all steps
	boundShare, planShare   float64    // the shares of the time limit by which the ascents end
	reserve                 float64    // the share kept for verification and encoding
	charge                  planCharge // of the first plan for the search
	chargeVaries            bool       // whether other charges may be better
	cells, planCells        int        // the numbers of cells of the finest grids
	steps                   int        // see relax.Config
	stepWork                float64    // see relax.Config
	maxLPs                  int        // see relax.Config
	moves                   int64
	evaluations             int64 // of branch and bound; 0 means no limit
	samePlan                bool  // the plan comes first, and is the same for all limits above some
	large                   bool
	unpriced                bool // the work does not pay for any prices
	workers, chains         int  // of the search; see greedy.ImproveConfig
}

// proven is a certified bound. A bound by prices is proved by package verify when it is
// found, so that the end of a solve only checks the schedule: a proof takes 0.1 s for
// 500 jobs, and far more round by round.
type proven struct {
	rel   *hare.Relaxation
	proof *verify.Proof // nil if the proof takes too little time to be kept
}

// amount returns the bound of the answer, or nil without one.
func (pb *proven) amount() *hare.Amount {
	if pb.rel == nil {
		return nil
	}
	b := pb.rel.Bound.RoundDown()
	return &b
}

// atLeast reports that rel is not certified or proves no more than pb.
func (pb *proven) atLeast(rel *hare.Relaxation) bool {
	return rel == nil || !rel.Certified || pb.rel != nil && rel.Bound.Cmp(pb.rel.Bound) <= 0
}

// cancelled reports whether the caller ended the solve.
func (s *solve) cancelled() bool {
	return s.parent.Err() != nil && !errors.Is(s.parent.Err(), context.DeadlineExceeded)
}

// concurrentPrices is what is found beside the search.
type concurrentPrices struct {
	bound atomic.Uint64          // in floating point, in weight-seconds; 0 without one
	shown atomic.Pointer[proven] // a bound on the way
}

// stabilitySearch chooses between plans by the sum of value and cost of moves.
type stabilitySearch struct {
	remainder *remainder
	whole     *hare.Instance
	previous  *greedy.Plan // the blocks of the previous plan, of jobs that can stay
	kept      *greedy.Plan // previous with the other jobs beside them; nil if they have no place
	price     float64      // stability, in 1e-12 weight-seconds per GPU-µs
}

// chargesMoves reports whether moves have a price.
func (ss *stabilitySearch) chargesMoves() bool { return ss != nil && ss.price > 0 }

// Method makes the plan of a batch in place of the engine's search, such as the scheduler of
// another paper. Its plan stands beside the same certified bound.
type Method struct {
	Name string
	// Plan returns a feasible schedule of a valid instance. It refuses what the method does not
	// know by *hare.InvalidError, with a pointer into the instance, and says that it finds no
	// schedule by an error that wraps ErrNoPlan. Equal calls return equal schedules.
	Plan func(ctx context.Context, inst *hare.Instance, in MethodInput) (*hare.Schedule, error)
}

// MethodInput is what a method gets beside the instance.
type MethodInput struct {
	Seed int64
	LP   relax.LP // nil means none
}

// searches reports whether the schedule is improved after its assignment. The schedules
// of the papers' plain rules and of methods are not improved.
func (s *solve) searches() bool { return s.opt.Assign == string(greedy.Insertion) && s.method == nil }

// ErrUnverified means that the independent verifier refuses a schedule or bound of this
// program. This is a defect, and Solve returns no result.
var ErrUnverified = errors.New("the result did not pass verification")

// planCharge says how a plan for the search charges relaxed jobs for GPU-time that nobody can use: sync is
// the share of synchronisation that is charged as compute, and idle is the share of a job's use that is
// charged in addition. A bound charges nothing.
type planCharge struct{ sync, idle float64 }
