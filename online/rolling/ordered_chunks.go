package rolling

import "slices"

// maxChunk is the most entries of a chunk, and maxBlock the most chunks of a block. Each
// change of a list costs O(maxChunk + maxBlock + blocks), and each search O(blocks + maxBlock +
// maxChunk) for each entry that it finds.
const (
	maxChunk = 32
	maxBlock = 16
)

// orderedChunks is an ordered list in blocks of chunks of entries: a B-tree with three levels.
// Each chunk and each block has a summary of its entries, so that a search passes many at a
// time. No two entries are equal in the order.
type orderedChunks[E, S any] struct {
	blocks []*block[E, S]
	// Those for reuse.
	spareChunks []*chunk[E, S]
	spareBlocks []*block[E, S]
	// before is the order, summarize makes the summary of a chunk's entries, and join that of a
	// block's chunks. add adds an entry to a summary, and tight reports whether a summary may
	// become another without an entry.
	before    func(a, b *E) bool
	summarize func(entries []E, sum *S)
	join      func(chunks []*chunk[E, S], sum *S)
	add       func(e *E, sum *S)
	tight     func(e *E, sum *S) bool
}

type chunk[E, S any] struct {
	entries []E
	sum     S
}

type block[E, S any] struct {
	chunks []*chunk[E, S] // at least one
	sum    S
}

// first is the first entry of a list that is not empty.
func (oc *orderedChunks[E, S]) first() *E { return &oc.blocks[0].chunks[0].entries[0] }

// last is the last entry of a list that is not empty.
func (oc *orderedChunks[E, S]) last() *E { return oc.blocks[len(oc.blocks)-1].last() }

// last is the last entry of a block.
func (b *block[E, S]) last() *E {
	entries := b.chunks[len(b.chunks)-1].entries
	return &entries[len(entries)-1]
}

func (oc *orderedChunks[E, S]) empty() bool { return len(oc.blocks) == 0 }

func (oc *orderedChunks[E, S]) newChunk() *chunk[E, S] {
	if n := len(oc.spareChunks); n > 0 {
		c := oc.spareChunks[n-1]
		oc.spareChunks = oc.spareChunks[:n-1]
		return c
	}
	return &chunk[E, S]{entries: make([]E, 0, maxChunk)}
}

func (oc *orderedChunks[E, S]) newBlock() *block[E, S] {
	if n := len(oc.spareBlocks); n > 0 {
		b := oc.spareBlocks[n-1]
		oc.spareBlocks = oc.spareBlocks[:n-1]
		return b
	}
	return &block[E, S]{chunks: make([]*chunk[E, S], 0, maxBlock)}
}

// dropChunk empties a chunk for reuse.
func (oc *orderedChunks[E, S]) dropChunk(c *chunk[E, S]) {
	clear(c.entries)
	c.entries = c.entries[:0]
	oc.spareChunks = append(oc.spareChunks, c)
}

// dropBlock empties a block, whose chunks are elsewhere, for reuse.
func (oc *orderedChunks[E, S]) dropBlock(b *block[E, S]) {
	clear(b.chunks)
	b.chunks = b.chunks[:0]
	oc.spareBlocks = append(oc.spareBlocks, b)
}

func (oc *orderedChunks[E, S]) clear() {
	for _, b := range oc.blocks {
		for _, c := range b.chunks {
			oc.dropChunk(c)
		}
		oc.dropBlock(b)
	}
	clear(oc.blocks)
	oc.blocks = oc.blocks[:0]
}

// append adds an entry behind all others. All summaries are due until settle. There is room left
// in chunks and blocks.
func (oc *orderedChunks[E, S]) append(e E) {
	if n := len(oc.blocks); n > 0 {
		chunks := oc.blocks[n-1].chunks
		if c := chunks[len(chunks)-1]; len(c.entries) < maxChunk*3/4 {
			c.entries = append(c.entries, e)
			return
		}
	}
	if n := len(oc.blocks); n == 0 || len(oc.blocks[n-1].chunks) == maxBlock*3/4 {
		oc.blocks = append(oc.blocks, oc.newBlock())
	}
	b, c := oc.blocks[len(oc.blocks)-1], oc.newChunk()
	c.entries = append(c.entries, e)
	b.chunks = append(b.chunks, c)
}

// settle makes all summaries.
func (oc *orderedChunks[E, S]) settle() {
	for _, b := range oc.blocks {
		for _, c := range b.chunks {
			oc.summarize(c.entries, &c.sum)
		}
		oc.join(b.chunks, &b.sum)
	}
}

// chunkPlace is a place in the list: an entry of a chunk of a block, or the place behind the
// last entry of the list's last chunk.
type chunkPlace struct{ block, chunk, entry int }

