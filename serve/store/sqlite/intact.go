package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hare-sched/hare/serve/store"
)

// dbHeaderBytes is the size of the header of a database, at the beginning of page 1; see
// https://www.sqlite.org/fileformat.html, section 1.3.
const dbHeaderBytes = 100

const dbMagic = "SQLite format 3\x00"

// intact checks the files of a data directory that nobody uses before SQLite reads and
// changes them. It reports whether the directory never had a database, of which trace, from
// traceOf, would be left. Damage gives *store.CorruptError.
func intact(dir, trace string) (fresh bool, err error) {
	path := filepath.Join(dir, databaseFile)
	header, size, err := readHeader(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if trace != "" {
			return false, &store.CorruptError{What: fmt.Sprintf("%s is missing, and %s shows that it was there", path, trace)}
		}
		return true, nil
	case err != nil:
		return false, err
	case size == 0:
		return false, &store.CorruptError{What: path + " has 0 bytes, and Hare never leaves it so"}
	}
	if what := headerFault(header); what != "" {
		return false, &store.CorruptError{What: path + ": " + what}
	}
	w, err := intactWAL(dir)
	if err != nil {
		return false, err
	}
	if what := sizeFault(header, size); what != "" && w.frames == 0 {
		return false, &store.CorruptError{What: path + ": " + what}
	}
	return false, nil
}

// checkFiles does what intact does, unless a server uses the directory, which has checked
// the files at its start. The error is fs.ErrNotExist where there never was a database.
func checkFiles(dir string) error {
	if inUse(dir) {
		return nil
	}
	fresh, err := intact(dir, traceOf(dir))
	if err != nil && inUse(dir) {
		return nil // a server has started meanwhile
	}
	if fresh {
		return &fs.PathError{Op: "open", Path: filepath.Join(dir, databaseFile), Err: fs.ErrNotExist}
	}
	return err
}

// traceOf returns the name of a file that shows that a directory had a database, or "".
func traceOf(dir string) string {
	find := func(name string) fs.FileInfo {
		info, _ := os.Lstat(filepath.Join(dir, name))
		return info
	}
	names := []string{databaseFile + "-wal", databaseFile + "-shm"}
	if info := find(headFile); info != nil && info.Size() == headBytes {
		return headFile
	}
	if find(lockFile) != nil { // other programs also have such names
		names = append(names, cleanFile, "logs", "checkpoints")
	}
	for _, name := range names {
		if find(name) != nil {
			return name
		}
	}
	return ""
}

// readHeader returns the header of a database and the size of the file.
func readHeader(path string) (header []byte, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	header = make([]byte, dbHeaderBytes)
	n, err := io.ReadFull(f, header)
	return header[:n], info.Size(), ignoreEnd(err)
}

// headerFault says what is wrong with the header of a database that this package wrote.
func headerFault(h []byte) string {
	if len(h) < dbHeaderBytes || !bytes.HasPrefix(h, []byte(dbMagic)) {
		return "it is not a database, or its beginning is lost"
	}
	format := [2]byte(h[18:])
	pages := binary.BigEndian.Uint16(h[16:])
	switch {
	case pages != 1 && (pages < 512 || pages&(pages-1) != 0), // size of a page; 1 means 65,536 bytes
		format != [2]byte{1, 1} && format != [2]byte{2, 2}, // without and with a write-ahead log
		!bytes.Equal(h[20:24], []byte{0, 64, 32, 32}),      // no reserved bytes, and constants
		binary.BigEndian.Uint32(h[44:]) != 4,               // schema format
		binary.BigEndian.Uint32(h[56:]) != 1,               // UTF-8
		bytes.ContainsFunc(h[72:92], func(r rune) bool { return r != 0 }):
		return "its header is damaged"
	}
	return ""
}

func pageSize(header []byte) int64 {
	if n := int64(binary.BigEndian.Uint16(header[16:])); n != 1 {
		return n
	}
	return 1 << 16
}

// sizeFault says what is wrong with the size of a database whose header is sound.
func sizeFault(header []byte, size int64) string {
	// The number of pages is only valid where the two counters of changes are equal.
	want := int64(binary.BigEndian.Uint32(header[28:]))
	if have := size / pageSize(header); bytes.Equal(header[24:28], header[92:96]) && have < want {
		return fmt.Sprintf("it lacks the last %d of its %d pages", want-have, want)
	}
	return ""
}

// intactWAL checks that the write-ahead log of a directory has every commit that was
// acknowledged.
func intactWAL(dir string) (w wal, err error) {
	path := filepath.Join(dir, databaseFile)
	h := readHead(dir)
	if w, err = scanWAL(path+"-wal", h.frames); err != nil {
		return w, err
	}
	return w, walFault(dir, w, h)
}

func walFault(dir string, w wal, h head) error {
	path := filepath.Join(dir, databaseFile)
	bad := func(format string, args ...any) error {
		return &store.CorruptError{What: path + "-wal: " + fmt.Sprintf(format, args...)}
	}
	switch {
	case w.size > walHeaderBytes && !w.valid:
		return bad("its header is damaged, and the newest commits are behind it")
	case w.lost > 0 && !w.torn:
		return bad("it is damaged after commit %d, and %d more follow the damage", w.commits, w.lost)
	case h.frames == 0 || h.emptied && (!w.valid || w.salt != h.salt):
		return nil
	case !w.valid:
		// A clean end empties the log, and so does any other program that reads the database
		// after a kill and closes it.
		if _, err := os.Lstat(filepath.Join(dir, cleanFile)); err == nil || hasPage(path, h) {
			return nil
		}
		return bad("it is missing or empty, and had %d commits that were acknowledged", h.commits)
	case w.salt != h.salt:
		// SQLite counts in the upper half of the salt how often it has begun the log again. A
		// head that was on disk before a loss of power may be of an earlier log.
		if int32(uint32(w.salt>>32)-uint32(h.salt>>32)) > 0 {
			return nil
		}
		return bad("it is not the one in which %d commits were acknowledged", h.commits)
	case w.frames < h.frames:
		return bad("it ends, or is damaged, behind %d of %d commits that were acknowledged", w.commits, h.commits)
	case w.at != h.sum:
		return bad("a commit that was acknowledged has another content")
	}
	return nil
}

// hasPage reports whether the database contains the last page of the log to which h
// belongs.
func hasPage(path string, h head) bool {
	header, _, err := readHeader(path)
	if err != nil || len(header) < dbHeaderBytes {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	page := make([]byte, pageSize(header))
	_, err = f.ReadAt(page, int64(h.page-1)*int64(len(page)))
	return err == nil && crc32.Checksum(page, castagnoli) == h.crc
}
