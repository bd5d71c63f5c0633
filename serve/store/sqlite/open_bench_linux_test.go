package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hare-sched/hare/serve/store"
)

// BenchmarkOpen opens a database of 1.5 GB in rows of 20 KB that is not in the page
// cache. After a kill, Open waits for the check of all pages; after a clean end it does
// not.
func BenchmarkOpen(b *testing.B) {
	ctx, dir := b.Context(), b.TempDir()
	s, err := Open(ctx, dir)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Create(ctx, store.Meta{ID: "a", Created: micros(1), Config: []byte("{}")}); err != nil {
		b.Fatal(err)
	}
	const rows, batch = 75_000, 500
	data := make([]byte, 20_000)
	next := int64(1)
	row := func() store.Row {
		next++
		return store.Row{Session: "a", First: next - 1, Last: next - 1, Data: data}
	}
	for range rows / batch {
		some := make([]store.Row, batch)
		for i := range some {
			some[i] = row()
		}
		if err := s.Append(ctx, some); err != nil {
			b.Fatal(err)
		}
	}
	for _, how := range []string{"killed", "clean"} {
		b.Run(how, func(b *testing.B) {
			var first, checked time.Duration
			for b.Loop() {
				b.StopTimer()
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				if how == "killed" {
					if err := os.Remove(filepath.Join(dir, cleanFile)); err != nil {
						b.Fatal(err)
					}
				}
				dropPageCache(b, filepath.Join(dir, databaseFile))
				b.StartTimer()
				began := time.Now()
				if s, err = Open(ctx, dir); err != nil {
					b.Fatal(err)
				}
				if err := s.Append(ctx, []store.Row{row()}); err != nil {
					b.Fatal(err)
				}
				first += time.Since(began)
				b.StopTimer()
				if err := s.Damage(ctx); err != nil {
					b.Fatal(err)
				}
				checked += time.Since(began)
				b.StartTimer()
			}
			b.ReportMetric(first.Seconds()/float64(b.N), "s-to-first-row")
			b.ReportMetric(checked.Seconds()/float64(b.N), "s-to-all-checked")
		})
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// dropPageCache drops a file from the page cache.
func dropPageCache(b *testing.B, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		b.Fatal(err)
	}
}
