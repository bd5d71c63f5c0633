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

// readScontrolNodes reads what scontrol show node writes, with or without -o.
func (l *slurmReader) readScontrolNodes(name string, in *bufio.Reader) error {
	t := &table{file: name, in: in, line: l.skipped}
	f := File{Name: name, Kind: "scontrol show node"}
	listed := map[string]bool{}
	var n *Node
	for {
		line, err := t.readLine()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, errLong) {
			l.Report.setAside("a line is too long: it is left out", t.place(), "")
			continue
		}
		if err != nil {
			return err
		}
		for i, word := range strings.Fields(line) {
			key, value, ok := strings.Cut(word, "=")
			if !ok {
				continue
			}
			if key == "NodeName" && i == 0 {
				if listed[value] {
					l.Report.setAside("a node stands twice in one text: what the later lines say counts", t.place(), value)
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
			if key == "Comment" || key == "Extra" || key == "Reason" {
				break // what people write, to the end of the line
			}
			l.setNode(n, key, value, t.place())
			if key == "State" && n.Out {
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

// setNode takes one member of a node. What cannot be read is set aside.
func (l *slurmReader) setNode(n *Node, key, value string, place Place) {
	if value == "(null)" || value == "N/A" {
		return
	}
	var err error
	switch key {
	case "Gres":
		g := parseGres(value)
		n.setGPUs(g.gpus, g.byType)
		for _, a := range g.accelerators {
			l.Report.assume("GRES of the node names accelerators "+a.name+": they count as GPUs of a type of their own", place)
			if l.accelerators == nil {
				l.accelerators = map[string][]string{}
			}
			if types := l.accelerators[a.name]; !slices.Contains(types, a.byType) {
				l.accelerators[a.name] = append(types, a.byType)
			}
		}
		if n.parts = g.parts; g.bad != "" {
			l.Report.setAside("Gres of a node cannot be read: what stands there counts as not told", place, g.bad)
		}
	case "CPUTot", "CPUEfctv": // the second stands first, and is without the CPUs of Slurm's own
		var cpus int64
		if cpus, err = parseCount(value); err == nil && (n.CPUMilli == 0 || key == "CPUEfctv") {
			n.CPUMilli = cpus * 1000
		}
	case "RealMemory":
		n.MemoryMiB, err = parseMiB(value)
	case "MemSpecLimit": // is not for jobs, and stands behind RealMemory
		var mib int64
		mib, err = parseMiB(value)
		n.MemoryMiB = max(0, n.MemoryMiB-mib)
	case "AvailableFeatures", "ActiveFeatures":
		n.Features = sortedList(value)
	case "State":
		n.setState(l, strings.Split(value, "+"), place)
	case "Partitions":
		n.Partitions = sortedList(value)
	}
	if err != nil {
		l.Report.setAside(key+" of a node cannot be read: counts as not told", place, value)
	}
}

// setState takes the words of the state of a node.
func (n *Node) setState(l *slurmReader, words []string, place Place) {
	n.Out, n.future = l.startsNothing(words, place), slices.Contains(words, "FUTURE")
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

// typeAccelerators gives jobs that name accelerators without their type, such as hpu:4, the types that nodes have
// under this name.
func (l *slurmReader) typeAccelerators() {
	for name, types := range l.accelerators {
		if slices.Contains(types, name) {
			continue
		}
		slices.Sort(types)
		for i := range l.Jobs {
			j := &l.Jobs[i]
			switch {
			case j.Type == name && len(types) == 1:
				j.Type = types[0]
			case j.Type == name:
				j.Type, j.Types = "", slices.Clone(types)
			case slices.Contains(j.Types, name):
				j.Types = slices.DeleteFunc(slices.Concat(j.Types, types), func(t string) bool { return t == name })
				slices.Sort(j.Types)
				j.Types = slices.Compact(j.Types)
			}
			for k := range j.On {
				if h := &j.On[k]; h.Type == name {
					h.Type = ""
					if len(types) == 1 {
						h.Type = types[0]
					}
				}
			}
		}
	}
}

// stateWords are the words of the states of nodes, and whether Slurm starts no job on nodes with it.
var stateWords = map[string]bool{"DOWN": true, "DRAIN": true, "DRAINED": true, "DRAINING": true, "FAIL": true,
	"FAILING": true, "MAINT": true, "MAINTENANCE": true, "UNKNOWN": true, "FUTURE": true, "ERROR": true,
	"NOT_RESPONDING": true, "NO_RESPOND": true, "INVALID_REG": true, "INVALID": true, "REBOOT_ISSUED": true,
	"POWER_DRAIN": true, "INVAL": true, "DRNG": true, "FAILG": true, "FUTR": true, "POW_DN": false, "POW_UP": false,
	"BOOT": false, "UNDRAIN": false, "IDLE": false, "ALLOCATED": false, "ALLOC": false, "MIXED": false,
	"MIX":        false,
	"COMPLETING": false, "COMP": false, "CLOUD": false, "DYNAMIC": false, "DYNAMIC_NORM": false, "DYNAMIC_FUTURE": false,
	"PERFCTRS": false, "NPC": false, "PLANNED": false, "PLND": false, "POWER_DOWN": false, "POWERED_DOWN": false,
	"POWERING_DOWN": false, "POWERING_UP": false, "POWER_UP": false, "REBOOT": false, "REBOOT_REQUESTED": false,
	"REBOOT_CANCEL": false, "RESERVED": false, "RESV": false, "RESUME": false, "BLOCKED": false, "EXTERNAL": false,
	"UNK": true, "LAUNCH_FAILED": false, "NET": false, "RES": false, "REBOOT^": false}

// startsNothing reports whether Slurm starts no job on a node in a state of these words, each in the form
// of scontrol (DOWN*, DRAIN) or of its JSON. Nodes that save power are started for jobs.
func (l *slurmReader) startsNothing(words []string, place Place) (out bool) {
	for _, word := range words {
		plain := strings.TrimRight(strings.ToUpper(word), "*~#!%$@^-")
		stops, known := stateWords[plain]
		if !known && plain != "" {
			l.Report.setAside("state of a node is no word that Hare knows: by this word the node is in service", place, word)
		}
		out = out || stops || strings.HasSuffix(word, "*")
	}
	return out
}

// readEvents reads what sacctmgr -P show event writes: when nodes were out of service.
func (l *slurmReader) readEvents(name string, in *bufio.Reader, loc *time.Location) error {
	t, err := newTable(name, l.skipped, in, "reason")
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
		const lost = " of an event cannot be read: the event is left out"
		from, err := parseTime(t.get("timestart", "start"), loc)
		if err != nil {
			l.Report.setAside("start"+lost, t.place(), t.get("timestart", "start"))
			continue
		}
		until, err := parseTime(t.get("timeend", "end"), loc)
		if err != nil {
			l.Report.setAside("end"+lost, t.place(), t.get("timeend", "end"))
			continue
		}
		if until == 0 {
			until = hare.Forever
		}
		if state != "" && !l.startsNothing(strings.Split(state, "+"), t.place()) {
			l.Report.leaveOut("events that leave a node in service", t.place())
			continue
		}
		names, err := expandHosts(node)
		if err != nil {
			l.Report.setAside("nodes"+lost, t.place(), node)
			continue
		}
		for _, name := range names {
			l.node(name).addDown(from, until)
		}
	}
	l.Report.Files = append(l.Report.Files, t.report("sacctmgr -P show event"))
	return nil
}
