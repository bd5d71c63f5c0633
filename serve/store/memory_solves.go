package store

import (
	"context"
	"slices"
	"sync"
)

// MemorySolves is a SolveStore that lasts as long as the process.
type MemorySolves struct {
	mu       sync.RWMutex
	records  map[int64]SolveRecord
	events   map[int64][]SolveRow
	blobs    map[int64][][]byte
	begun    map[int64]bool
	released []int64
}

var _ SolveStore = (*MemorySolves)(nil)

// NewMemorySolves makes an empty store.
func NewMemorySolves() *MemorySolves {
	return &MemorySolves{records: map[int64]SolveRecord{}, events: map[int64][]SolveRow{},
		blobs: map[int64][][]byte{}, begun: map[int64]bool{}}
}

// Durable implements SolveStore.
func (*MemorySolves) Durable() bool { return false }

// WriteSolves implements SolveStore. It keeps the data of the batch, without a copy.
func (ms *MemorySolves) WriteSolves(_ context.Context, b *SolveBatch) error {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, rec := range b.Put {
		ms.records[rec.Num] = rec
	}
	for _, num := range b.Clear {
		delete(ms.events, num)
	}
	for _, num := range b.Drop {
		delete(ms.records, num)
	}
	for _, row := range b.Events {
		ms.events[row.Num] = append(ms.events[row.Num], row)
	}
	for _, c := range b.Chunks {
		ms.blobs[c.Blob] = append(ms.blobs[c.Blob], c.Data)
	}
	for _, blob := range b.Begin {
		ms.begun[blob] = true
	}
	for _, blob := range b.Hold {
		delete(ms.begun, blob)
	}
	for _, blob := range b.Release {
		delete(ms.begun, blob)
		ms.released = append(ms.released, blob)
	}
	return nil
}

// SweepSolves implements SolveStore.
func (ms *MemorySolves) SweepSolves(_ context.Context, all bool) (bool, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if all {
		for blob := range ms.begun {
			ms.released = append(ms.released, blob)
		}
		clear(ms.begun)
	}
	for _, blob := range ms.released {
		delete(ms.blobs, blob)
	}
	ms.released = nil
	return false, nil
}

// Solves implements SolveReader.
func (ms *MemorySolves) Solves(context.Context) ([]SolveRecord, error) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	all := make([]SolveRecord, 0, len(ms.records))
	for _, rec := range ms.records {
		all = append(all, rec)
	}
	slices.SortFunc(all, func(a, b SolveRecord) int { return int(a.Num - b.Num) })
	return all, nil
}

// SolveEvents implements SolveReader.
func (ms *MemorySolves) SolveEvents(_ context.Context, num, seq int64, bytes int) ([]SolveRow, error) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	rows := ms.events[num]
	from, _ := slices.BinarySearchFunc(rows, seq, func(row SolveRow, seq int64) int { return int(row.Last - seq) })
	to := from
	for size := 0; to < len(rows) && (to == from || size < bytes); to++ {
		size += len(rows[to].Data)
	}
	return slices.Clone(rows[from:to]), nil
}

// Chunk implements SolveReader.
func (ms *MemorySolves) Chunk(_ context.Context, blob int64, index int) ([]byte, error) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	if chunks := ms.blobs[blob]; index < len(chunks) {
		return chunks[index], nil
	}
	return nil, nil
}

// LastBlob implements SolveReader.
func (ms *MemorySolves) LastBlob(context.Context) (last int64, err error) {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	for blob := range ms.blobs {
		last = max(last, blob)
	}
	return last, nil
}
