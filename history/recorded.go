package history

import (
	"fmt"
	"io"

	"github.com/hare-sched/hare"
)

// recorded gathers what a log of Recorder tells.
type recorded struct {
	log      *Log
	name     string
	jobs     map[string]int // in log.Jobs, by key
	nodes    map[string]*Node
	outUs    map[string]int64 // from when on a node is out of service
	interval int64
}

// ReadRecorded reads a log that a Recorder has written. Log.BeganUs says from when on the cluster was
// looked at.
func ReadRecorded(name string, in io.Reader) (*Log, error) {
	r := &recorded{log: &Log{Report: &Report{}}, name: name, jobs: map[string]int{}, nodes: map[string]*Node{},
		outUs: map[string]int64{}}
	rows := 0
	if _, err := readRecords(name, in, func(number int, l *recordLine) error {
		rows++
		return r.take(number, l)
	}); err != nil {
		return nil, err
	}
	if rows == 0 {
		return nil, &RowError{Place{File: name, Line: 1}, "the log is empty"}
	}
	l := r.log
	l.Report.Source = l.Source
	l.Report.Files = []File{{Name: name, Kind: "log of hare shadow --live " + l.Source, Rows: rows}}
	for _, node := range sortedStrings(r.nodes) {
		n := r.nodes[node]
		if from, out := r.outUs[node]; out {
			n.addDown(from, hare.Forever)
			n.Out = true
		}
		l.Nodes = append(l.Nodes, *n)
	}
	l.settle()
	return l, nil
}

func (r *recorded) take(number int, l *recordLine) error {
	log, place := r.log, Place{File: r.name, Line: number}
	switch {
	case l.Begin != "":
		if log.Source != "" && log.Source != l.Begin {
			return fmt.Errorf("the log is of %s before and of %.20s here", log.Source, l.Begin)
		}
		if r.interval > 0 && l.AtUs-log.NowUs > max(2*lookUs, 3*r.interval) {
			log.Report.doubt(fmt.Sprintf("nobody looked for %s s: jobs that came and went then are missing, and ends are late",
				hare.FormatMicros(l.AtUs-log.NowUs)), place)
		}
		log.Source, r.interval = l.Begin, l.Interval
		if log.BeganUs == 0 {
			log.BeganUs = l.AtUs
		}
	case l.Job != nil:
		j := Job(*l.Job)
		j.Place = place
		at, known := r.jobs[l.Job.key()]
		if !known {
			at = len(log.Jobs)
			r.jobs[l.Job.key()] = at
			log.Jobs = append(log.Jobs, Job{})
		}
		log.Jobs[at] = j
	case l.JobGone != "":
		at, known := r.jobs[l.JobGone]
		if !known {
			return nil // the job ended before the log's beginning
		}
		j := &log.Jobs[at]
		switch {
		case j.State == Running && j.StartUs > 0:
			j.State, j.EndUs = Completed, max(l.AtUs, j.StartUs+1)
			log.Report.assume("was gone when somebody looked: counts as completed then", j.Place)
		case j.State == Pending:
			j.State, j.EndUs = Cancelled, l.AtUs
			log.Report.assume("waited and was gone when somebody looked: counts as cancelled then", j.Place)
		}
	case l.Node != nil:
		r.node(l)
	case l.NodeGone != "":
		if _, out := r.outUs[l.NodeGone]; !out {
			r.outUs[l.NodeGone] = l.AtUs
		}
	}
	log.NowUs = max(log.NowUs, l.AtUs)
	return nil
}

// node takes a node that is new or has changed.
func (r *recorded) node(l *recordLine) {
	n := Node(*l.Node)
	old := r.nodes[n.Name]
	switch {
	case old != nil:
		n.Down = old.Down
	case l.AtUs > r.log.BeganUs+2*r.interval:
		n.Down = []hare.Window{{StartUs: 1, EndUs: l.AtUs}}
	}
	if len(n.GPUs) == 0 && old != nil { // a node that lost its GPUs is out of service
		n.GPUs, n.Out = old.GPUs, true
	}
	from, out := r.outUs[n.Name]
	switch {
	case n.Out && !out:
		r.outUs[n.Name] = l.AtUs
	case !n.Out && out:
		n.addDown(from, l.AtUs)
		delete(r.outUs, n.Name)
	}
	n.Out = false
	r.nodes[n.Name] = &n
}
