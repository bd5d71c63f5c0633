package history

import (
	"bufio"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// headerPool is the name of the node of which only a header tells; several nodes have a number behind this name.
const headerPool = "swf"

// The fields of a line of the Standard Workload Format 2.2, from 0; -1 stands for what is not known.
const (
	swfJob = iota
	swfSubmit
	swfWait
	swfRun
	swfProcessors
	swfUsedCPU // average seconds of CPU
	swfUsedMemory
	swfAskedProcessors
	swfAskedTime
	swfAskedMemory // kilobytes a processor
	swfStatus
	swfUser
	swfGroup
	swfProgram
	swfQueue
	swfPartition
	swfAfter
	swfThink
	swfFields
)

// swfNames name the fields in reports.
var swfNames = [swfFields]string{"job number", "submit time", "wait time", "run time", "allocated processors",
	"average CPU time", "used memory", "requested processors", "requested time", "requested memory", "status", "user",
	"group", "executable", "queue", "partition", "preceding job", "think time"}

// readSWF reads a text in the Standard Workload Format of the Parallel Workloads Archive: comments, which begin with ;
// and whose first ones are a header, and lines of 18 numbers. A processor counts as a GPU, or as many as
// cfg.ProcessorsPerGPU. The header tells when time 0 was (UnixStartTime) and the cluster (MaxProcs, MaxNodes).
func (l *tableReader) readSWF(name string, in *bufio.Reader, cfg ReadConfig) error {
	t := &table{file: name, in: in}
	f := File{Name: name, Kind: "Standard Workload Format"}
	perGPU := max(1, cfg.ProcessorsPerGPU)
	header := map[string]int64{}
	for {
		line, err := t.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLong) && f.Rows > 0 {
			l.Report.setAside("a line with another number of fields than 18: it is left out", t.place(), "(a long line)")
			continue
		}
		if errors.Is(err, errLong) {
			return t.fault("%v", err)
		}
		if err != nil {
			return err
		}
		line = strings.TrimSpace(line)
		if comment, ok := strings.CutPrefix(line, ";"); ok {
			if key, value, ok := strings.Cut(strings.TrimLeft(comment, "; \t"), ":"); ok && f.Rows == 0 {
				l.swfHeader(header, key, value, t.place())
			}
			continue
		}
		if line == "" {
			continue
		}
		words := strings.Fields(line)
		if len(words) < swfAskedProcessors || len(words) > swfFields {
			if f.Rows == 0 && len(l.Report.SetAside) == 0 {
				return t.fault("%.40q begins no job of the Standard Workload Format, which is 18 numbers", line)
			}
			l.Report.setAside("a line with another number of fields than 18: it is left out", t.place(), line)
			continue
		}
		f.Rows++
		if j, ok := l.swfLine(words, header["unixstarttime"], perGPU, t.place()); ok {
			if err := l.addJob(&j); err != nil {
				return t.fault("%v", err)
			}
			if j.StartUs > 0 && j.GPUs > 0 {
				l.unplaced = append(l.unplaced, unplacedJob{at: len(l.Jobs) - 1, nowhere: true})
			}
		}
	}
	if f.Rows == 0 {
		return t.fault("there is no job: this is no text in the Standard Workload Format")
	}
	l.Report.Files = append(l.Report.Files, f)
	if len(cfg.GPUs) == 0 {
		return l.swfNodes(header, perGPU, name)
	}
	return nil
}

// swfHeader keeps a number of the header.
func (l *tableReader) swfHeader(header map[string]int64, key, value string, place Place) {
	key = strings.ToLower(strings.TrimSpace(key))
	if !slices.Contains([]string{"maxprocs", "maxnodes", "unixstarttime"}, key) {
		return
	}
	digits := strings.TrimSpace(value)
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end] // a text may follow, such as (CPUs)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxTimeUs/1e6 {
		l.Report.setAside("header "+key+": counts as not told", place, strings.TrimSpace(value))
		return
	}
	header[key] = n
}

