package online

import "github.com/hare-sched/hare"

// FIFO serves jobs in the order of their arrival: it is HLAS with a single queue. No
// job starts a task on a GPU that an earlier job could have used, but later jobs use
// types that the earlier ones cannot use, and types that are not gathered for the
// first gang. A FIFO is not safe for concurrent use.
type FIFO struct{ c *core }

var _ Durable = (*FIFO)(nil)

// NewFIFO starts a session on a cluster all of whose GPUs are free; nil means an
// empty cluster. Errors are *hare.InvalidError.
func NewFIFO(cluster *hare.Cluster) (*FIFO, error) {
	c := newCore(params{policy: "fifo", kappa: million})
	if err := c.addCluster(cluster); err != nil {
		return nil, err
	}
	return &FIFO{c}, nil
}

// RestoreFIFO makes the policy that the snapshot was taken of. A torn or altered
// snapshot is an error.
func RestoreFIFO(snapshot []byte) (*FIFO, error) {
	c, err := restore("fifo", snapshot)
	if err != nil {
		return nil, err
	}
	return &FIFO{c}, nil
}

// Step is Policy.Step.
func (f *FIFO) Step(nowUs int64, events []hare.Event) ([]hare.Decision, error) {
	return f.c.step(nowUs, events)
}

// Adopt is Durable.Adopt.
func (f *FIFO) Adopt(nowUs int64, event hare.Event, decisions []hare.Decision) error {
	return f.c.adopt(nowUs, &event, decisions)
}

// AppendSnapshot is Durable.AppendSnapshot, O(jobs log jobs + GPUs).
func (f *FIFO) AppendSnapshot(b []byte) []byte { return f.c.appendSnapshot(b) }
