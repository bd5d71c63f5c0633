package room

// Block is Width GPUs of a class side by side, each with Tasks tasks of each of Rounds
// rounds from Round on. Round Round+i starts at StartUs + i·PeriodUs and holds each GPU
// for HoldUs. The GPUs of a relaxed job are held for the compute time only.
//
// Where nodes matter (model.Model.Placed), all GPUs of a block are on node Node and of one
// type, Width is a multiple of the GPUs of a task, and Class only says which type: the GPUs
// may be of several classes of this type.
type Block struct {
	Class, Node, Width, Tasks                int32
	Round, Rounds, StartUs, PeriodUs, HoldUs int64
	// LeadUs is for how long before StartUs the GPUs are held: for their setup, or, where the job
	// stays on GPUs that it had before, from the end there on.
	LeadUs int64
	Stays  bool
}

// TakenFromUs returns the time from which the block holds its GPUs.
func (b *Block) TakenFromUs() int64 { return b.StartUs - b.LeadUs }

// EndUs returns the time at which the block releases its GPUs.
func (b *Block) EndUs() int64 { return b.StartUs + (b.Rounds-1)*b.PeriodUs + b.HoldUs }

// FirstStart returns the first start of some blocks, or Never without blocks.
func FirstStart(blocks []Block) int64 {
	s := Never
	for i := range blocks {
		s = min(s, blocks[i].StartUs)
	}
	return s
}
