package ledger

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// chunkJobs is the greatest number of jobs of a chunk: what is decompressed to look at one of them.
const chunkJobs = 256

// archive has the jobs that have ended, as bytes, by their number from 0. The zero value is empty.
//
// data is a list of chunks, and only grows. A chunk is the number of its jobs; of each its number, state, key and
// size; and the compressed JSON of all. Numbers are uvarints, texts have their length before them.
type archive struct {
	data   []byte
	chunks []chunk
	jobs   []pastJob // by number of the job, from 0

	last int // the chunk that was read last, and
	body []byte
}

// chunk is where the compressed jobs of a chunk are in data.
type chunk struct{ from, to int }

// pastJob is where a job is in a chunk. The zero value is a job that has not ended.
type pastJob struct {
	state      uint8 // place in finalStates, from 1
	chunk      int32
	start, end int32 // in the chunk, decompressed
}

var finalStates = []clusterdoc.JobState{clusterdoc.JobSucceeded, clusterdoc.JobFailed, clusterdoc.JobCancelled}

// has reports whether the job at a place has ended and is here.
func (a *archive) has(at int) bool { return at >= 0 && at < len(a.jobs) && a.jobs[at].state != 0 }

func (a *archive) state(at int) clusterdoc.JobState { return finalStates[a.jobs[at].state-1] }

// endedJob is a job as the archive takes it.
type endedJob struct {
	at    int // its number from 0
	state clusterdoc.JobState
	key   string
	text  []byte
}

// add appends a chunk.
func (a *archive) add(jobs []endedJob) error {
	index := binary.AppendUvarint(nil, uint64(len(jobs)))
	var body bytes.Buffer
	w, err := flate.NewWriter(&body, flate.BestSpeed)
	if err != nil {
		return err
	}
	places := make([]pastJob, len(jobs))
	size := 0
	for i, j := range jobs {
		if _, err := w.Write(j.text); err != nil {
			return err
		}
		if size+len(j.text) > math.MaxInt32 {
			return fmt.Errorf("ledger: %d jobs have more than 2 GiB", len(jobs))
		}
		state := slices.Index(finalStates, j.state) + 1
		index = binary.AppendUvarint(index, uint64(j.at+1))
		index = append(index, byte(state))
		index = append(binary.AppendUvarint(index, uint64(len(j.key))), j.key...)
		index = binary.AppendUvarint(index, uint64(len(j.text)))
		places[i] = pastJob{uint8(state), int32(len(a.chunks)), int32(size), int32(size + len(j.text))}
		size += len(j.text)
	}
	if err := w.Close(); err != nil {
		return err
	}
	a.data = binary.AppendUvarint(append(a.data, index...), uint64(body.Len()))
	a.chunks = append(a.chunks, chunk{len(a.data), len(a.data) + body.Len()})
	a.data = append(a.data, body.Bytes()...)
	for i, j := range jobs {
		a.put(j.at, places[i])
	}
	return nil
}

func (a *archive) put(at int, p pastJob) {
	for len(a.jobs) <= at {
		a.jobs = append(a.jobs, pastJob{})
	}
	a.jobs[at] = p
}

// open reads the index of an archive, and tells found of each job and its key.
func (a *archive) open(data []byte, found func(at int, key string)) error {
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
			key := data[len(data)-r.Len():][:length]
			_, _ = r.Seek(int64(length), io.SeekCurrent)
			bytes := next()
			if bytes < 0 || size+bytes > math.MaxInt32 {
				return bad
			}
			a.put(n-1, pastJob{state, int32(len(a.chunks)), int32(size), int32(size + bytes)})
			size += bytes
			found(n-1, string(key))
		}
		length := next()
		if length < 0 || length > r.Len() {
			return bad
		}
		at := len(data) - r.Len()
		a.chunks = append(a.chunks, chunk{at, at + length})
		_, _ = r.Seek(int64(length), io.SeekCurrent)
	}
	return nil
}

// text is the saved form of the job at a place.
func (a *archive) text(at int) ([]byte, error) {
	p := a.jobs[at]
	if a.body == nil || a.last != int(p.chunk) {
		c := a.chunks[p.chunk]
		body, err := io.ReadAll(flate.NewReader(bytes.NewReader(a.data[c.from:c.to])))
		if err != nil {
			return nil, err
		}
		a.last, a.body = int(p.chunk), body
	}
	if int(p.end) > len(a.body) {
		return nil, io.ErrUnexpectedEOF
	}
	return a.body[p.start:p.end], nil
}
