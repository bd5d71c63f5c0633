package online

import "github.com/hare-sched/hare"

// FIFO serves jobs in the order of their arrival: HLAS with a single queue. No
// job starts a task while an earlier one could have used the GPU, but later
// jobs use types that the earlier ones cannot, or that are not gathered for
// the gang that stands first. It is not for concurrent use.
type FIFO struct{ c *core }

var _ Durable = (*FIFO)(nil)

// NewFIFO starts a session on a cluster all of whose GPUs are free; nil is an
// empty one. Errors are *hare.InvalidError.
func NewFIFO(cluster *hare.Cluster) (*FIFO, error) {
	c := newCore(params{policy: "fifo", kappa: million})
	if err := c.addCluster(cluster); err != nil {
		return nil, err
	}
	return &FIFO{c}, nil
}

// RestoreFIFO makes the policy of which snapshot was taken. A torn or altered
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
