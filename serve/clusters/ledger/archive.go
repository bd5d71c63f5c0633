package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// chunkJobs is the greatest number of jobs of a chunk: what is decompressed to look at one of them.
const chunkJobs = 256

// archive has the jobs that have ended, as bytes. The zero value is empty.
//
// data is a list of chunks, and only grows. A chunk is the number of its jobs; of each its number, state, key and
// size; and the compressed JSON of all. Numbers are uvarints, texts have their length before them.
type archive struct {
	data   []byte
	chunks []chunk
	jobs   []pastJob // by number of the job, from 0

	open int // the chunk that was read last, and
	body []byte
}

// chunk is where the compressed jobs of a chunk stand in data.
type chunk struct{ from, to int }

// pastJob is where a job stands in a chunk. The zero value is a job that has not ended.
type pastJob struct {
	state      uint8 // place in finalStates, from 1
	chunk      int32
	start, end int32 // in the chunk, decompressed
}

var finalStates = []clusterdoc.JobState{clusterdoc.JobSucceeded, clusterdoc.JobFailed, clusterdoc.JobCancelled}

func number(id string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "j"))
	if err != nil || jobID(n) != id {
		return 0
	}
	return n
}

func jobID(n int) string { return "j" + strconv.Itoa(n) }

// has reports whether the job at a place has ended and is here.
func (a *archive) has(at int) bool { return at >= 0 && at < len(a.jobs) && a.jobs[at].state != 0 }

func (a *archive) state(at int) clusterdoc.JobState { return finalStates[a.jobs[at].state-1] }

// grow makes room for n jobs in all.
func (l *Ledger) grow(n int) {
	for len(l.byTime) < n {
		l.byTime = append(l.byTime, nil)
	}
}

// archive moves the jobs that have ended since it was last called to the archive. Nobody sees a difference.
func (l *Ledger) archive() error {
	final := func(j *job) bool { return j.state.Final() }
	l.touched, l.pins = slices.DeleteFunc(l.touched, final), slices.DeleteFunc(l.pins, final)
	for len(l.ended) > 0 {
		n := min(len(l.ended), chunkJobs)
		if err := l.past.add(l.ended[:n]); err != nil {
			return err
		}
		for _, j := range l.ended[:n] {
			delete(l.jobs, j.id)
			l.byTime[number(j.id)-1] = nil
		}
		l.ended = l.ended[n:]
	}
	l.ended = nil
	return nil
}

// add appends a chunk.
func (a *archive) add(jobs []*job) error {
	index := binary.AppendUvarint(nil, uint64(len(jobs)))
	var body bytes.Buffer
	w, err := flate.NewWriter(&body, flate.BestSpeed)
	if err != nil {
		return err
	}
	places := make([]pastJob, len(jobs))
	size := 0
	for i, j := range jobs {
		text, err := json.Marshal(j.encoded())
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return err
		}
		if size+len(text) > math.MaxInt32 {
			return fmt.Errorf("ledger: %d jobs have more than 2 GiB", len(jobs))
		}
		state := slices.Index(finalStates, j.state) + 1
		index = binary.AppendUvarint(index, uint64(number(j.id)))
		index = append(index, byte(state))
		index = append(binary.AppendUvarint(index, uint64(len(j.key))), j.key...)
		index = binary.AppendUvarint(index, uint64(len(text)))
		places[i] = pastJob{uint8(state), int32(len(a.chunks)), int32(size), int32(size + len(text))}
		size += len(text)
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.data = binary.AppendUvarint(append(a.data, index...), uint64(body.Len()))
	a.chunks = append(a.chunks, chunk{len(a.data), len(a.data) + body.Len()})
	a.data = append(a.data, body.Bytes()...)
	for i, j := range jobs {
		a.put(number(j.id)-1, places[i])
	}
	return nil
}

func (a *archive) put(at int, p pastJob) {
	for len(a.jobs) <= at {
		a.jobs = append(a.jobs, pastJob{})
	}
	a.jobs[at] = p
}

// openArchive reads the index of an archive.
func (l *Ledger) openArchive(data []byte) error {
	a := &l.past
	a.data = data
	r := bytes.NewReader(data)
	next := func() int {
		n, err := binary.ReadUvarint(r)
		if err != nil || n > math.MaxInt32 {
			return -1
		}
		return int(n)
	}
	bad := fmt.Errorf("the jobs that have ended are damaged")
	for r.Len() > 0 {
		count := next()
		if count < 1 || count > chunkJobs {
			return bad
		}
		size := 0
		for range count {
			n := next()
			state, err := r.ReadByte()
			length := next()
			if err != nil || n < 1 || state < 1 || int(state) > len(finalStates) || length < 0 || length > r.Len() ||
				a.has(n-1) {
				return bad
			}
			at := len(data) - r.Len()
			if length > 0 {
				l.keys[string(data[at:at+length])] = jobID(n)
				_, _ = r.Seek(int64(length), io.SeekCurrent)
			}
			bytes := next()
			if bytes < 0 || size+bytes > math.MaxInt32 {
				return bad
			}
			a.put(n-1, pastJob{state, int32(len(a.chunks)), int32(size), int32(size + bytes)})
			size += bytes
			l.counts[a.state(n-1)]++
		}
		length := next()
		if length < 0 || length > r.Len() {
			return bad
		}
		at := len(data) - r.Len()
		a.chunks = append(a.chunks, chunk{at, at + length})
		_, _ = r.Seek(int64(length), io.SeekCurrent)
	}
	l.grow(len(a.jobs))
	return nil
}

// text is the saved form of the job at a place.
func (a *archive) text(at int) ([]byte, error) {
	p := a.jobs[at]
	if a.body == nil || a.open != int(p.chunk) {
		c := a.chunks[p.chunk]
		body, err := io.ReadAll(flate.NewReader(bytes.NewReader(a.data[c.from:c.to])))
		if err != nil {
			return nil, err
		}
		a.open, a.body = int(p.chunk), body
	}
	if int(p.end) > len(a.body) {
		return nil, io.ErrUnexpectedEOF
	}
	return a.body[p.start:p.end], nil
}

// find is the job of an ID, also one that has ended; nil where there is none. What is done to a job of the archive
// is not kept.
func (l *Ledger) find(id string) *job {
	if j := l.jobs[id]; j != nil {
		return j
	}
	at := number(id) - 1
	if !l.past.has(at) {
		return nil
	}
	var s savedJob
	text, err := l.past.text(at)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	var j *job
	if err == nil {
		j, err = l.decoded(&s)
	}
	if err != nil {
		// The checksum of the snapshot was right, so that only a fault of this program can lead here.
		return &job{id: id, state: l.past.state(at), reason: "what is known of the job cannot be read: " + err.Error()}
	}
	return j
}
