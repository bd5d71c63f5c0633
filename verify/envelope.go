package verify

import "math/bits"

// envelope keeps the greatest value of lines at each round of a row. Each line covers some
// consecutive rounds of the row. The envelope is a Li Chao tree, a segment tree: every node
// holds the line that is greatest at the middle of the node, and pushes the other line down
// to the side on which that line may still be greater (two lines cross at most once). A line
// covers all rounds of the nodes that it reaches, so a line is never evaluated at a round
// that it does not cover. For a row of n rounds, an insertion takes O(log² n) and a query
// O(log n).
type envelope struct {
	rounds []int64
	lines  []piece
	value  func(x *piece, round int64) int64
	size   int     // a power of two
	node   []int32 // the index of the line that the node holds; −1 without one
}

// reset empties the envelope and gives it another row.
func (e *envelope) reset(rounds []int64, lines []piece) {
	e.rounds, e.lines = rounds, lines
	e.size = 1 << bits.Len(uint(len(rounds)-1))
	if cap(e.node) < 2*e.size {
		e.node = make([]int32, 2*e.size)
	}
	e.node = e.node[:2*e.size]
	for i := range e.node {
		e.node[i] = -1
	}
}

// insert adds line i, which covers rounds[from:to].
func (e *envelope) insert(i int32, from, to int) {
	for l, r := from+e.size, to+e.size; l < r; l, r = l/2, r/2 {
		if l&1 == 1 {
			e.push(l, i)
			l++
		}
		if r&1 == 1 {
			r--
			e.push(r, i)
		}
	}
}

func (e *envelope) above(a, b int32, at int) bool {
	return e.value(&e.lines[a], e.rounds[at]) > e.value(&e.lines[b], e.rounds[at])
}

func (e *envelope) push(n int, i int32) {
	width := e.size >> (bits.Len(uint(n)) - 1)
	lo := n*width - e.size
	for {
		held := e.node[n]
		if held < 0 {
			e.node[n] = i
			return
		}
		if e.above(i, held, lo+width/2) {
			e.node[n], i, held = i, held, i
		}
		switch {
		case width == 1:
			return
		case e.above(i, held, lo):
			n, width = 2*n, width/2
		case e.above(i, held, lo+width-1):
			n, width, lo = 2*n+1, width/2, lo+width/2
		default:
			return
		}
	}
}

// at returns the greatest value in round number x of the row, and its line. Some line
// covers every round.
func (e *envelope) at(x int) (value int64, line int32) {
	line = -1
	for n := x + e.size; n >= 1; n /= 2 {
		if i := e.node[n]; i >= 0 {
			if v := e.value(&e.lines[i], e.rounds[x]); line < 0 || v > value {
				value, line = v, i
			}
		}
	}
	return value, line
}

// piece is one entry of a lane with its names resolved.
type piece struct {
	gpu, mode      int32 // the indices in Schedule.Lanes and in the job's profiles
	round, rounds  int64
	tasks          int64
	period, start  int64
	compute, after int64 // of a round: on the GPU, and until it has synchronised
	limit          int64 // when the GPU must be free: at the next entry or the end of service
	// until is when the task stops holding CPUs and memory, or 0 if the piece is not the one
	// of its task's pieces that stands for what the task holds.
	until int64
	frees int64 // when the GPU is let go
}

// lastRound returns the last round of the piece.
func (pi *piece) lastRound() int64 { return pi.round + pi.rounds - 1 }

// startOf and endOf return when a round starts on this GPU and when its tasks there have
// synchronised. Both are linear in the round.
func (pi *piece) startOf(r int64) int64 { return pi.start + (r-pi.round)*pi.period }

func (pi *piece) endOf(r int64) int64 { return pi.startOf(r) + pi.compute + pi.after }
