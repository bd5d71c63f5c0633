package store

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// JournalPrefix begins the IDs of logs that are journals of managed clusters and no sessions. Both kinds are in one
// store, so that a backup has both as they were at the same moment: a journal fits the session that it belongs to.
const JournalPrefix = "cluster-"

// IsJournal reports whether a log is the journal of a managed cluster.
func IsJournal(id string) bool { return strings.HasPrefix(id, JournalPrefix) }

// Part shows the logs of one kind of a store.
type Part struct {
	SessionStore
	journals bool
}

var _ SessionStore = (*Part)(nil)

// Journals shows the journals of a store. Its Close does nothing.
func Journals(s SessionStore) *Part { return &Part{s, true} }

// WithoutJournals shows the sessions of a store. Its Close closes the store.
func WithoutJournals(s SessionStore) *Part { return &Part{s, false} }

// Sessions implements SessionStore.
func (p *Part) Sessions(ctx context.Context) ([]Meta, error) {
	all, err := p.SessionStore.Sessions(ctx)
	return slices.DeleteFunc(all, func(m Meta) bool { return IsJournal(m.ID) != p.journals }), err
}

// Sizes implements SessionStore.
func (p *Part) Sizes(ctx context.Context) (map[string]int64, error) {
	sizes, err := p.SessionStore.Sizes(ctx)
	maps.DeleteFunc(sizes, func(id string, _ int64) bool { return IsJournal(id) != p.journals })
	return sizes, err
}

// Close implements SessionStore.
func (p *Part) Close() error {
	if p.journals {
		return nil
	}
	return p.SessionStore.Close()
}
