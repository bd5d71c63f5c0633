package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/sim"
)

// AsItIs names the option that changes nothing.
const AsItIs = "as it is"

// option is one cluster that could be had.
type option struct {
	text     string
	add      []hare.TypeCount // GPUs in service all the time, by type
	drops    []drop
	unusable []string // why parts of it cannot help, for people
}

// drop is an outage of nodes, in microseconds of a drawn week.
type drop struct {
	name            string // as the option has it
	nodes           []int  // indices of nodes of the cluster, ascending
	fromUs, untilUs int64
}

// bought are GPUs of a type of which a mix may have any number up to most, in steps.
type bought struct {
	gpuType    string
	most, step int
}

var (
	addText  = regexp.MustCompile(`^(\S+?) *= *\+?(-?\d+)$`)
	dropText = regexp.MustCompile(`^drop +(\S+)(?: +from +(.+?))?(?: +(?:to|until) +(.+))?$`)
)

// maxText is how many bytes an option or a goal has at most.
const maxText = 1000

// readOption reads an option such as H100=8,T4=32 or drop rack-2 from fri to sat, or several joined by commas. at is
// its pointer.
func readOption(at, text string, types *typeNames, s *sampler) (option, error) {
	bad := func(code, format string, args ...any) error { return fault(at, code, format, args...) }
	if len(text) > maxText {
		return option{}, bad("too_large", "an option has at most %d bytes", maxText)
	}
	o := option{text: strings.Join(strings.Fields(text), " ")}
	if o.text == "" {
		return o, bad("bad_option", "it is empty: give GPUs to add, such as H100=8, or an outage, such as "+
			"'drop rack-2 from fri to sat'")
	}
	total := int64(0)
	for part := range strings.SplitSeq(o.text, ",") {
		part = strings.TrimSpace(part)
		if m := dropText.FindStringSubmatch(part); m != nil {
			d, err := readDrop(m, &s.cluster, s)
			if err != nil {
				return o, bad("bad_option", "%q%v", o.text, err)
			}
			if i := slices.IndexFunc(o.drops, d.meets); i >= 0 {
				return o, bad("bad_option", "%q: %s and %s drop a node twice at one time", o.text, o.drops[i].name, d.name)
			}
			o.drops = append(o.drops, d)
			continue
		}
		m := addText.FindStringSubmatch(part)
		if m == nil {
			return o, bad("bad_option", "%q: %q is neither GPUs to add, such as H100=8, nor an outage, such as "+
				"'drop rack-2 from fri to sat'", o.text, part)
		}
		count, err := strconv.ParseInt(m[2], 10, 64)
		if count = min(count, maxAdded+1); count > 0 {
			total += count
		}
		switch {
		case err != nil || total > maxAdded:
			return o, bad("too_large", "%q: at most %d GPUs can be added", o.text, maxAdded)
		case count <= 0:
			return o, bad("out_of_range", "%q adds %d GPUs: give a number above 0; 'drop NODE' takes a node away", o.text,
				count)
		case slices.ContainsFunc(o.add, func(x hare.TypeCount) bool { return x.Type == m[1] }):
			return o, bad("duplicate", "%q adds %s twice: give one number", o.text, m[1])
		}
		if other := types.other(m[1]); other != "" {
			return o, bad("unknown_type", "%q: there is no %s: write %s=%d", o.text, m[1], other, count)
		}
		o.add = append(o.add, hare.TypeCount{Type: m[1], Count: int(count)})
	}
	slices.SortFunc(o.add, func(a, b hare.TypeCount) int { return cmp.Compare(a.Type, b.Type) })
	o.unusable = types.unusable(o.add)
	return o, nil
}

// typeNames are the GPU types of a history.
type typeNames struct {
	used    map[string]bool   // by a job
	known   map[string]bool   // by a job or in the cluster
	spelled map[string]string // by lower case
}

func typesOf(inst *hare.Instance) *typeNames {
	t := &typeNames{used: map[string]bool{}, known: map[string]bool{}, spelled: map[string]string{}}
	for i := range inst.Jobs {
		for x := range inst.Jobs[i].ShapeCount() {
			for _, p := range inst.Jobs[i].Shape(x).On {
				t.used[p.Type], t.known[p.Type] = true, true
			}
		}
	}
	for i := range inst.Cluster.Nodes {
		for _, g := range inst.Cluster.Nodes[i].GPUs {
			t.known[g.Type] = true
		}
	}
	for _, name := range sortedKeys(t.known) {
		t.spelled[strings.ToLower(name)] = name
	}
	return t
}

