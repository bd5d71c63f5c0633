package store

import (
	"context"
)

// SolveStore keeps solves: a record of each, rows of events, and blobs in chunks
// (instances, checkpoints, results). Package solves decides what a record says and when
// data is removed. The effect of WriteSolves survives a crash once it returns nil.
// WriteSolves wraps ErrStorage where the disk refuses; reading goes on working in that
// case. A SolveStore is safe for concurrent use.
type SolveStore interface {
	SolveReader
	// WriteSolves applies all changes of a batch, or none.
	WriteSolves(ctx context.Context, b *SolveBatch) error
	// SweepSolves removes some of the released blobs and says whether there are more. With
	// all it also removes the blobs that were begun but never held; the owner of a store
	// calls it with all once, before the first write.
	SweepSolves(ctx context.Context, all bool) (more bool, err error)
	// Durable reports whether the store outlives the process.
	Durable() bool
}

// SolveReader is the reading half of a SolveStore.
type SolveReader interface {
	// Solves lists all records by number.
	Solves(ctx context.Context) ([]SolveRecord, error)
	// SolveEvents returns the rows in order, beginning with the row that holds event seq,
	// or the first row after seq. It stops once the rows have more than about bytes, after
	// at least one row.
	SolveEvents(ctx context.Context, num, seq int64, bytes int) ([]SolveRow, error)
	// Chunk returns one chunk of a blob, nil where there is none.
	Chunk(ctx context.Context, blob int64, index int) ([]byte, error)
	// LastBlob returns the greatest number of a blob; 0 without any.
	LastBlob(ctx context.Context) (int64, error)
}

// SolveRecord is the record of one solve. Its events and blobs are stored apart.
type SolveRecord struct {
	Num  int64 // in order of submission, from 1
	ID   string
	Data []byte // JSON
	Sum  Sum    // of the other fields
}

// Checksum is the checksum that r should carry.
func (rec *SolveRecord) Checksum() Sum {
	return SumOf("solve", []int64{rec.Num}, []byte(rec.ID), rec.Data)
}

// SolveRow is a part of the events of a solve, one JSON line each.
type SolveRow struct {
	Num         int64 // of the solve
	First, Last int64 // numbers of the first and the last event
	Data        []byte
	Sum         Sum // of the other fields
}

// Checksum is the checksum that r should carry.
func (row *SolveRow) Checksum() Sum {
	return SumOf("solve events", []int64{row.Num, row.First, row.Last}, row.Data)
}

// SolveChunk is a part of a blob. Each chunk but the last has ChunkBytes.
type SolveChunk struct {
	Blob  int64
	Index int // from 0
	Data  []byte
}

// ChunkBytes is the size of a chunk, and with it the memory that reading or writing a
// blob takes.
const ChunkBytes = 256 << 10

// SolveBatch is a set of changes that become durable together. A blob belongs to no
// record between Begin and Hold, and from Release on.
type SolveBatch struct {
	Put    []SolveRecord // new records, and records in place of those of the same number
	Events []SolveRow
	Chunks []SolveChunk
	Begin  []int64 // blobs whose chunks come in several batches
	Hold   []int64 // begun blobs that are complete now
	// Release names the blobs to which no record refers any more.
	Release []int64
	Clear   []int64 // solves whose events are removed
	Drop    []int64 // solves whose records are removed
}
