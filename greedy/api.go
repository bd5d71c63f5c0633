package greedy

import (
	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/greedy/room"
)

// Block is room.Block.
type Block = room.Block

// Constant is room.Constant.
func Constant(m *hare.Model) (constant hare.Amount, ok bool) { return room.Constant(m) }
