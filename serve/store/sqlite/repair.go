package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/serve/store"
)

// Repair is what Salvage did.
type Repair struct {
	Files    []string // what is damaged in the files themselves
	Sessions []store.Salvaged
	Solves   []store.SalvagedSolve
}

// Salvage makes the new data directory dir from the parts of src that can be trusted. src is
// a damaged data directory or backup and is not changed. Where its files are damaged,
// Salvage takes of several readings the one that saves most: checksums keep each of them
// from passing for true what was not written. Salvage refuses a directory that has a
// database with fs.ErrExist.
func Salvage(ctx context.Context, src, dir string) (rep Repair, err error) {
	dst := filepath.Join(dir, databaseFile)
	if _, err := os.Lstat(dst); err == nil {
		return rep, &fs.PathError{Op: "repair", Path: dst, Err: fs.ErrExist}
	}
	v, err := OpenView(ctx, src)
	var bad *store.CorruptError
	if errors.As(err, &bad) {
		rep.Files = append(rep.Files, bad.What)
		if err := makeDir(dir); err != nil {
			return rep, err
		}
		defer os.Remove(dir) // succeeds where nothing was saved
		var trial string
		if trial, err = os.MkdirTemp(dir, "repair"); err != nil {
			return rep, err
		}
		defer os.RemoveAll(trial)
		v, err = bestImage(ctx, src, trial, bad)
	}
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	to, err := Open(ctx, dir)
	if err != nil {
		return rep, err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	listed := func(what string, err error) error {
		if errors.As(err, &bad) {
			rep.Files = append(rep.Files, v.path+": the list of "+what+" is damaged: "+bad.What)
			return nil
		}
		return err
	}
	rep.Sessions, err = store.SalvageSessions(ctx, v, to)
	if err = listed("sessions", err); err != nil {
		return rep, err
	}
	rep.Solves, err = store.SalvageSolves(ctx, v, to)
	return rep, listed("solves", err)
}

// A reading says which frames of the write-ahead log are applied to the database.
type reading func(w wal, f frame) bool

// readings are the readings of a directory. A page with a wrong bit is often better than the
// page before the commit, since all its other rows are whole, and sometimes worse.
var readings = []reading{
	func(w wal, f frame) bool { return f.number <= w.end },
	func(w wal, f frame) bool { return f.number <= w.end && f.intact },
	func(w wal, f frame) bool { return f.number <= w.frames },
	func(wal, frame) bool { return false },
}

// bestImage makes a database in the directory trial by each reading of src, and opens the
// one with most that can be trusted. It returns bad where nothing is found.
func bestImage(ctx context.Context, src, trial string, bad error) (best *View, err error) {
	path := src
	if info, err := os.Stat(src); err != nil {
		return nil, err
	} else if info.IsDir() {
		path = filepath.Join(src, databaseFile)
	}
	firsts, err := firstPages(ctx, trial)
	if err != nil {
		return nil, err
	}
	most := -1
	defer func() {
		if err != nil && best != nil {
			_ = best.Close()
		}
	}()
	for i, apply := range readings {
		image := filepath.Join(trial, fmt.Sprint("image", i))
		applied, err := makeImage(path, image, apply)
		if err != nil {
			return best, err
		}
		if applied == 0 && i < len(readings)-1 {
			continue // the same as the last reading
		}
		v, n, err := openImage(ctx, image, firsts)
		if err != nil {
			return best, err
		}
		if v == nil || n <= most {
			if v != nil {
				_ = v.Close()
			}
			_ = os.Remove(image)
			continue
		}
		if best != nil {
			_ = best.Close()
			_ = os.Remove(best.path)
		}
		best, most = v, n
	}
	if best == nil {
		return nil, fmt.Errorf("nothing of it can be saved, restore a backup: %w", bad)
	}
	return best, nil
}

// makeImage writes the database as a reading of it and its log has it, in whole pages.
func makeImage(path, image string, apply reading) (applied int, err error) {
	if err := copyFile(path, image); errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(image, nil, 0o600)
		if err != nil {
			return 0, err
		}
	} else if err != nil {
		return 0, err
	}
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size := int64(defaultPage)
	if header, _, err := readHeader(path); err == nil && headerFault(header) == "" {
		size = pageSize(header)
	}
	w, err := readWAL(path+"-wal", 0, int(size), nil)
	if err != nil {
		return 0, err
	}
	if w.size > walHeaderBytes {
		size = int64(w.pageSize)
		if _, err := readWAL(path+"-wal", 0, int(size), func(fr frame) error {
			if int64(fr.page) > maxPages || !apply(w, fr) {
				return nil
			}
			applied++
			_, err := f.WriteAt(fr.data, int64(fr.page-1)*size)
			return err
		}); err != nil {
			return 0, err
		}
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return applied, f.Truncate((info.Size() + size - 1) / size * size)
}

const (
	defaultPage = 4096    // bytes; SQLite's default, which Hare does not change
	maxPages    = 1 << 28 // 1 TiB: a greater number of a page is damaged
)

// firstPages returns the first pages that a database has when it is made and when it was
// restored from a backup. The first page has the header of the database and the places of
// the tables, which do not change.
func firstPages(ctx context.Context, dir string) (pages [][]byte, err error) {
	made, restored := filepath.Join(dir, "made"), filepath.Join(dir, "restored")
	if err := create(ctx, made); err != nil {
		return nil, err
	}
	db, err := openMode(ctx, made, "mode=ro")
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", restored)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fault(err)
	}
	for _, path := range []string{made, restored} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		pages = append(pages, b[:defaultPage])
	}
	return pages, nil
}

