package history

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
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
	l := &Log{Source: source, Report: &Report{Source: source}}
	for _, text := range texts {
		limited := &io.LimitedReader{R: text.R, N: maxBytes + 1}
		in := bufio.NewReaderSize(limited, 1<<16)
		var err error
		if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
			unzipped, zipErr := gzip.NewReader(in)
			if zipErr != nil {
				return nil, &RowError{Place{File: text.Name, Line: 1}, zipErr.Error()}
			}
			in = bufio.NewReaderSize(io.LimitReader(unzipped, maxBytes+1), 1<<16)
		}
		switch source {
		case "slurm":
			err = l.readSlurm(text.Name, in, cfg)
		case "kube":
			err = l.readKube(text.Name, in, cfg)
		case "ray":
			err = l.readRay(text.Name, in)
		case "history":
			err = l.readCSV(text.Name, in, cfg.Zone)
		default:
			err = fmt.Errorf("history: %s is not read by this version", source)
		}
		if err != nil {
			return nil, err
		}
		if limited.N <= 0 {
			return nil, fmt.Errorf("%s: more than %d MiB", text.Name, maxBytes>>20)
		}
	}
	if l.kube != nil {
		if err := l.finishKube(); err != nil {
			return nil, err
		}
	}
	if l.ray != nil {
		if err := l.finishRay(); err != nil {
			return nil, err
		}
	}
	l.settle()
	return l, nil
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
	l.index = nil
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
