// Package pages cuts a list that is sorted by any of its columns into pages. A page ends with a cursor, after which
// the next one begins, so that no entry is lost or comes twice while nothing changes.
package pages

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// ErrCursor says that a cursor is not of a list that is sorted so.
var ErrCursor = errors.New("pages: not the next of a list that is sorted so")

// Unknown is the class of the entries that come last in either direction.
const Unknown = 9

// Key is the place of an entry in a list. Its fields are compared one after the other; number and ID are the same for
// no two entries.
type Key struct {
	Class  int    `json:"c,omitempty"`
	Value  int64  `json:"v,omitempty"`
	Text   string `json:"t,omitempty"`
	Number int    `json:"n,omitempty"`
	ID     string `json:"i,omitempty"`
}

// compare compares two keys. What is alike is in the same order in both directions.
func (a *Key) compare(b *Key, down bool) int {
	x, y := a, b
	if down && a.Class != Unknown && b.Class != Unknown {
		x, y = b, a
	}
	return cmp.Or(cmp.Compare(x.Class, y.Class), cmp.Compare(x.Value, y.Value), strings.Compare(x.Text, y.Text),
		cmp.Compare(a.Number, b.Number), strings.Compare(a.ID, b.ID))
}

// Page collects the entries of a page out of all entries of a list, in any order.
type Page[T any] struct {
	Total int    // entries of all pages
	By    string // the column
	Down  bool
	sort  string
	after *Key
	limit int
	first []entry[T]
}

type entry[T any] struct {
	key   Key
	value T
}

type cursor struct {
	Sort string `json:"s"`
	Key  Key    `json:"k"`
}

// New makes the page after a cursor, "" meaning the first one, of at most limit entries. sort is a column, with -
// before it for the other direction.
func New[T any](sort, after string, limit int) (*Page[T], error) {
	p := &Page[T]{sort: sort, limit: limit}
	p.By, p.Down = strings.CutPrefix(sort, "-")
	if after == "" {
		return p, nil
	}
	var c cursor
	text, err := base64.RawURLEncoding.DecodeString(after)
	if err != nil || json.Unmarshal(text, &c) != nil || c.Sort != sort {
		return nil, ErrCursor
	}
	p.after = &c.Key
	return p, nil
}

// Add adds an entry of the list.
func (p *Page[T]) Add(k Key, value T) {
	p.Total++
	if p.after != nil && p.after.compare(&k, p.Down) >= 0 {
		return
	}
	if p.first = append(p.first, entry[T]{k, value}); len(p.first) >= 4*p.limit+1024 {
		p.cut()
	}
}

// cut keeps the first entries, and one that shows whether there is another page.
func (p *Page[T]) cut() {
	slices.SortFunc(p.first, func(a, b entry[T]) int { return a.key.compare(&b.key, p.Down) })
	p.first = p.first[:min(len(p.first), p.limit+1)]
}

// Entries are those of the page, and the cursor of the next one, "" where there is none.
func (p *Page[T]) Entries() (all []T, next string, err error) {
	p.cut()
	if len(p.first) > p.limit {
		p.first = p.first[:p.limit]
		text, err := json.Marshal(cursor{p.sort, p.first[p.limit-1].key})
		if err != nil {
			return nil, "", err
		}
		next = base64.RawURLEncoding.EncodeToString(text)
	}
	for i := range p.first {
		all = append(all, p.first[i].value)
	}
	return all, next, nil
}