// swfNodes makes the cluster of the header: MaxNodes nodes with equal numbers of GPUs, or one with all of MaxProcs.
func (l *tableReader) swfNodes(header map[string]int64, perGPU int64, file string) error {
	gpus, nodes := header["maxprocs"]/perGPU, header["maxnodes"]
	if gpus == 0 {
		gpus = nodes
	}
	if gpus == 0 || slices.ContainsFunc(l.Nodes, func(n Node) bool { return len(n.GPUs) > 0 }) {
		return nil
	}
	if gpus > hare.MaxGPUs {
		return &RowError{Place{File: file, Line: 1}, "MaxProcs is " + itoa(gpus) + ", and a cluster has at most " +
			itoa(hare.MaxGPUs) + " GPUs: say how many processors are a GPU by --processors-per-gpu"}
	}
	what := "a cluster of so many nodes and GPUs as the header has processors (MaxNodes, MaxProcs)"
	if nodes < 2 || nodes >= gpus || gpus%nodes != 0 || nodes > maxHosts {
		l.node(headerPool).addGPUs(untyped, int(gpus))
		what = "one pool of as many GPUs as the header has processors (MaxProcs)"
	} else {
		digits := len(itoa(nodes - 1))
		for i := range nodes {
			number := itoa(i)
			l.node(headerPool+"-"+strings.Repeat("0", digits-len(number))+number).addGPUs(untyped, int(gpus/nodes))
		}
	}
	l.Report.assume(what, file)
	return nil
}

// swfLine makes a job of one line.
func (l *tableReader) swfLine(words []string, beginS, perGPU int64, place Place) (j Job, ok bool) {
	var v [swfFields]float64
	for i := range v {
		v[i] = -1
		if i >= len(words) {
			continue
		}
		x, err := strconv.ParseFloat(words[i], 64)
		if err != nil || math.IsNaN(x) || math.Abs(x) > 1e15 {
			cost := "counts as not known"
			if i == swfJob || i == swfSubmit {
				cost = "the job is left out"
			}
			l.Report.setAside(swfNames[i]+": "+cost, place, words[i])
			continue
		}
		v[i] = x
	}
	if v[swfJob] < 0 || v[swfSubmit] < 0 {
		return j, false
	}
	if v[swfStatus] >= 2 && v[swfStatus] <= 4 {
		l.Report.leaveOut("parts of jobs that were stopped and went on: the line of the whole job counts", place)
		return j, false
	}
	us := func(seconds float64) int64 {
		return min(maxTimeUs, beginS*1e6+1+int64(math.Round(seconds*1e6))) // second 0 is a time
	}
	named := func(prefix string, i int) string {
		if v[i] < 0 {
			return ""
		}
		return prefix + itoa(int64(v[i]))
	}
	j = Job{ID: itoa(int64(v[swfJob])), Place: place, User: named("user-", swfUser), Account: named("group-", swfGroup),
		Name: named("program-", swfProgram), Partition: named("partition-", swfPartition), QOS: named("queue-", swfQueue),
		SubmitUs: us(v[swfSubmit])}
	j.EligibleUs = j.SubmitUs
	if processors := int64(max(v[swfProcessors], 0)); processors > 0 {
		j.GPUs = (processors + perGPU - 1) / perGPU
	} else if processors := int64(max(v[swfAskedProcessors], 0)); processors > 0 {
		j.GPUs = (processors + perGPU - 1) / perGPU
		l.Report.assume("allocated processors are not known: the job had as many as it requested", place)
	}
	if j.GPUs > hare.MaxGPUs {
		l.Report.setAside("processors: more than a cluster may have GPUs: the job is left out", place, itoa(j.GPUs))
		return j, false
	}
	if v[swfAskedTime] > 0 {
		j.LimitUs = min(maxTimeUs, int64(v[swfAskedTime]*1e6))
	}
	if v[swfAskedMemory] > 0 {
		j.MemoryMiB = min(hare.MaxPerTask/1000, int64(v[swfAskedMemory]*max(1, v[swfProcessors]))>>10)
	}
	if v[swfAfter] > 0 {
		j.After = []string{itoa(int64(v[swfAfter]))}
	}
	j.State = Unknown
	switch v[swfStatus] {
	case 0:
		j.State = Failed
	case 1:
		j.State = Completed
	case 5:
		j.State = Cancelled
	}
	if v[swfRun] > 0 || v[swfRun] == 0 && j.State != Cancelled { // 0 is less than half a second
		j.StartUs = us(v[swfSubmit] + max(0, v[swfWait]))
		j.EndUs = us(v[swfSubmit] + max(0, v[swfWait]) + v[swfRun])
		if v[swfWait] < 0 {
			l.Report.assume("wait time is not known: the job started when it was submitted", place)
		}
	}
	return j, true
}
