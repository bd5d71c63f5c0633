package history

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// ReadConfig says how texts are read.
type ReadConfig struct {
	// Zone is the time zone of times that name none; nil means UTC.
	Zone *time.Location
	// TypeLabel is the label of Kubernetes' nodes that names the GPU type; "" means TypeLabels.
	TypeLabel string
	// AnyType lets jobs of a table without the column requested_type use any type, not only the one on which they ran.
	AnyType bool
	// GPUs are the GPUs of a cluster of which no text tells the nodes, one node for each type; nil means none. They are
	// for tables that do not say where jobs ran.
	GPUs []hare.TypeCount
	// ProcessorsPerGPU is how many processors of a text in the Standard Workload Format are a GPU; 0 means 1.
	ProcessorsPerGPU int64
	// MaxJobs limits the jobs of all texts; 0 means 1,000,000. The nodes of all jobs may be four times as many.
	MaxJobs int
}

// reader is a log while texts are read into it, with what all readers keep meanwhile.
type reader struct {
	*Log
	index   map[string]int    // of nodes by name
	texts   map[string]string // that jobs share
	held    int               // nodes of all jobs
	maxJobs int
}

// has reports whether there is a node of a name.
func (l *reader) has(name string) bool {
	_, known := l.index[name]
	return known
}

// node returns the node of a name, and adds it where it is not there.
func (l *reader) node(name string) *Node {
	if l.index == nil {
		l.index = make(map[string]int)
	}
	i, known := l.index[name]
	if known {
		return &l.Nodes[i]
	}
	l.index[name] = len(l.Nodes)
	l.Nodes = append(l.Nodes, Node{Name: name})
	return &l.Nodes[len(l.Nodes)-1]
}

// addJob adds a job to the log. Jobs share texts such as names of users and nodes, and hold no line of
// the text that was read.
func (l *reader) addJob(j *Job) error {
	if len(l.Jobs) >= l.maxJobs {
		return fmt.Errorf("the texts have more than %d jobs: read a shorter time", l.maxJobs)
	}
	if l.held += len(j.On); l.held/4 > l.maxJobs {
		return fmt.Errorf("the jobs of the texts were on more than %d nodes together: read a shorter time", 4*l.maxJobs)
	}
	for _, text := range []*string{&j.Name, &j.User, &j.Account, &j.Partition, &j.QOS, &j.Reservation, &j.Type,
		&j.Features} {
		*text = l.keep(*text)
	}
	j.ID = strings.Clone(j.ID)
	for i := range j.On {
		j.On[i].Node, j.On[i].Type = l.keep(j.On[i].Node), l.keep(j.On[i].Type)
	}
	for i := range j.Seconds {
		j.Seconds[i].Type = l.keep(j.Seconds[i].Type)
	}
	for _, list := range [][]string{j.OnlyNodes, j.NotNodes, j.After} {
		for i := range list {
			list[i] = l.keep(list[i])
		}
	}
	if n := len(l.Jobs); n == cap(l.Jobs) && n > 1<<12 {
		l.Jobs = slices.Grow(l.Jobs, n) // append would copy long lists five times as often
	}
	l.Jobs = append(l.Jobs, *j)
	return nil
}

// keep returns a text that all jobs with it share.
func (l *reader) keep(text string) string {
	if text == "" {
		return ""
	}
	if l.texts == nil {
		l.texts = map[string]string{}
	}
	kept, known := l.texts[text]
	if !known {
		kept = strings.Clone(text)
		l.texts[kept] = kept
	}
	return kept
}

// capped reads a text of at most maxBytes and knows where its last lines end.
type capped struct {
	r       io.Reader
	n       int64   // bytes read
	ends    []int64 // the offsets of line ends that are kept
	dropped int     // line ends before these
}

// keptLines is how many line ends are kept at least.
const keptLines = 1 << 20

// errTooLong says that a text, unpacked, has more than maxBytes.
var errTooLong = fmt.Errorf("the text has more than %d MiB: read a shorter time, or fewer columns", maxBytes>>20)

func (c *capped) Read(p []byte) (int, error) {
	if c.n > maxBytes {
		return 0, errTooLong
	}
	n, err := c.r.Read(p)
	for at := 0; ; {
		i := bytes.IndexByte(p[at:n], '\n')
		if i < 0 {
			break
		}
		at += i + 1
		c.ends = append(c.ends, c.n+int64(at))
	}
	if extra := len(c.ends) - keptLines; extra >= keptLines {
		c.dropped += extra
		c.ends = append(c.ends[:0], c.ends[extra:]...)
	}
	c.n += int64(n)
	return n, err
}

// byteOrderMark begins texts that some programs write in UTF-8.
const byteOrderMark = "\ufeff"

// skipMark passes over the byte order mark of a text. Offsets count from behind the mark.
func (c *capped) skipMark(in *bufio.Reader) {
	if head, _ := in.Peek(len(byteOrderMark)); string(head) != byteOrderMark {
		return
	}
	n, _ := in.Discard(len(byteOrderMark))
	c.n -= int64(n)
	for i := range c.ends {
		c.ends[i] -= int64(n)
	}
}

// line returns the line, from 1, of the byte at an offset; 0 if the ends of the lines there are not kept.
func (c *capped) line(offset int64) int {
	i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > offset })
	if i == 0 && c.dropped > 0 {
		return 0
	}
	return c.dropped + i + 1
}