// openImage opens an image and counts what can be trusted in it. Where the first page is
// damaged, it tries the pages that might have been there. It returns nil where nothing helps.
func openImage(ctx context.Context, image string, firsts [][]byte) (*View, int, error) {
	first := make([]byte, defaultPage)
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if _, err := f.ReadAt(first, 0); err != nil {
		return nil, 0, ignoreEnd(err) // less than a page
	}
	header := append(firsts[0][:dbHeaderBytes:dbHeaderBytes], first[dbHeaderBytes:]...)
	for i, page := range append([][]byte{first, header}, firsts...) {
		if headerFault(page) != "" {
			continue
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, err
		}
		page = append([]byte(nil), page...)
		copy(page[18:], []byte{1, 1}) // no write-ahead log
		binary.BigEndian.PutUint32(page[28:], uint32(info.Size()/pageSize(page)))
		copy(page[92:96], page[24:28]) // the number of pages is valid
		if _, err := f.WriteAt(page, 0); err != nil {
			return nil, 0, err
		}
		db, err := openMode(ctx, image, "mode=ro&immutable=1")
		var v *View
		if err == nil {
			v, err = newView(ctx, db, image)
		}
		n := 0
		if err == nil {
			if n, err = v.count(ctx); err != nil {
				_ = v.Close()
			}
		}
		switch {
		case err == nil && (n > 0 || i == 0):
			return v, n, nil
		case err == nil:
			_ = v.Close()
		case ctx.Err() != nil:
			return nil, 0, err
		}
	}
	return nil, 0, nil
}

// count counts the sessions, events and solves that can be trusted.
func (v *View) count(ctx context.Context) (n int, err error) {
	metas, err := v.Sessions(ctx)
	if err != nil && !errors.As(err, new(*store.CorruptError)) {
		return 0, err
	}
	for _, m := range metas {
		last, err := store.CheckSession(ctx, v, m)
		if err != nil && !errors.As(err, new(*store.CorruptError)) {
			return 0, err
		}
		n += 1 + int(last)
	}
	solves, err := v.Solves(ctx)
	if err != nil && !errors.As(err, new(*store.CorruptError)) {
		return 0, err
	}
	for i := range solves {
		if store.CheckSolve(ctx, v, &solves[i]) == nil {
			n++
		}
	}
	return n, nil
}
