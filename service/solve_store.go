package service

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"time"
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

func (r *SolveRecord) sum() Sum {
	return sumOf("solve", []int64{r.Num}, []byte(r.ID), r.Data)
}

// SolveRow is a piece of the events of a solve, a JSON line each.
type SolveRow struct {
	Num         int64 // of the solve
	First, Last int64 // event
	Data        []byte
	Sum         Sum // of the other fields
}

func (r *SolveRow) sum() Sum {
	return sumOf("solve events", []int64{r.Num, r.First, r.Last}, r.Data)
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

// blobRef is where a record has a blob.
type blobRef struct {
	Blob int64 `json:"blob"`
	Size int64 `json:"size"`
	Sum  Sum   `json:"sum"`
}

// blobReader streams a blob, a chunk in memory at a time, and checks it: what
// does not fit is *CorruptError in place of io.EOF.
type blobReader struct {
	ctx   context.Context
	store SolveReader
	id    string // of the solve
	ref   blobRef
	index int
	rest  []byte
	read  int64
	hash  interface {
		io.Writer
		Sum([]byte) []byte
	}
	err error
}

func openBlob(ctx context.Context, store SolveReader, id string, ref blobRef) *blobReader {
	return &blobReader{ctx: ctx, store: store, id: id, ref: ref, hash: sha256.New()}
}

func (b *blobReader) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.next()
	}
	if b.err != nil {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// next reads a chunk. The last one is given out only when all of them fit.
func (b *blobReader) next() {
	bad := func(what string) { b.err = &CorruptError{Solve: b.id, What: what} }
	if b.read == b.ref.Size {
		b.err = io.EOF
		return
	}
	var chunk []byte
	if chunk, b.err = b.store.Chunk(b.ctx, b.ref.Blob, b.index); b.err != nil {
		return
	}
	b.index++
	b.read += int64(len(chunk))
	_, _ = b.hash.Write(chunk)
	switch {
	case len(chunk) == 0:
		bad(fmt.Sprintf("piece %d of a document of %d bytes is missing", b.index, b.ref.Size))
	case b.read > b.ref.Size:
		bad("a document is longer than it was")
	case b.read == b.ref.Size && Sum(b.hash.Sum(nil)) != b.ref.Sum:
		bad("the checksum of a document does not fit its content")
	default:
		b.rest = chunk
	}
}

func (b *blobReader) Close() error {
	b.rest, b.err = nil, io.ErrClosedPipe
	return nil
}

// blobWriter cuts what is written into chunks and hands them on.
type blobWriter struct {
	ref  blobRef
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	part  []byte
	index int
	give  func(SolveChunk) error
}

func newBlob(num int64, give func(SolveChunk) error) *blobWriter {
	return &blobWriter{ref: blobRef{Blob: num}, hash: sha256.New(), give: give}
}

func (b *blobWriter) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 {
		k := min(len(p), ChunkBytes-len(b.part))
		b.part = append(b.part, p[:k]...)
		p = p[k:]
		if len(b.part) == ChunkBytes {
			if err := b.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (b *blobWriter) flush() error {
	if len(b.part) == 0 {
		return nil
	}
	_, _ = b.hash.Write(b.part)
	b.ref.Size += int64(len(b.part))
	chunk := SolveChunk{Blob: b.ref.Blob, Index: b.index, Data: b.part}
	b.index++
	b.part = nil
	return b.give(chunk)
}

// end hands on the last chunk, and says where the whole is.
func (b *blobWriter) end() (blobRef, error) {
	err := b.flush()
	b.ref.Sum = Sum(b.hash.Sum(nil))
	return b.ref, err
}

// micros is a time as it is kept.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}
