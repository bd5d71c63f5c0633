package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hare-sched/hare/sim/capacity"
	capacitydoc "github.com/hare-sched/hare/wire/capacity"
)

// capacityJournal keeps what a plan of capacity has computed in a file of its folder, so that a plan that was killed
// goes on from there. The file is a sequence of gzip members, each a journalRecord; a member that a kill has cut off
// is dropped, and so are records of another plan or of another build of Hare.
type capacityJournal struct {
	plan string // the hash of the request and of the build
	file *os.File

	mu   sync.Mutex
	size int64
	at   map[string][2]int64 // offset and length of the member of a key
}

var _ capacity.Journal = (*capacityJournal)(nil)

type journalRecord struct {
	Plan  string          `json:"plan"`
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
}

// journalName is the name of the file, which is there until the plan has been written.
const journalName = "unfinished"

// openCapacityJournal opens the journal of a request in a folder, or begins it.
func openCapacityJournal(dir string, req *capacitydoc.Request) (*capacityJournal, error) {
	sum := sha256.Sum256(capacitydoc.Form.Append([]byte(longVersion()+"\x00"+req.Source+"\x00"), req))
	name := filepath.Join(dir, journalName)
	_, missing := os.Stat(name)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &capacityJournal{plan: hex.EncodeToString(sum[:]), file: file, at: map[string][2]int64{}}
	in := &countedReader{r: bufio.NewReader(file)}
	for {
		rec, err := readMember(in)
		if err != nil || rec.Plan != j.plan {
			break // the end, a member that was cut off, or another plan
		}
		j.at[rec.Key], j.size = [2]int64{j.size, in.n - j.size}, in.n
	}
	if err := file.Truncate(j.size); err != nil {
		_ = file.Close()
		return nil, err
	}
	if missing == nil { // the killed process has left its unfinished tables
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".jobs.") {
				_ = os.Remove(filepath.Join(dir, e.Name()))
			}
		}
	}
	return j, nil
}

// Get implements capacity.Journal.
func (j *capacityJournal) Get(key string) []byte {
	j.mu.Lock()
	at, ok := j.at[key]
	j.mu.Unlock()
	if !ok {
		return nil
	}
	rec, err := readMember(bufio.NewReader(io.NewSectionReader(j.file, at[0], at[1])))
	if err != nil || rec.Plan != j.plan || rec.Key != key {
		return nil // another process writes to the same file
	}
	return rec.Value
}

// Put implements capacity.Journal.
func (j *capacityJournal) Put(key string, value []byte) error {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(z).Encode(journalRecord{j.plan, key, value}); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.file.WriteAt(b.Bytes(), j.size); err != nil {
		return err
	}
	j.at[key], j.size = [2]int64{j.size, int64(b.Len())}, j.size+int64(b.Len())
	return nil
}

// end closes the journal, and removes it once the plan has been written.
func (j *capacityJournal) end(written bool) error {
	name := j.file.Name()
	err := j.file.Close()
	if written {
		err = os.Remove(name)
	}
	return err
}

// readMember reads one gzip member, and not a byte more.
func readMember(in interface {
	io.Reader
	io.ByteReader
}) (rec journalRecord, err error) {
	z, err := gzip.NewReader(in)
	if err != nil {
		return rec, err
	}
	z.Multistream(false)
	text, err := io.ReadAll(z)
	if err != nil {
		return rec, err
	}
	err = json.Unmarshal(text, &rec)
	return rec, err
}

// countedReader counts the bytes that were read.
type countedReader struct {
	r *bufio.Reader
	n int64
}

func (c *countedReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *countedReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
