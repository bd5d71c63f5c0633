package sqlite

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
)

// SQLite takes the first frame of a write-ahead log that does not fit its checksum for the
// end of the log, as if the machine had lost its power while the frame was written. A
// damaged frame would therefore drop every commit behind it without a word. This file reads
// the log as https://www.sqlite.org/walformat.html describes it, to tell the one case from
// the other.

const (
	walHeaderBytes   = 32
	frameHeaderBytes = 24
	walMagic         = 0x377f0682 // the lowest bit says in which order words are summed
)

// walSum is the checksum of a write-ahead log, which continues from frame to frame.
type walSum [2]uint32

// byteOrder is the part of binary.ByteOrder that the checksum needs.
type byteOrder interface{ Uint32([]byte) uint32 }

func (s walSum) add(order byteOrder, b []byte) walSum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

func storedSum(b []byte) walSum {
	return walSum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// frame is one page in a write-ahead log, with where the page belongs.
type frame struct {
	number uint32 // from 1
	page   uint32 // from 1
	pages  uint32 // of the database after the commit that this frame ends; 0 within a commit
	chain  bool   // all frames up to this one are as they were written
	intact bool   // this frame fits the checksum of the frame before it
	data   []byte // valid until the next frame is read
}

// wal is what a write-ahead log contains.
type wal struct {
	size     int64
	valid    bool // the header is as it was written
	salt     uint64
	pageSize int
	frames   uint32 // frames up to the last commit before any damage
	commits  uint64 // commits in these frames
	// behind is the number of frames of the same log that follow, from the first broken
	// frame on, and lost the number of commits in them.
	behind, lost uint64
	// torn reports whether the frames behind may be one commit that was being written when
	// the machine stopped. A commit is begun only when the commit before it is on disk, so
	// that frames of a second commit prove that the first one had been on disk.
	torn bool
	page uint32 // number of the page in the last frame
	crc  uint32 // of that page
	at   walSum // checksum of the frame that scan was asked for
	end  uint32 // the last frame that ends a commit, also behind damage
}

// scanWAL reads a whole write-ahead log, and notes the checksum of the frame of this number.
// Where there is no log, its size is 0.
func scanWAL(path string, number uint32) (wal, error) { return readWAL(path, number, 0, nil) }

// readWAL does what scanWAL does, and calls each, where it is not nil, with every frame that
// belongs to the log, broken or not. Where the header is damaged, it reads on if pageSize is
// not 0.
func readWAL(path string, number uint32, pageSize int, each func(frame) error) (w wal, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return w, err
	}
	w.size = info.Size()
	r := bufio.NewReaderSize(f, 1<<20)
	header := make([]byte, walHeaderBytes)
	if _, err := io.ReadFull(r, header); err != nil {
		return w, ignoreEnd(err)
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(header[i:]) }
	var order byteOrder = binary.LittleEndian
	if word(0)&1 == 1 {
		order = binary.BigEndian
	}
	last := walSum{}.add(order, header[:24])
	w.salt, w.pageSize = binary.BigEndian.Uint64(header[16:]), int(word(8))
	w.valid = word(0)&^1 == walMagic && last == storedSum(header[24:]) && w.pageSize >= 512 && w.pageSize <= 1<<16
	if !w.valid {
		first, err := r.Peek(16)
		if err != nil || pageSize == 0 {
			return w, ignoreEnd(err)
		}
		// SQLite sums in the order of the machine; the salt is in each frame, too.
		order, w.salt, w.pageSize = binary.NativeEndian, binary.BigEndian.Uint64(first[8:]), pageSize
		last = storedSum(header[24:])
	}
	chain, run := true, 0
	for buf := make([]byte, frameHeaderBytes+w.pageSize); ; {
		if _, err := io.ReadFull(r, buf); err != nil {
			return w, ignoreEnd(err)
		}
		run++
		head, data := buf[:frameHeaderBytes], buf[frameHeaderBytes:]
		fr := frame{number: uint32(run), page: binary.BigEndian.Uint32(head),
			pages: binary.BigEndian.Uint32(head[4:]), data: data}
		ours := binary.BigEndian.Uint64(head[8:]) == w.salt && fr.page != 0
		sum := last.add(order, head[:8]).add(order, data)
		fr.intact = ours && sum == storedSum(head[16:])
		chain = chain && fr.intact
		fr.chain, last = chain, storedSum(head[16:])
		if fr.number == number && chain {
			w.at = sum
		}
		if ours && fr.pages != 0 {
			w.end = fr.number
		}
		switch {
		case chain && fr.pages != 0:
			w.frames, w.page, w.crc, w.behind = fr.number, fr.page, crc32.Checksum(data, castagnoli), 0
			w.commits++
		case chain:
			w.behind++
		case ours:
			w.torn = w.lost == 0
			w.behind++
			if fr.pages != 0 {
				w.lost++
			}
		}
		if each != nil && (ours || fr.chain) {
			if err := each(fr); err != nil {
				return w, err
			}
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
