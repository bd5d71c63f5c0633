package store

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Memory is a SessionStore that lasts as long as the process.
type Memory struct {
	mu    sync.RWMutex
	order []string
	logs  map[string]*memoryLog
}

type memoryLog struct {
	meta      Meta
	rows      []Row
	snapshots []Snapshot // the newest first
	history   []HistoryRow
}

var _ SessionStore = (*Memory)(nil)

// NewMemory makes an empty store.
func NewMemory() *Memory { return &Memory{logs: map[string]*memoryLog{}} }

// Create implements SessionStore.
func (mem *Memory) Create(_ context.Context, m Meta) error {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	mem.logs[m.ID] = &memoryLog{meta: m}
	mem.order = append(mem.order, m.ID)
	return nil
}

// Sessions implements SessionStore.
func (mem *Memory) Sessions(context.Context) ([]Meta, error) {
	mem.mu.RLock()
	defer mem.mu.RUnlock()
	metas := make([]Meta, len(mem.order))
	for i, id := range mem.order {
		l := mem.logs[id]
		metas[i] = l.meta
		if n := len(l.rows); n > 0 {
			metas[i].Last = l.rows[n-1].Last
		}
	}
	return metas, nil
}

// Sizes implements SessionStore.
func (mem *Memory) Sizes(context.Context) (map[string]int64, error) {
	mem.mu.RLock()
	defer mem.mu.RUnlock()
	sizes := map[string]int64{}
	for id, l := range mem.logs {
		for i := range l.rows {
			sizes[id] += int64(len(l.rows[i].Data))
		}
	}
	return sizes, nil
}

// Delete implements SessionStore.
func (mem *Memory) Delete(_ context.Context, id string) error {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	if mem.logs[id] == nil {
		return ErrNoSession
	}
	delete(mem.logs, id)
	mem.order = slices.DeleteFunc(mem.order, func(o string) bool { return o == id })
	return nil
}

// Append implements SessionStore. It keeps the data of the rows, without a copy.
func (mem *Memory) Append(_ context.Context, rows []Row) error {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	ends := map[string]int64{}
	for i := range rows {
		r := &rows[i]
		l := mem.logs[r.Session]
		if l == nil {
			return ErrNoSession
		}
		last, seen := ends[r.Session]
		if n := len(l.rows); !seen && n > 0 {
			last = l.rows[n-1].Last
		}
		if r.First != last+1 || r.Last < r.First {
			return ErrFence
		}
		ends[r.Session] = r.Last
	}
	for i := range rows {
		l := mem.logs[rows[i].Session]
		l.rows = append(l.rows, rows[i])
	}
	return nil
}

// Rows implements SessionStore.
func (mem *Memory) Rows(_ context.Context, id string, seq int64, bytes int) ([]Row, error) {
	mem.mu.RLock()
	defer mem.mu.RUnlock()
	l := mem.logs[id]
	if l == nil {
		return nil, nil
	}
	from, _ := slices.BinarySearchFunc(l.rows, seq, func(r Row, seq int64) int { return int(r.Last - seq) })
	to := from
	for size := 0; to < len(l.rows) && (to == from || size < bytes); to++ {
		size += len(l.rows[to].Data)
	}
	return slices.Clone(l.rows[from:to]), nil
}

// SaveSnapshot implements SessionStore.
func (mem *Memory) SaveSnapshot(_ context.Context, snap Snapshot) error {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	l := mem.logs[snap.Session]
	if l == nil {
		return ErrNoSession
	}
	l.snapshots = slices.Insert(l.snapshots, 0, snap)
	if len(l.snapshots) > 3 {
		l.snapshots = slices.Delete(l.snapshots, 2, 3)
	}
	return nil
}

// Snapshots implements SessionStore.
func (mem *Memory) Snapshots(_ context.Context, id string) ([]Snapshot, error) {
	mem.mu.RLock()
	defer mem.mu.RUnlock()
	if l := mem.logs[id]; l != nil {
		return slices.Clone(l.snapshots), nil
	}
	return nil, nil
}

// SaveHistory implements SessionStore.
func (mem *Memory) SaveHistory(_ context.Context, id string, rows []HistoryRow, before int64) error {
	mem.mu.Lock()
	defer mem.mu.Unlock()
	l := mem.logs[id]
	if l == nil {
		return ErrNoSession
	}
	for _, r := range rows {
		at, found := l.minute(r.Minute)
		if found {
			l.history[at] = r
		} else {
			l.history = slices.Insert(l.history, at, r)
		}
	}
	first, _ := l.minute(before)
	l.history = slices.Delete(l.history, 0, first)
	return nil
}

// minute is where the row of a minute is in the history, or would be.
func (l *memoryLog) minute(n int64) (at int, found bool) {
	return slices.BinarySearchFunc(l.history, n, func(r HistoryRow, n int64) int { return cmp.Compare(r.Minute, n) })
}

// History implements SessionStore.
func (mem *Memory) History(_ context.Context, id string, from, to int64) ([]HistoryRow, error) {
	mem.mu.RLock()
	defer mem.mu.RUnlock()
	l := mem.logs[id]
	if l == nil || from >= to {
		return nil, nil
	}
	first, _ := l.minute(from)
	end, _ := l.minute(to)
	return slices.Clone(l.history[first:end]), nil
}

// Close implements SessionStore.
func (mem *Memory) Close() error { return nil }
