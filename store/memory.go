package store

import (
	"context"
	"slices"
	"sync"
)

// Memory is a Store that lasts as long as the process.
type Memory struct {
	mu    sync.RWMutex
	order []string
	logs  map[string]*memoryLog
}

type memoryLog struct {
	meta      Meta
	rows      []Row
	snapshots []Snapshot // the newest first
}

var _ SessionStore = (*Memory)(nil)

// NewMemory makes an empty store.
func NewMemory() *Memory { return &Memory{logs: map[string]*memoryLog{}} }

// Create implements Store.
func (s *Memory) Create(_ context.Context, m Meta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logs[m.ID] = &memoryLog{meta: m}
	s.order = append(s.order, m.ID)
	return nil
}

// Sessions implements Store.
func (s *Memory) Sessions(context.Context) ([]Meta, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	metas := make([]Meta, len(s.order))
	for i, id := range s.order {
		l := s.logs[id]
		metas[i] = l.meta
		if n := len(l.rows); n > 0 {
			metas[i].Last = l.rows[n-1].Last
		}
	}
	return metas, nil
}

// Sizes implements Store.
func (s *Memory) Sizes(context.Context) (map[string]int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	sizes := map[string]int64{}
	for id, l := range s.logs {
		for i := range l.rows {
			sizes[id] += int64(len(l.rows[i].Data))
		}
	}
	return sizes, nil
}

// Delete implements Store.
func (s *Memory) Delete(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs[id] == nil {
		return ErrNoSession
	}
	delete(s.logs, id)
	s.order = slices.DeleteFunc(s.order, func(o string) bool { return o == id })
	return nil
}

// Append implements Store. It keeps the data of rows.
func (s *Memory) Append(_ context.Context, rows []Row) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := map[string]int64{}
	for i := range rows {
		r := &rows[i]
		l := s.logs[r.Session]
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
		l := s.logs[rows[i].Session]
		l.rows = append(l.rows, rows[i])
	}
	return nil
}

// Rows implements Store.
func (s *Memory) Rows(_ context.Context, id string, seq int64, bytes int) ([]Row, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	l := s.logs[id]
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

// SaveSnapshot implements Store.
func (s *Memory) SaveSnapshot(_ context.Context, snap Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[snap.Session]
	if l == nil {
		return ErrNoSession
	}
	l.snapshots = slices.Insert(l.snapshots, 0, snap)
	if len(l.snapshots) > 3 {
		l.snapshots = slices.Delete(l.snapshots, 2, 3)
	}
	return nil
}

// Snapshots implements Store.
func (s *Memory) Snapshots(_ context.Context, id string) ([]Snapshot, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if l := s.logs[id]; l != nil {
		return slices.Clone(l.snapshots), nil
	}
	return nil, nil
}

// Close implements Store.
func (s *Memory) Close() error { return nil }
