package store

import (
	"context"
	"slices"
	"sync"
)

// MemorySolves is a SolveStore that lasts as long as the process.
type MemorySolves struct {
	mu      sync.RWMutex
	records map[int64]SolveRecord
	events  map[int64][]SolveRow
	blobs   map[int64][][]byte
	begun   map[int64]bool
	loose   []int64
}

var _ SolveStore = (*MemorySolves)(nil)

// NewMemorySolves makes an empty store.
func NewMemorySolves() *MemorySolves {
	return &MemorySolves{records: map[int64]SolveRecord{}, events: map[int64][]SolveRow{},
		blobs: map[int64][][]byte{}, begun: map[int64]bool{}}
}

// Durable implements SolveStore.
func (*MemorySolves) Durable() bool { return false }

// WriteSolves implements SolveStore. It keeps the data of the batch.
func (m *MemorySolves) WriteSolves(_ context.Context, b *SolveBatch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range b.Put {
		m.records[r.Num] = r
	}
	for _, num := range b.Clear {
		delete(m.events, num)
	}
	for _, num := range b.Drop {
		delete(m.records, num)
	}
	for _, r := range b.Events {
		m.events[r.Num] = append(m.events[r.Num], r)
	}
	for _, c := range b.Chunks {
		m.blobs[c.Blob] = append(m.blobs[c.Blob], c.Data)
	}
	for _, blob := range b.Begin {
		m.begun[blob] = true
	}
	for _, blob := range b.Hold {
		delete(m.begun, blob)
	}
	for _, blob := range b.Release {
		delete(m.begun, blob)
		m.loose = append(m.loose, blob)
	}
	return nil
}

// SweepSolves implements SolveStore.
func (m *MemorySolves) SweepSolves(_ context.Context, all bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if all {
		for blob := range m.begun {
			m.loose = append(m.loose, blob)
		}
		clear(m.begun)
	}
	for _, blob := range m.loose {
		delete(m.blobs, blob)
	}
	m.loose = nil
	return false, nil
}

// Solves implements SolveReader.
func (m *MemorySolves) Solves(context.Context) ([]SolveRecord, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := make([]SolveRecord, 0, len(m.records))
	for _, r := range m.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b SolveRecord) int { return int(a.Num - b.Num) })
	return all, nil
}

// SolveEvents implements SolveReader.
func (m *MemorySolves) SolveEvents(_ context.Context, num, seq int64, bytes int) ([]SolveRow, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	rows := m.events[num]
	from, _ := slices.BinarySearchFunc(rows, seq, func(r SolveRow, seq int64) int { return int(r.Last - seq) })
	to := from
	for size := 0; to < len(rows) && (to == from || size < bytes); to++ {
		size += len(rows[to].Data)
	}
	return slices.Clone(rows[from:to]), nil
}

// Chunk implements SolveReader.
func (m *MemorySolves) Chunk(_ context.Context, blob int64, index int) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if chunks := m.blobs[blob]; index < len(chunks) {
		return chunks[index], nil
	}
	return nil, nil
}

// LastBlob implements SolveReader.
func (m *MemorySolves) LastBlob(context.Context) (last int64, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for blob := range m.blobs {
		last = max(last, blob)
	}
	return last, nil
}
