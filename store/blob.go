package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// BlobRef is where a record has a blob.
type BlobRef struct {
	Blob int64 `json:"blob"`
	Size int64 `json:"size"`
	Sum  Sum   `json:"sum"`
}

// BlobReader streams a blob, a chunk in memory at a time, and checks it: what
// does not fit is *CorruptError in place of io.EOF.
type BlobReader struct {
	ctx   context.Context
	store SolveReader
	id    string // of the solve
	ref   BlobRef
	index int
	rest  []byte
	read  int64
	hash  interface {
		io.Writer
		Sum([]byte) []byte
	}
	err error
}

func OpenBlob(ctx context.Context, store SolveReader, id string, ref BlobRef) *BlobReader {
	return &BlobReader{ctx: ctx, store: store, id: id, ref: ref, hash: sha256.New()}
}

func (b *BlobReader) Read(p []byte) (int, error) {
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

// Next reads a chunk. The last one is given out only when all of them fit.
func (b *BlobReader) next() {
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

func (b *BlobReader) Close() error {
	b.rest, b.err = nil, io.ErrClosedPipe
	return nil
}

// BlobWriter cuts what is written into chunks and hands them on.
type BlobWriter struct {
	ref  BlobRef
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	part  []byte
	index int
	give  func(SolveChunk) error
}

// NewBlob writes the blob of this number, and gives each chunk of it to give.
func NewBlob(num int64, give func(SolveChunk) error) *BlobWriter {
	return &BlobWriter{ref: BlobRef{Blob: num}, hash: sha256.New(), give: give}
}

func (b *BlobWriter) Write(p []byte) (n int, err error) {
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

func (b *BlobWriter) flush() error {
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

// End hands on the last chunk, and says where the whole is.
func (b *BlobWriter) End() (BlobRef, error) {
	err := b.flush()
	b.ref.Sum = Sum(b.hash.Sum(nil))
	return b.ref, err
}

// Fault is err, of a reader of b, or what was wrong with the store where that
// was the cause: a document that cannot be read is *CorruptError.
func (b *BlobReader) Fault(err error) error {
	if err == nil {
		return nil
	}
	if b.err != nil && !errors.Is(b.err, io.EOF) {
		return b.err
	}
	return &CorruptError{Solve: b.id, What: err.Error()}
}
