package task

import "slices"

// maxChunk is the most entries of a chunk. Each change of a list costs O(entries of a chunk
// + log chunks), and each search O(chunks + entries of a chunk).
const maxChunk = 32

// orderedChunks is an ordered list in chunks. Each chunk has a summary of its entries, so
// that a search passes whole chunks. No two entries are equal in the order.
type orderedChunks[E, S any] struct {
	chunks []*chunk[E, S]
	spare  []*chunk[E, S] // for reuse
	// before is the order, and summarize makes the summary of a chunk's entries.
	before    func(a, b *E) bool
	summarize func(entries []E, sum *S)
}

type chunk[E, S any] struct {
	entries []E
	sum     S
}

func (oc *orderedChunks[E, S]) newChunk() *chunk[E, S] {
	if n := len(oc.spare); n > 0 {
		c := oc.spare[n-1]
		oc.spare = oc.spare[:n-1]
		return c
	}
	return &chunk[E, S]{entries: make([]E, 0, maxChunk)}
}

// drop empties a chunk for reuse.
func (oc *orderedChunks[E, S]) drop(c *chunk[E, S]) {
	clear(c.entries)
	c.entries = c.entries[:0]
	oc.spare = append(oc.spare, c)
}

func (oc *orderedChunks[E, S]) clear() {
	for _, c := range oc.chunks {
		oc.drop(c)
	}
	clear(oc.chunks)
	oc.chunks = oc.chunks[:0]
}

// append adds an entry behind all others. The last chunk's summary is due until settle.
func (oc *orderedChunks[E, S]) append(e E) {
	n := len(oc.chunks)
	if n == 0 || len(oc.chunks[n-1].entries) >= maxChunk*3/4 {
		oc.settle()
		oc.chunks = append(oc.chunks, oc.newChunk())
		n++
	}
	c := oc.chunks[n-1]
	c.entries = append(c.entries, e)
}

// settle makes the summary of the last chunk.
func (oc *orderedChunks[E, S]) settle() {
	if n := len(oc.chunks); n > 0 {
		c := oc.chunks[n-1]
		oc.summarize(c.entries, &c.sum)
	}
}

// place is the chunk of the first entry that is not before e, and the entry's place in
// it. Where there is none, both are of the place behind the last entry.
func (oc *orderedChunks[E, S]) place(e *E) (int, int) {
	low, high := 0, len(oc.chunks)-1
	if high < 0 {
		return 0, 0
	}
	for low < high {
		mid := (low + high) / 2
		if c := oc.chunks[mid]; oc.before(&c.entries[len(c.entries)-1], e) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	entries := oc.chunks[low].entries
	from, to := 0, len(entries)
	for from < to {
		mid := (from + to) / 2
		if oc.before(&entries[mid], e) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return low, from
}

func (oc *orderedChunks[E, S]) insert(e E) {
	if len(oc.chunks) == 0 {
		oc.append(e)
		oc.settle()
		return
	}
	at, i := oc.place(&e)
	c := oc.chunks[at]
	if len(c.entries) == maxChunk {
		next := oc.newChunk()
		next.entries = append(next.entries, c.entries[maxChunk/2:]...)
		clear(c.entries[maxChunk/2:])
		c.entries = c.entries[:maxChunk/2]
		oc.chunks = slices.Insert(oc.chunks, at+1, next)
		if i > maxChunk/2 {
			oc.summarize(c.entries, &c.sum)
			c, i = next, i-maxChunk/2
		} else {
			oc.summarize(next.entries, &next.sum)
		}
	}
	c.entries = slices.Insert(c.entries, i, e)
	oc.summarize(c.entries, &c.sum)
}

// remove removes the entry that is equal to e in the order; there must be one.
func (oc *orderedChunks[E, S]) remove(e *E) {
	at, i := oc.place(e)
	c := oc.chunks[at]
	c.entries = slices.Delete(c.entries, i, i+1)
	if len(c.entries) == 0 {
		oc.chunks = slices.Delete(oc.chunks, at, at+1)
		oc.drop(c)
		return
	}
	oc.summarize(c.entries, &c.sum)
}

// replace replaces the entry that is equal to e in the order by e.
func (oc *orderedChunks[E, S]) replace(e E) {
	at, i := oc.place(&e)
	c := oc.chunks[at]
	c.entries[i] = e
	oc.summarize(c.entries, &c.sum)
}
