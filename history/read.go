package history

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/hare-sched/hare/trace"
)

// Sources are the names of what Read reads.
var Sources = []string{"slurm", "kube", "ray", "history"}

// ReadConfig says how texts are read.
type ReadConfig struct {
	// Zone is the time zone of times that name none; nil means UTC.
	Zone *time.Location
	// TypeLabel is the label of Kubernetes' nodes that names the GPU type; "" means TypeLabels.
	TypeLabel string
	// MaxJobs limits the jobs of all texts; 0 means 1,000,000. The nodes of all jobs may be four times as many.
	MaxJobs int
}

// Read reads the texts of one cluster and knows each by what it holds, in any order: for slurm those of
// sacct -P, scontrol show node and reservation, sacctmgr -P show event, and the JSON of sacct, squeue,
// sinfo and scontrol; for kube objects as kubectl get -o json writes them; for ray answers of the
// dashboard. Errors about a text are *RowError. Read takes time in proportion to the texts.
func Read(source string, texts []trace.Source, cfg ReadConfig) (*Log, error) {
	if !slices.Contains(Sources, source) {
		return nil, fmt.Errorf("history: unknown source %.60q: it must be one of %s", source, strings.Join(Sources, ", "))
	}
	if cfg.Zone == nil {
		cfg.Zone = time.UTC
	}
	l := &Log{Source: source, Report: &Report{Source: source}, maxJobs: cmp.Or(cfg.MaxJobs, maxJobs)}
	for _, text := range texts {
		lines := &capped{r: text.R}
		in := bufio.NewReaderSize(lines, 1<<16)
		var err error
		if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			unzipped, zipErr := gzip.NewReader(in)
			if zipErr != nil {
				return nil, &RowError{Place{File: text.Name, Line: 1}, zipErr.Error()}
			}
			lines = &capped{r: unzipped}
			in = bufio.NewReaderSize(lines, 1<<16)
		}
		switch source {
		case "slurm":
			err = l.readSlurm(text.Name, in, cfg)
		case "kube":
			err = l.readKube(text.Name, in, cfg)
		case "ray":
			err = l.readRay(text.Name, in, cfg.Zone)
		case "history":
			err = l.readCSV(text.Name, in, cfg.Zone)
		default:
			err = fmt.Errorf("history: %s is not read by this version", source)
		}
		if at := (*jsonError)(nil); errors.As(err, &at) {
			if line := lines.line(at.offset); line > 0 {
				at.Reason += fmt.Sprintf(" (line %d)", line)
			}
			return nil, at.RowError
		}
		if err != nil {
			return nil, err
		}
	}
	if l.kube != nil {
		l.finishKube()
	}
	if l.ray != nil {
		if err := l.finishRay(); err != nil {
			return nil, err
		}
	}
	l.joinPools()
	l.settle()
	return l, nil
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

// line returns the line, from 1, of the byte at an offset; 0 if the ends of the lines there are not kept.
func (c *capped) line(offset int64) int {
	i := sort.Search(len(c.ends), func(i int) bool { return c.ends[i] > offset })
	if i == 0 && c.dropped > 0 {
		return 0
	}
	return c.dropped + i + 1
}

// addJob adds a job to the log. Jobs share texts such as names of users and nodes, and hold no line of
// the text that was read.
func (l *Log) addJob(j *Job) error {
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
	l.Jobs = append(l.Jobs, *j)
	return nil
}

// keep returns a text that all jobs with it share.
func (l *Log) keep(text string) string {
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

// readSlurm tells the kinds of texts apart by their first bytes.
func (l *Log) readSlurm(name string, in *bufio.Reader, cfg ReadConfig) error {
	head, err := in.Peek(4096)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return fmt.Errorf("%s: %w", name, err)
	}
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	line, _, _ := bytes.Cut(head, []byte("\n"))
	first := strings.ToLower(string(line))
	switch {
	case len(head) == 0:
		return &RowError{Place{File: name, Line: 1}, "the text is empty"}
	case head[0] == '{':
		return l.readSlurmJSON(name, in)
	case strings.HasPrefix(first, "nodename="):
		return l.readScontrolNodes(name, in)
	case strings.HasPrefix(first, "reservationname="):
		return l.readScontrolReservations(name, in, cfg.Zone)
	case strings.Contains(first, "nodename"):
		return l.readEvents(name, in, cfg.Zone)
	case strings.Contains(first, "jobid"):
		return l.readSacct(name, in, cfg.Zone)
	}
	return &RowError{Place{File: name, Line: 1}, fmt.Sprintf("%.40q begins none of the texts that Hare reads: sacct -P, "+
		"scontrol show node or reservation, sacctmgr -P show event, or the JSON of sacct, squeue, sinfo, scontrol",
		string(line))}
}

// merge keeps one of the jobs of the same ID that were submitted at the same time, which several
// texts tell: the one that has ended, else the one that has started.
func (l *Log) merge() {
	type attempt struct {
		id       string
		submitUs int64
	}
	at := make(map[attempt]int, len(l.Jobs))
	kept := l.Jobs[:0]
	for _, j := range l.Jobs {
		key := attempt{j.ID, j.SubmitUs}
		i, twice := at[key]
		if !twice {
			at[key] = len(kept)
			kept = append(kept, j)
			continue
		}
		l.Report.leaveOut("is told twice: the later state counts", j.Place)
		if k := &kept[i]; k.EndUs == 0 && j.EndUs > 0 || k.StartUs == 0 && j.StartUs > 0 {
			*k = j
		}
	}
	l.Jobs = kept
}

// settle gives attempts of a job names of their own, orders nodes and jobs, and finds the end of
// the log.
func (l *Log) settle() {
	l.index, l.texts, l.held = nil, nil, 0
	slices.SortFunc(l.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(l.Jobs, func(a, b Job) int {
		if a.SubmitUs != b.SubmitUs {
			if a.SubmitUs < b.SubmitUs {
				return -1
			}
			return 1
		}
		return strings.Compare(a.ID, b.ID)
	})
	l.merge()
	attempts := make(map[string]int, len(l.Jobs))
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if attempts[j.ID]++; attempts[j.ID] > 1 {
			j.ID += "#" + itoa(int64(attempts[j.ID]))
			l.Report.assume("each attempt of a job that began again is a job of its own", j.Place)
		}
		if l.NowUs < max(j.EndUs, j.StartUs, j.SubmitUs) {
			l.NowUs = max(j.EndUs, j.StartUs, j.SubmitUs)
		}
	}
}
