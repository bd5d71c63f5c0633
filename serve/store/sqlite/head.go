package sqlite

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// headFile says how far the write-ahead log went when the last commit was acknowledged. A
// log that was cut, removed, or damaged in its last commit looks like a log that was never
// longer; only this file tells them apart. It is written after each commit and before the
// commit is acknowledged, without an fsync of its own: after a kill it is exact, since the
// page cache outlives the process, and after a loss of power it may be behind the log, but
// never ahead of it, so that it never accuses a log that is whole.
const headFile = "head"

const (
	headMagic = "hare/h1\n"
	headBytes = 64
)

// head is the content of headFile.
type head struct {
	emptied bool   // the log was about to be copied into the database and emptied
	salt    uint64 // of the log
	commits uint64 // commits in the log
	frames  uint32 // frames in the log up to the last commit; 0 means that nothing is known
	sum     walSum // checksum of the last frame
	page    uint32 // number of the page in the last frame
	crc     uint32 // of that page
}

func (h *head) encode() []byte {
	b := make([]byte, 0, headBytes)
	b = append(b, headMagic...)
	b = binary.BigEndian.AppendUint64(b, h.salt)
	b = binary.BigEndian.AppendUint64(b, h.commits)
	for _, n := range []uint32{h.frames, h.sum[0], h.sum[1], h.page, h.crc} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	b = append(b, 0)
	if h.emptied {
		b[len(b)-1] = 1
	}
	b = b[:headBytes-4]
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// readHead reads the head of a data directory. Where it is missing or damaged nothing is
// known, which is no loss as long as the log is whole.
func readHead(dir string) (h head) {
	b, err := os.ReadFile(filepath.Join(dir, headFile))
	if err != nil || len(b) != headBytes || string(b[:8]) != headMagic ||
		binary.BigEndian.Uint32(b[headBytes-4:]) != crc32.Checksum(b[:headBytes-4], castagnoli) {
		return head{}
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[i:]) }
	return head{salt: binary.BigEndian.Uint64(b[8:]), commits: binary.BigEndian.Uint64(b[16:]), frames: word(24),
		sum: walSum{word(28), word(32)}, page: word(36), crc: word(40), emptied: b[44] != 0}
}

// headKeeper writes the head of a directory.
type headKeeper struct {
	dir            string
	file, wal, shm *os.File
	now            head
	buf            []byte
}

// keepHead opens the head of a directory, which it makes where there is none.
func keepHead(dir string) (*headKeeper, error) {
	k := &headKeeper{dir: dir, now: readHead(dir)}
	var err error
	k.file, err = os.OpenFile(filepath.Join(dir, headFile), os.O_RDWR|os.O_CREATE, 0o600)
	return k, err
}

// beforeEmptying notes, durably, that the log may be found empty from now on.
func (k *headKeeper) beforeEmptying() error {
	k.now.emptied = true
	return errors.Join(k.write(), k.file.Sync())
}

// afterEmptying takes that note back where the log is as it was.
func (k *headKeeper) afterEmptying() error {
	header := make([]byte, walHeaderBytes)
	f, err := os.Open(filepath.Join(k.dir, databaseFile+"-wal"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.ReadFull(f, header); err != nil {
		return ignoreEnd(err)
	}
	if binary.BigEndian.Uint64(header[16:]) != k.now.salt || k.now.frames == 0 {
		return nil
	}
	k.now.emptied = false
	return k.write()
}

func (k *headKeeper) write() error {
	_, err := k.file.WriteAt(k.now.encode(), 0)
	return err
}

// advance notes the last commit, which SQLite describes at the beginning of the index of
// the log. An error leaves the head behind the log, where it proves less and is still true.
func (k *headKeeper) advance() error {
	path := filepath.Join(k.dir, databaseFile)
	for _, f := range []struct {
		file   **os.File
		suffix string
	}{{&k.wal, "-wal"}, {&k.shm, "-shm"}} {
		if *f.file == nil {
			var err error
			if *f.file, err = os.Open(path + f.suffix); err != nil {
				*f.file = nil
				return err
			}
		}
	}
	// https://www.sqlite.org/walformat.html, section 2.1.
	var index [48]byte
	if _, err := k.shm.ReadAt(index[:], 0); err != nil {
		return err
	}
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(index[i:]) }
	next := head{salt: binary.BigEndian.Uint64(index[32:]), commits: 1, frames: word(16),
		sum: walSum{word(24), word(28)}}
	if next.salt == k.now.salt {
		if next.frames == k.now.frames && !k.now.emptied {
			return nil // nothing was changed
		}
		next.commits = k.now.commits + 1
	}
	size := int64(binary.NativeEndian.Uint16(index[14:]))
	if size == 1 {
		size = 1 << 16
	}
	if next.frames == 0 || size < 512 {
		return nil
	}
	if int64(len(k.buf)) != frameHeaderBytes+size {
		k.buf = make([]byte, frameHeaderBytes+size)
	}
	if _, err := k.wal.ReadAt(k.buf, walHeaderBytes+int64(next.frames-1)*int64(len(k.buf))); err != nil {
		return err
	}
	next.page = binary.BigEndian.Uint32(k.buf)
	next.crc = crc32.Checksum(k.buf[frameHeaderBytes:], castagnoli)
	k.now = next
	return k.write()
}

func (k *headKeeper) close() {
	for _, f := range []*os.File{k.file, k.wal, k.shm} {
		if f != nil {
			_ = f.Close()
		}
	}
}
