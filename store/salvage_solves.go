package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// CheckSolve reads all that is kept of a solve. The error is *CorruptError
// where something is not as it was written.
func CheckSolve(ctx context.Context, store SolveReader, r *SolveRecord) error {
	_, err := checkSolve(ctx, store, r, func(*SolveBatch) error { return nil })
	return err
}

// checkSolve is CheckSolve, and hands over rows and documents as it reads them.
func checkSolve(ctx context.Context, store SolveReader, r *SolveRecord, good func(*SolveBatch) error) (st SolveState,
	err error) {
	if st, err = DecodeSolve(r); err != nil || st.GoneUs != 0 {
		return st, err
	}
	last := int64(0)
	for {
		rows, err := store.SolveEvents(ctx, r.Num, last+1, ReadBytes)
		if err != nil {
			return st, ofSolve(err, r.ID)
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			if _, err := DecodeSolveRow(r.ID, &rows[i]); err != nil {
				return st, err
			}
			if rows[i].First != last+1 {
				return st, &CorruptError{Solve: r.ID, What: fmt.Sprintf("event %d is missing", last+1)}
			}
			last = rows[i].Last
		}
		if err := good(&SolveBatch{Events: rows}); err != nil {
			return st, err
		}
	}
	if Finished(st.Status) && last != st.Events {
		return st, &CorruptError{Solve: r.ID, What: fmt.Sprintf("it has %d events of %d", last, st.Events)}
	}
	for _, ref := range st.Blobs() {
		if _, err := io.Copy(io.Discard, OpenBlob(ctx, store, r.ID, ref)); err != nil {
			return st, ofSolve(err, r.ID)
		}
	}
	return st, nil
}

// ofSolve says of damage in the store in which solve it was met.
func ofSolve(err error, id string) error {
	var bad *CorruptError
	if errors.As(err, &bad) && bad.Solve == "" {
		return &CorruptError{Solve: id, What: bad.What}
	}
	return err
}

// SalvagedSolve is what became of a solve: it was kept as a whole, or has
// Damage and was left out.
type SalvagedSolve struct {
	ID     string
	Damage error
}

// SalvageSolves copies to an empty store the solves that are as they were
// written, each as a whole. An error ends it before all are copied.
func SalvageSolves(ctx context.Context, from SolveReader, to SolveStore) (all []SalvagedSolve, err error) {
	records, err := from.Solves(ctx)
	if err != nil {
		return nil, err
	}
	copied := map[int64]bool{} // blobs, which solves may share
	for i := range records {
		r := &records[i]
		st, err := checkSolve(ctx, from, r, func(*SolveBatch) error { return nil })
		all = append(all, SalvagedSolve{ID: r.ID, Damage: err})
		if errors.As(err, new(*CorruptError)) {
			continue
		} else if err != nil {
			return all, err
		}
		for _, ref := range st.Blobs() {
			if copied[ref.Blob] {
				continue
			}
			copied[ref.Blob] = true
			if err := copyBlob(ctx, from, to, ref); err != nil {
				return all, err
			}
		}
		if _, err := checkSolve(ctx, from, r,
			func(b *SolveBatch) error { return to.WriteSolves(ctx, b) }); err != nil {
			return all, err
		}
		if err := to.WriteSolves(ctx, &SolveBatch{Put: []SolveRecord{*r}}); err != nil {
			return all, err
		}
	}
	return all, nil
}

// copyBlob copies a document that was checked, a chunk at a time.
func copyBlob(ctx context.Context, from SolveReader, to SolveStore, ref BlobRef) error {
	for i, done := 0, int64(0); done < ref.Size; i++ {
		chunk, err := from.Chunk(ctx, ref.Blob, i)
		if err != nil {
			return err
		}
		if len(chunk) == 0 {
			return &CorruptError{What: "a document is shorter than it was"}
		}
		done += int64(len(chunk))
		if err := to.WriteSolves(ctx,
			&SolveBatch{Chunks: []SolveChunk{{Blob: ref.Blob, Index: i, Data: chunk}}}); err != nil {
			return err
		}
	}
	return nil
}
