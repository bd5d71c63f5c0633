package history

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
)

// untyped is the name of GPUs whose type a cluster does not tell.
const untyped = "gpu"

// readScontrolNodes reads what scontrol show node writes, with or without -o.
func (l *Log) readScontrolNodes(name string, in *bufio.Reader) error {
	t := &table{file: name, in: in}
	f := File{Name: name, Kind: "scontrol show node"}
	listed := map[string]bool{}
	var n *Node
	for {
		line, err := t.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for _, word := range strings.Fields(line) {
			key, value, ok := strings.Cut(word, "=")
			if !ok {
				continue
			}
			if key == "NodeName" {
				if listed[value] {
					return t.fault("node %.60q stands twice", value)
				}
				listed[value] = true
				if len(listed) > maxHosts {
					return t.fault("there are more than %d nodes", maxHosts)
				}
				n = l.node(value)
				f.Rows++
				continue
			}
			if n == nil {
				return t.fault("%.40q stands before the first NodeName: this is not what scontrol show node writes", word)
			}
			if err := n.set(key, value); err != nil {
				return t.fault("%s: %v", key, err)
			}
			if key == "State" && outOfService(value) {
				l.Report.assume("a node that was out of service when the nodes were listed counts as in service "+
					"before, but for what sacctmgr show event says", t.place())
			}
		}
	}
	if n == nil {
		return t.fault("there is no NodeName: this is not what scontrol show node writes")
	}
	l.Report.Files = append(l.Report.Files, f)
	return nil
}

// set takes one member of a node.
func (n *Node) set(key, value string) error {
	if value == "(null)" || value == "N/A" {
		return nil
	}
	switch key {
	case "Gres":
		gpus, byType, err := parseGres(value)
		if err != nil {
			return err
		}
		n.setGPUs(gpus, byType)
	case "CPUTot", "CPUEfctv": // the second stands first, and is without the CPUs of Slurm's own
		cpus, err := parseCount(value)
		if err != nil {
			return err
		}
		if n.CPUMilli == 0 || key == "CPUEfctv" {
			n.CPUMilli = cpus * 1000
		}
	case "RealMemory":
		mib, err := parseMiB(value)
		if err != nil {
			return err
		}
		n.MemoryMiB = mib
	case "MemSpecLimit": // is not for jobs, and stands behind RealMemory
		mib, err := parseMiB(value)
		if err != nil {
			return err
		}
		n.MemoryMiB = max(0, n.MemoryMiB-mib)
	case "AvailableFeatures", "ActiveFeatures":
		n.Features = sortedList(value)
	case "State":
		n.Out = startsNothing(strings.Split(value, "+"))
	case "Partitions":
		n.Partitions = sortedList(value)
	}
	return nil
}

// setGPUs sets the GPUs of a node; those of no type get the type untyped.
func (n *Node) setGPUs(gpus int64, byType []hare.TypeCount) {
	n.GPUs = nil
	for _, g := range byType {
		n.addGPUs(g.Type, g.Count)
		gpus -= int64(g.Count)
	}
	if gpus > 0 {
		n.addGPUs(untyped, int(gpus))
	}
}

func sortedList(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	slices.Sort(list)
	return slices.Compact(list)
}

// outOfService says whether nothing starts on a node in a state such as IDLE+DRAIN or
// DOWN*.
func outOfService(state string) bool {
	state = strings.ToUpper(state)
	return slices.ContainsFunc([]string{"DOWN", "DRAIN", "FAIL", "MAINT", "POWERED_DOWN", "POWER_DOWN", "UNK", "FUTURE"},
		func(word string) bool { return strings.Contains(state, word) })
}

// startsNothing says whether Slurm starts no job on a node in a state of these words, each in the form
// of scontrol (DOWN*, DRAIN) or of its JSON. Nodes that save power are started for jobs.
func startsNothing(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool {
		word = strings.ToUpper(word)
		switch strings.TrimRight(word, "*~#!%$@^-") {
		case "DOWN", "DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "UNKNOWN", "FUTURE", "ERROR",
			"NOT_RESPONDING", "NO_RESPOND", "INVALID_REG", "REBOOT_ISSUED":
			return true
		}
		return strings.HasSuffix(word, "*")
	})
}

// readEvents reads what sacctmgr -P show event writes: when nodes were out of service.
func (l *Log) readEvents(name string, in *bufio.Reader, loc *time.Location) error {
	t, err := newTable(name, in, "reason")
	if err != nil {
		return err
	}
	for _, needed := range []string{"nodename", "timestart", "timeend", "state"} {
		if !t.has(needed) && !t.has(strings.TrimPrefix(needed, "time")) {
			return t.fault("there is no column %s: write the file by sacctmgr -P show event", needed)
		}
	}
	t.valid = func() bool {
		_, err := parseTime(t.get("timestart", "start"), loc)
		return err == nil
	}
	for {
		more, err := t.next()
		if errors.Is(err, errFields) {
			l.Report.leaveOut("the row has another number of fields than the first row", t.place())
			continue
		}
		if err != nil {
			return err
		}
		if !more {
			break
		}
		node, state := t.get("nodename"), t.get("state")
		if node == "" {
			l.Report.leaveOut("events of the whole cluster", t.place())
			continue
		}
		from, err := parseTime(t.get("timestart", "start"), loc)
		if err != nil {
			return t.fault("timestart: %v", err)
		}
		until, err := parseTime(t.get("timeend", "end"), loc)
		if err != nil {
			return t.fault("timeend: %v", err)
		}
		if until == 0 {
			until = hare.Forever
		}
		if state != "" && !outOfService(state) {
			l.Report.leaveOut("events that leave a node in service", t.place())
			continue
		}
		names, err := expandHosts(node)
		if err != nil {
			return t.fault("nodename: %v", err)
		}
		for _, name := range names {
			l.node(name).addDown(from, until)
		}
	}
	l.Report.Files = append(l.Report.Files, t.report("sacctmgr -P show event"))
	return nil
}
