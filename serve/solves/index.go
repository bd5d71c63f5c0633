package solves

import (
	"cmp"
	"slices"

	"github.com/hare-sched/hare/serve/store"
)

// recordBytes is about what a solve takes in the store besides its blobs.
const recordBytes = 2048

// index puts a durable solve into the maps.
func (ss *Solves) index(s *solve, st store.SolveState) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.solves[s.id] = s
	if st.GoneUs != 0 {
		return
	}
	key := s.list(st.Kind)
	list := append(ss.lists[key], s)
	for i := len(list) - 1; i > 0 && list[i-1].num > s.num; i-- {
		list[i-1], list[i] = list[i], list[i-1]
	}
	ss.lists[key] = list
	for _, ref := range st.Blobs() {
		if st.Cached && ref == *st.Result {
			continue // register or load retained the blob
		}
		ss.retainBlob(ref, s.tenant)
	}
	if store.Finished(st.Status) {
		ss.finished(s, &st)
	}
}

// countBytes adds to the stored bytes of a tenant; bytes may be negative.
func (ss *Solves) countBytes(tenant string, bytes int64) {
	ss.bytes += bytes
	ss.cfg.Quotas.Stored(tenant, bytes)
}

// retainBlob counts one more reference of a tenant to a blob. Only solves of one tenant
// share a blob.
func (ss *Solves) retainBlob(ref store.BlobRef, tenant string) {
	h := ss.blobs[ref.Blob]
	if h == nil {
		h = &sharedBlob{size: ref.Size, tenant: tenant}
		ss.blobs[ref.Blob] = h
		ss.countBytes(tenant, ref.Size)
	}
	h.refs++
}

// releaseBlob counts one reference to a blob less, and adds the blob to the batch's
// releases with the last reference.
func (ss *Solves) releaseBlob(b *store.SolveBatch, ref store.BlobRef) {
	h := ss.blobs[ref.Blob]
	if h == nil {
		return
	}
	if h.refs--; h.refs == 0 {
		delete(ss.blobs, ref.Blob)
		ss.countBytes(h.tenant, -h.size)
		b.Release = append(b.Release, ref.Blob)
	}
}

// finished puts a solve that has ended into the maps of finished solves.
func (ss *Solves) finished(s *solve, st *store.SolveState) {
	ss.ended = append(ss.ended, s)
	ss.countBytes(s.tenant, recordBytes)
	if st.Content != nil && st.Result != nil {
		ss.content[*st.Content] = append(ss.content[*st.Content], s)
	}
	if ss.bytes > ss.cfg.MaxBytes {
		notify(ss.cleanup)
	}
}

// unindex removes a solve from the maps, but for those by ID and by idempotency key.
func (ss *Solves) unindex(was *store.SolveState, s *solve) {
	key := s.list(was.Kind)
	list := ss.lists[key]
	if i, ok := slices.BinarySearchFunc(list, s.num,
		func(o *solve, num int64) int { return cmp.Compare(o.num, num) }); ok {
		ss.lists[key] = slices.Delete(list, i, i+1)
	}
	if len(ss.lists[key]) == 0 {
		delete(ss.lists, key)
	}
	if was.Content != nil {
		same := slices.DeleteFunc(ss.content[*was.Content], func(o *solve) bool { return o == s })
		if ss.content[*was.Content] = same; len(same) == 0 {
			delete(ss.content, *was.Content)
		}
	}
}
