package store

import (
	"context"
)

// SolveStore keeps solves: a record each, rows of events, and blobs in chunks
// (instances, checkpoints, results). It does as it is told; what a record says
// and when something goes is for Solves to know. What WriteSolves did survives
// a crash once it returns nil; it wraps ErrStorage where the disk refuses, and
// reading goes on then. A SolveStore is safe for concurrent use.
type SolveStore interface {
	SolveReader
	// WriteSolves makes all changes of a batch, or none.
	WriteSolves(ctx context.Context, b *SolveBatch) error
	// SweepSolves removes a piece of the blobs that were released, and says
	// whether there is more. With all it also removes those that were begun and
	// never held: the next owner of a store calls it so, before it writes.
	SweepSolves(ctx context.Context, all bool) (more bool, err error)
	// Durable says whether the store outlives the process.
	Durable() bool
}

// SolveReader is the reading half of a SolveStore.
type SolveReader interface {
	// Solves lists all records, by number.
	Solves(ctx context.Context) ([]SolveRecord, error)
	// SolveEvents returns the rows in order from the one that holds event seq,
	// or the first one behind it, until they have more than about bytes, one
	// row at least.
	SolveEvents(ctx context.Context, num, seq int64, bytes int) ([]SolveRow, error)
	// Chunk returns one chunk of a blob, nil where there is none.
	Chunk(ctx context.Context, blob int64, index int) ([]byte, error)
	// LastBlob is the greatest number that a blob has; 0 without any.
	LastBlob(ctx context.Context) (int64, error)
}

// SolveRecord is what is kept of one solve beside events and blobs.
type SolveRecord struct {
	Num  int64 // in order of submission, from 1
	ID   string
	Data []byte // JSON
	Sum  Sum    // of the other fields
}

// Checksum is the checksum that r should carry.
func (r *SolveRecord) Checksum() Sum {
	return SumOf("solve", []int64{r.Num}, []byte(r.ID), r.Data)
}

// SolveRow is a piece of the events of a solve, a JSON line each.
type SolveRow struct {
	Num         int64 // of the solve
	First, Last int64 // event
	Data        []byte
	Sum         Sum // of the other fields
}

// Checksum is the checksum that r should carry.
func (r *SolveRow) Checksum() Sum {
	return SumOf("solve events", []int64{r.Num, r.First, r.Last}, r.Data)
}

// SolveChunk is a piece of a blob: all but the last have ChunkBytes.
type SolveChunk struct {
	Blob  int64
	Index int // from 0
	Data  []byte
}

// ChunkBytes is the size of chunks, what is held in memory of a blob that is
// read or written.
const ChunkBytes = 256 << 10

// SolveBatch is what becomes durable together. A blob belongs to no record
// between Begin and Hold, and again from Release on.
type SolveBatch struct {
	Put    []SolveRecord // new ones, or in place of those of the same number
	Events []SolveRow
	Chunks []SolveChunk
	Begin  []int64 // blobs whose chunks come in several batches
	Hold   []int64 // blobs begun that are whole now
	// Release names blobs that no record refers to any more.
	Release []int64
	Clear   []int64 // solves whose events go
	Drop    []int64 // solves whose records go
}