// firstFrom is the least index below n of which not is false, or n. It is false from there on.
func firstFrom(n int, not func(int) bool) int {
	from, to := 0, n
	for from < to {
		if mid := (from + to) / 2; not(mid) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	return from
}

// place is that of the first entry that is not before e. Where there is none, it is behind the
// last one. The list must not be empty.
func (oc *orderedChunks[E, S]) place(e *E) (p chunkPlace) {
	p.block = firstFrom(len(oc.blocks)-1, func(i int) bool { return oc.before(oc.blocks[i].last(), e) })
	chunks := oc.blocks[p.block].chunks
	p.chunk = firstFrom(len(chunks)-1, func(i int) bool {
		entries := chunks[i].entries
		return oc.before(&entries[len(entries)-1], e)
	})
	entries := chunks[p.chunk].entries
	p.entry = firstFrom(len(entries), func(i int) bool { return oc.before(&entries[i], e) })
	return p
}

func (oc *orderedChunks[E, S]) insert(e E) {
	if oc.empty() {
		oc.append(e)
		oc.settle()
		return
	}
	p := oc.place(&e)
	if len(oc.blocks[p.block].chunks[p.chunk].entries) == maxChunk {
		p = oc.splitChunk(p)
	}
	b := oc.blocks[p.block]
	c := b.chunks[p.chunk]
	c.entries = slices.Insert(c.entries, p.entry, e)
	oc.add(&e, &c.sum)
	oc.add(&e, &b.sum)
}

// splitChunk splits the full chunk of a place, and returns where the place is then.
func (oc *orderedChunks[E, S]) splitChunk(p chunkPlace) chunkPlace {
	if len(oc.blocks[p.block].chunks) == maxBlock {
		p = oc.splitBlock(p)
	}
	b := oc.blocks[p.block]
	c, next := b.chunks[p.chunk], oc.newChunk()
	next.entries = append(next.entries, c.entries[maxChunk/2:]...)
	clear(c.entries[maxChunk/2:])
	c.entries = c.entries[:maxChunk/2]
	b.chunks = slices.Insert(b.chunks, p.chunk+1, next)
	oc.summarize(c.entries, &c.sum)
	oc.summarize(next.entries, &next.sum)
	if p.entry <= maxChunk/2 {
		return p
	}
	return chunkPlace{p.block, p.chunk + 1, p.entry - maxChunk/2}
}

// splitBlock splits the full block of a place, and returns where the place is then.
func (oc *orderedChunks[E, S]) splitBlock(p chunkPlace) chunkPlace {
	b, next := oc.blocks[p.block], oc.newBlock()
	next.chunks = append(next.chunks, b.chunks[maxBlock/2:]...)
	clear(b.chunks[maxBlock/2:])
	b.chunks = b.chunks[:maxBlock/2]
	oc.blocks = slices.Insert(oc.blocks, p.block+1, next)
	oc.join(b.chunks, &b.sum)
	oc.join(next.chunks, &next.sum)
	if p.chunk < maxBlock/2 {
		return p
	}
	return chunkPlace{p.block + 1, p.chunk - maxBlock/2, p.entry}
}

// remove removes the entry that is equal to e in the order; there must be one.
func (oc *orderedChunks[E, S]) remove(e *E) {
	p := oc.place(e)
	b := oc.blocks[p.block]
	c := b.chunks[p.chunk]
	tight := oc.tight(&c.entries[p.entry], &c.sum)
	c.entries = slices.Delete(c.entries, p.entry, p.entry+1)
	if len(c.entries) > 0 {
		if tight {
			oc.summarize(c.entries, &c.sum)
			oc.join(b.chunks, &b.sum)
		}
		return
	}
	oc.dropChunk(c)
	b.chunks = slices.Delete(b.chunks, p.chunk, p.chunk+1)
	if len(b.chunks) > 0 {
		oc.join(b.chunks, &b.sum)
		return
	}
	oc.dropBlock(b)
	oc.blocks = slices.Delete(oc.blocks, p.block, p.block+1)
}

// replace replaces the entry that is equal to e in the order by e.
func (oc *orderedChunks[E, S]) replace(e E) {
	p := oc.place(&e)
	b := oc.blocks[p.block]
	c := b.chunks[p.chunk]
	tight := oc.tight(&c.entries[p.entry], &c.sum)
	c.entries[p.entry] = e
	if tight {
		oc.summarize(c.entries, &c.sum)
		oc.join(b.chunks, &b.sum)
		return
	}
	oc.add(&e, &c.sum)
	oc.add(&e, &b.sum)
}

// next is the first entry from a place on for which test says yes, and its place; nil where
// there is none. Chunks and blocks for whose summaries passes says yes are left out.
func (oc *orderedChunks[E, S]) next(p chunkPlace, passes func(*S) bool, test func(*E) bool) (*E, chunkPlace) {
	for ; p.block < len(oc.blocks); p = (chunkPlace{block: p.block + 1}) {
		b := oc.blocks[p.block]
		if passes(&b.sum) {
			continue
		}
		for ; p.chunk < len(b.chunks); p.chunk, p.entry = p.chunk+1, 0 {
			c := b.chunks[p.chunk]
			if passes(&c.sum) {
				continue
			}
			for ; p.entry < len(c.entries); p.entry++ {
				if e := &c.entries[p.entry]; test(e) {
					return e, p
				}
			}
		}
	}
	return nil, p
}
