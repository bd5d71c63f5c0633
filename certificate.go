package hare

// These are the certificate methods.
const (
	MethodPrice        = "price"
	MethodCriticalPath = "critical_path"
	MethodMachine      = "machine"
	MethodBranch       = "branch"
	MethodSearch       = "search"
)

// Certificate proves a lower bound on the objective of an instance (docs/inside/design.md,
// section 2). Path, GridUs and the fields after it belong to the price method, and some of them
// to the branch method; docs/reference/certificate.md says how each method is evaluated.
type Certificate struct {
	Method         string
	Path           bool
	InstanceSHA256 string
	Objective      string
	// Bound is a decimal with six places, rounded down, on the weighted JCT.
	Bound  string
	GridUs []int64 // 0 = τ_0 < … < τ_G; nil for the other methods
	// Prices are sorted by type; a type that is left out has price 0.
	Prices []TypePrices
	// Sizes are sorted by type and tasks. A gang or rigid job of so many tasks pays this
	// price instead of tasks times the price of one GPU.
	Sizes []SizePrices
	// StepUs is the step of time at which relaxed jobs are bounded round by round; 0 bounds
	// them only as fluids.
	StepUs int64
	// Pools are prices of GPUs on some nodes, of CPUs and of memory, in the order of the
	// document. What a job pays in a pool comes on top of Prices and Sizes.
	Pools []Pool
	// After are the weights that are moved along dependencies, sorted by job, then by
	// predecessor.
	After []AfterWeight
	// PriceSets and Tree belong to the branch method (docs/inside/bounds.md#branch-prices-of-jobs-and-trees), which has
	// Path, GridUs, Prices and Sizes too. The leaves of Tree name prices by number: 0 are those of GridUs, Prices and
	// Sizes, and n is PriceSets[n-1].
	PriceSets []PriceSet
	Tree      []BranchNode // in preorder
}

// HasPrices reports whether the certificate has a grid and prices, which prove a bound by themselves.
func (c *Certificate) HasPrices() bool {
	return c.Method == MethodPrice || c.Method == MethodBranch || c.Method == MethodSearch
}

// MaxBranchNodes limits the nodes of a tree, and MaxBranchDomains the nodes times the jobs times
// the types of the cluster.
const (
	MaxBranchNodes   = 1 << 17
	MaxBranchDomains = 1 << 24
)

// PriceSet are prices on a grid of their own, as in Certificate.
type PriceSet struct {
	GridUs []int64
	Prices []TypePrices // sorted by type
	Sizes  []SizePrices // sorted by type and tasks
	Jobs   []JobPrices  // sorted by job and type
}

// JobPrices are the prices of all GPUs that one job holds on a type together, one for each grid cell,
// in 1e-9 weight-seconds per second. Each is ≥ 0.
type JobPrices struct {
	Job, Type string
	Nanos     []int64
}

// BranchNode is a node of a tree that covers all schedules. A node with a Type has
// two children: the schedules in which the job is on this type, and those in which it is not. A
// node with a Job and no Type has those in which the job starts by StartUs, and those in which it
// starts later. A node without a Job is a leaf with the number of its prices.
type BranchNode struct {
	Job, Type string
	StartUs   int64
	Prices    int
}

// AfterWeight is λ: the weight, in units of 1e-6, that a certificate moves from a job to one for
// whose end it waits (docs/reference/model.md).
type AfterWeight struct {
	Job, Before string
	Micro       int64 // ≥ 0
}

// PoolResource is what a pool prices.
type PoolResource uint8

// These are the resources of pools.
const (
	PoolGPUs   PoolResource = iota // GPUs of one type
	PoolCPUs                       // CPUs of the nodes that have GPUs of one type
	PoolMemory                     // memory of the nodes that have GPUs of one type
	PoolQuota                      // GPUs that count for one quota
)

// These are the domains into which Pool.Per splits a pool.
const (
	PerNode = "node" // each node is a domain
	PerAll  = "all"  // all nodes are one domain
)

// Pool prices a resource on a set of nodes (docs/reference/certificate.md#pools).
type Pool struct {
	Resource PoolResource
	Type     string // the GPU type; "" in pools of quotas
	Quota    int    // the index in Instance.Quota, in pools of quotas
	// Per says into which domains a pool of GPUs is split: PerNode, PerAll or a label of the
	// topology; "" in pools of other resources.
	Per string
	// Only chooses the nodes of a pool of GPUs as in Job; nil means all nodes.
	Only []LabelValues
	// Nanos are the prices of one GPU, CPU or MiB, one for each grid cell, in 1e-9
	// weight-seconds per second; nil means 0. Each is ≥ 0.
	Nanos []int64
	// Sizes are the prices of units of several GPUs, sorted by size: a unit of a listed size
	// pays this price instead of size times Nanos.
	Sizes []PoolSize
}

// PoolSize are the prices of units of GPUs GPUs held together in one domain of a pool, one
// for each grid cell, in 1e-9 weight-seconds per second. Each is ≥ 0.
type PoolSize struct {
	GPUs  int64 // ≥ 1
	Nanos []int64
}

// SizePrices are the prices of Tasks GPUs of one type held together, one for each grid
// cell, in 1e-9 weight-seconds per second. Each is ≥ 0, and Tasks ≥ 2.
type SizePrices struct {
	Type  string
	Tasks int64
	Nanos []int64
}

// TypePrices are the prices of one GPU type, one for each grid cell, in 1e-9
// weight-seconds per GPU-second. Each is ≥ 0.
type TypePrices struct {
	Type  string
	Nanos []int64
}

// Relaxation is the result of relaxing an instance: a bound, and a fractional schedule
// for orders.
type Relaxation struct {
	Method string
	// Certified reports whether Certificate proves Bound.
	Certified   bool
	Bound       Amount // on the weighted JCT
	Certificate *Certificate
	// Progress holds, for each job, the rounds that the fractional schedule has done over
	// time, as a non-decreasing polyline from (t, 0) to (t', R).
	Progress [][]Point
	// GridUs and Prices guide the scheduler; they are nil without prices. Prices has one row
	// for each type of Model.Types and one column for each cell, in weight-seconds per
	// GPU-second.
	GridUs []int64
	Prices [][]float64
	// Phi holds, for each job, the least w C + price over the relaxation's schedules of the
	// job alone, minus w a, in weight-seconds. It is nil if no price certificate proves the
	// bound.
	Phi []float64
	// Capacity holds, for each type of Model.Types, the price of all capacity in
	// weight-seconds. The bound is the sum of Phi minus the sum of Capacity.
	Capacity []float64
}

// Point says that Rounds rounds are done at TimeUs.
type Point struct {
	TimeUs float64
	Rounds float64
}