// other is the GPU type that differs from a name in upper and lower case alone, if any.
func (t *typeNames) other(name string) string {
	if t.known[name] {
		return ""
	}
	return t.spelled[strings.ToLower(name)]
}

// maxAdded limits the GPUs that an option adds.
const maxAdded = 100_000

// meets reports whether two outages have a node and a time in common.
func (d drop) meets(x drop) bool {
	return d.fromUs < x.untilUs && x.fromUs < d.untilUs &&
		common(d.nodes, x.nodes) > 0
}

// readDrop reads an outage from the parts of its text. Its errors continue what is said of the text.
func readDrop(m []string, c *hare.Cluster, s *sampler) (drop, error) {
	d := drop{name: m[1], untilUs: hare.Forever}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Name == m[1] || slices.ContainsFunc(n.Labels, func(l hare.Label) bool {
			return l.Value == m[1] || l.Name+"="+l.Value == m[1]
		}) {
			d.nodes = append(d.nodes, i)
		}
	}
	if len(d.nodes) == 0 {
		return d, fmt.Errorf(": there is no node %s, and no node has such a label", m[1])
	}
	var err error
	if m[2] != "" {
		if d.fromUs, err = s.at(m[2]); err != nil {
			return d, fmt.Errorf(": %w", err)
		}
	}
	if m[3] != "" {
		if d.untilUs, err = s.at(m[3]); err != nil {
			return d, fmt.Errorf(": %w", err)
		}
		if d.untilUs <= d.fromUs {
			return d, fmt.Errorf(" ends before it begins: drawn weeks begin on %s", s.begins())
		}
	}
	if d.fromUs >= int64(s.days)*dayUs {
		return d, fmt.Errorf(" begins after the %d days that are drawn", s.days)
	}
	return d, nil
}

var weekdays = map[string]time.Weekday{"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}

// at reads a time of a drawn week: fri, fri 18:00, 96h, or a date in the week after the history.
func (s *sampler) at(text string) (int64, error) {
	words := strings.Fields(strings.ToLower(text))
	if day, ok := weekdays[words[0][:min(3, len(words[0]))]]; ok && len(words) <= 2 {
		if s.origin.IsZero() {
			return 0, fmt.Errorf("the history has no dates, so that it is not known which day %s is: give hours from the "+
				"beginning of the week, such as 96h, or say when the history begins (--begins, \"begins\")",
				words[0])
		}
		clock := int64(0)
		if len(words) == 2 {
			t, err := time.Parse("15:04", words[1])
			if err != nil {
				return 0, fmt.Errorf("%q is not a time of day such as 18:00", words[1])
			}
			clock = (int64(t.Hour())*60 + int64(t.Minute())) * 60e6
		}
		return int64((int(day)-int(s.firstDay())+7)%7)*dayUs + clock, nil
	}
	for _, form := range []string{time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04"} {
		t, err := time.ParseInLocation(form, strings.ToUpper(text), s.zone())
		if err != nil {
			continue
		}
		if s.origin.IsZero() {
			return 0, fmt.Errorf("the history has no dates: give hours from the beginning of the week, such as 96h, or say " +
				`when the history begins (--begins, "begins")`)
		}
		us := t.Sub(s.end()).Microseconds()
		if us < 0 {
			return 0, fmt.Errorf("%s is in the past: drawn weeks begin on %s", text, s.begins())
		}
		return us, nil
	}
	us, err := duration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time: give a day such as fri, or fri 18:00, hours from the beginning of the week "+
			"such as 96h, or a date", text)
	}
	if us < 0 {
		return 0, fmt.Errorf("%s is in the past: give hours from the beginning of the week", text)
	}
	return us, nil
}

