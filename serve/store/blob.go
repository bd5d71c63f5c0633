package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// BlobRef is a reference of a record to a blob.
type BlobRef struct {
	Blob int64 `json:"blob"`
	Size int64 `json:"size"`
	Sum  Sum   `json:"sum"`
}

// BlobReader streams a blob, one chunk in memory at a time, and checks it. Where the blob
// does not fit its reference, the reader returns *CorruptError in place of io.EOF.
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

// OpenBlob returns a reader of a blob of the solve with this ID.
func OpenBlob(ctx context.Context, store SolveReader, id string, ref BlobRef) *BlobReader {
	return &BlobReader{ctx: ctx, store: store, id: id, ref: ref, hash: sha256.New()}
}

func (br *BlobReader) Read(p []byte) (int, error) {
	for len(br.rest) == 0 && br.err == nil {
		br.next()
	}
	if br.err != nil {
		return 0, br.err
	}
	n := copy(p, br.rest)
	br.rest = br.rest[n:]
	return n, nil
}

// next reads one chunk. The last chunk is only returned where the checksum of the whole
// fits.
func (br *BlobReader) next() {
	bad := func(what string) { br.err = &CorruptError{Solve: br.id, What: what} }
	if br.read == br.ref.Size {
		br.err = io.EOF
		return
	}
	var chunk []byte
	if chunk, br.err = br.store.Chunk(br.ctx, br.ref.Blob, br.index); br.err != nil {
		return
	}
	br.index++
	br.read += int64(len(chunk))
	_, _ = br.hash.Write(chunk)
	switch {
	case len(chunk) == 0:
		bad(fmt.Sprintf("piece %d of a document of %d bytes is missing", br.index, br.ref.Size))
	case br.read > br.ref.Size:
		bad("a document is longer than it was")
	case br.read == br.ref.Size && Sum(br.hash.Sum(nil)) != br.ref.Sum:
		bad("the checksum of a document does not fit its content")
	default:
		br.rest = chunk
	}
}

func (br *BlobReader) Close() error {
	br.rest, br.err = nil, io.ErrClosedPipe
	return nil
}

// BlobWriter cuts a document into chunks and hands them on.
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

// NewBlob returns a writer of the blob of this number, which calls give with each chunk.
func NewBlob(num int64, give func(SolveChunk) error) *BlobWriter {
	return &BlobWriter{ref: BlobRef{Blob: num}, hash: sha256.New(), give: give}
}

func (bw *BlobWriter) Write(p []byte) (n int, err error) {
	n = len(p)
	for len(p) > 0 {
		k := min(len(p), ChunkBytes-len(bw.part))
		bw.part = append(bw.part, p[:k]...)
		p = p[k:]
		if len(bw.part) == ChunkBytes {
			if err := bw.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (bw *BlobWriter) flush() error {
	if len(bw.part) == 0 {
		return nil
	}
	_, _ = bw.hash.Write(bw.part)
	bw.ref.Size += int64(len(bw.part))
	chunk := SolveChunk{Blob: bw.ref.Blob, Index: bw.index, Data: bw.part}
	bw.index++
	bw.part = nil
	return bw.give(chunk)
}

// End hands on the last chunk and returns the reference to the blob.
func (bw *BlobWriter) End() (BlobRef, error) {
	err := bw.flush()
	bw.ref.Sum = Sum(bw.hash.Sum(nil))
	return bw.ref, err
}

// Fault returns the cause of an error that a reader of br met: the store's error where
// there was one, else a *CorruptError, because the document cannot be decoded.
func (br *BlobReader) Fault(err error) error {
	if err == nil {
		return nil
	}
	if br.err != nil && !errors.Is(br.err, io.EOF) {
		return br.err
	}
	return &CorruptError{Solve: br.id, What: err.Error()}
}
