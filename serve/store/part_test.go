package store_test

import (
	"errors"
	"testing"

	"github.com/hare-sched/hare/serve/store"
)

func TestParts(t *testing.T) {
	whole := store.NewMemory()
	row := func(id, text string) store.Row {
		m := store.Meta{ID: id}
		m.Sum = m.Checksum()
		if err := whole.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		r := store.Row{Session: id, First: 1, Last: 1, Data: []byte(text), Prev: m.Sum}
		r.Sum = r.Checksum()
		return r
	}
	journal := store.JournalPrefix + "lab"
	if err := whole.Append(t.Context(), []store.Row{row("session", "{}\n"), row(journal, "no session\n")}); err != nil {
		t.Fatal(err)
	}
	for id, part := range map[string]*store.Part{"session": store.WithoutJournals(whole),
		journal: store.Journals(whole)} {
		metas, err := part.Sessions(t.Context())
		sizes, errSizes := part.Sizes(t.Context())
		if err := errors.Join(err, errSizes); err != nil || len(metas) != 1 || metas[0].ID != id || len(sizes) != 1 ||
			sizes[id] == 0 {
			t.Error(id, metas, sizes, err)
		}
	}
	metas, err := whole.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range metas {
		last, err := store.CheckSession(t.Context(), whole, m)
		if store.IsJournal(m.ID) && (last != 1 || err != nil) {
			t.Error("a journal was read as a session", last, err)
		}
	}
	// A journal whose chain is broken is found all the same.
	bad := store.Row{Session: journal, First: 2, Last: 2, Data: []byte("{}\n")}
	if err := whole.Append(t.Context(), []store.Row{bad}); err != nil {
		t.Fatal(err)
	}
	if last, err := store.CheckSession(t.Context(), whole, metas[1]); last != 1 || err == nil {
		t.Error("a broken journal passed", last, err)
	}
}