// cluster is the cluster of an option: GPUs are added as whole nodes like those that the cluster has, in a rack, and
// whatever else the levels of the cluster are, of their own.
func (o *option) cluster(c *hare.Cluster) hare.Cluster {
	out := *c
	out.Nodes = slices.Clone(c.Nodes)
	taken := map[string]bool{}
	for i := range c.Nodes {
		taken[c.Nodes[i].Name] = true
	}
	number := 0
	for _, g := range o.add {
		for left := g.Count; left > 0; {
			n := like(c, g.Type)
			size := n.GPUs[0].Count
			if left < size {
				n.GPUs[0].Count = left
				n.CPUMilli, n.MemoryMiB = n.CPUMilli*int64(left)/int64(size), n.MemoryMiB*int64(left)/int64(size)
			}
			left -= n.GPUs[0].Count
			for n.Name = "added-" + strconv.Itoa(number); taken[n.Name]; n.Name = "added-" + strconv.Itoa(number) {
				number++
			}
			taken[n.Name] = true
			for _, level := range c.Topology {
				setLabel(&n, level)
			}
			out.Nodes = append(out.Nodes, n)
		}
	}
	return out
}

// setLabel puts a node at a level into a domain of its own with all others that are added: a rack that is bought.
func setLabel(n *hare.Node, level string) {
	i, ok := slices.BinarySearchFunc(n.Labels, level, func(l hare.Label, name string) int {
		return cmp.Compare(l.Name, name)
	})
	if !ok {
		n.Labels = slices.Insert(n.Labels, i, hare.Label{Name: level})
	}
	n.Labels[i].Value = "added"
}

// usualGPUs is how many GPUs a node has of a type of which the cluster has none.
const usualGPUs = 8

// like is a node as most with GPUs of a type alone are, without what is the node's own.
func like(c *hare.Cluster, gpuType string) hare.Node {
	type kind struct {
		gpus         int
		cpus, memory int64
	}
	count := map[kind]int{}
	first := map[kind]int{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if len(n.GPUs) == 1 && n.GPUs[0].Type == gpuType {
			k := kind{n.GPUs[0].Count, n.CPUMilli, n.MemoryMiB}
			if count[k]++; count[k] == 1 {
				first[k] = i
			}
		}
	}
	if len(count) == 0 {
		return hare.Node{GPUs: []hare.TypeCount{{Type: gpuType, Count: usualGPUs}}}
	}
	best := slices.MaxFunc(slices.Collect(maps.Keys(count)), func(a, b kind) int {
		return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(first[b], first[a]))
	})
	return hare.Node{GPUs: []hare.TypeCount{{Type: gpuType, Count: best.gpus}}, CPUMilli: best.cpus,
		MemoryMiB: best.memory, Labels: slices.Clone(c.Nodes[first[best]].Labels)}
}

// faults are the outages of an option for the simulator, in a week on cluster c that begins at beginUs.
func (o *option) faults(c *hare.Cluster, beginUs int64) (out []sim.Fault) {
	for _, d := range o.drops {
		until := d.untilUs
		if until != hare.Forever {
			until += beginUs
		}
		for _, n := range d.nodes {
			out = append(out, sim.Fault{Node: c.Nodes[n].Name, FromUs: beginUs + d.fromUs, UntilUs: until})
		}
	}
	return out
}

// contains reports whether an option has everything that another has, so that what can be done there can be done
// here.
func (o *option) contains(x *option) bool {
	for _, g := range x.add {
		if o.added(g.Type) < g.Count {
			return false
		}
	}
	for _, d := range o.drops {
		if !slices.ContainsFunc(x.drops, func(y drop) bool {
			return y.fromUs <= d.fromUs && d.untilUs <= y.untilUs && common(d.nodes, y.nodes) == len(d.nodes)
		}) {
			return false
		}
	}
	return true
}

// added is how many GPUs of a type an option adds.
func (o *option) added(gpuType string) int {
	for _, g := range o.add {
		if g.Type == gpuType {
			return g.Count
		}
	}
	return 0
}

// common counts what two ascending slices have in common.
func common(a, b []int) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			a, b, n = a[1:], b[1:], n+1
		}
	}
	return n
}

// unusable says which added GPUs no job can use.
func (t *typeNames) unusable(add []hare.TypeCount) (out []string) {
	for _, g := range add {
		if !t.used[g.Type] {
			out = append(out, fmt.Sprintf("no job can use the added %s: the jobs have no times on it (hare import "+
				"--speeds gives them)", g.Type))
		}
	}
	return out
}
