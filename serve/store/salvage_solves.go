package store

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// CheckSolve reads the record, the events and the documents of a solve. The error is
// *CorruptError where one of them is not as it was written.
func CheckSolve(ctx context.Context, store SolveReader, rec *SolveRecord) error {
	_, err := checkSolve(ctx, store, rec, func(*SolveBatch) error { return nil })
	return err
}

// checkSolve does what CheckSolve does, and calls good with the rows of events that it
// reads.
func checkSolve(ctx context.Context, store SolveReader, rec *SolveRecord, good func(*SolveBatch) error) (st SolveState,
	err error) {
	if st, err = DecodeSolve(rec); err != nil || st.GoneUs != 0 {
		return st, err
	}
	last := int64(0)
	for {
		rows, err := store.SolveEvents(ctx, rec.Num, last+1, ReadBytes)
		if err != nil {
			return st, withSolve(err, rec.ID)
		}
		if len(rows) == 0 {
			break
		}
		for i := range rows {
			if _, err := DecodeSolveRow(rec.ID, &rows[i]); err != nil {
				return st, err
			}
			if rows[i].First != last+1 {
				return st, &CorruptError{Solve: rec.ID, What: fmt.Sprintf("event %d is missing", last+1)}
			}
			last = rows[i].Last
		}
		if err := good(&SolveBatch{Events: rows}); err != nil {
			return st, err
		}
	}
	if Finished(st.Status) && last != st.Events {
		return st, &CorruptError{Solve: rec.ID, What: fmt.Sprintf("it has %d events of %d", last, st.Events)}
	}
	for _, ref := range st.Blobs() {
		if _, err := io.Copy(io.Discard, OpenBlob(ctx, store, rec.ID, ref)); err != nil {
			return st, withSolve(err, rec.ID)
		}
	}
	return st, nil
}

// withSolve adds the solve to an error of damage in the store.
func withSolve(err error, id string) error {
	var bad *CorruptError
	if errors.As(err, &bad) && bad.Solve == "" {
		return &CorruptError{Solve: id, What: bad.What}
	}
	return err
}

// SalvagedSolve is the outcome for one solve: the solve was kept as a whole, or has
// Damage and was left out.
type SalvagedSolve struct {
	ID     string
	Damage error
}

// SalvageSolves copies to an empty store the solves that are as they were written. An
// error ends the copying early, except *CorruptError, which says that the list of solves is
// damaged: those that from could list are copied.
func SalvageSolves(ctx context.Context, from SolveReader, to SolveStore) (all []SalvagedSolve, err error) {
	records, listed := from.Solves(ctx)
	if listed != nil && !errors.As(listed, new(*CorruptError)) {
		return nil, listed
	}
	copied := map[int64]bool{} // by blob: solves may share blobs
	for i := range records {
		rec := &records[i]
		st, err := checkSolve(ctx, from, rec, func(*SolveBatch) error { return nil })
		all = append(all, SalvagedSolve{ID: rec.ID, Damage: err})
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
		if _, err := checkSolve(ctx, from, rec,
			func(b *SolveBatch) error { return to.WriteSolves(ctx, b) }); err != nil {
			return all, err
		}
		if err := to.WriteSolves(ctx, &SolveBatch{Put: []SolveRecord{*rec}}); err != nil {
			return all, err
		}
	}
	return all, listed
}

// copyBlob copies the chunks of a blob that was checked.
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
