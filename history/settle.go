package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// sortJobs orders jobs by submission and ID. Jobs are large, so that their numbers are sorted and each job moves once.
func (l *Log) sortJobs() {
	compare := func(a, b *Job) int {
		return cmp.Or(cmp.Compare(a.SubmitUs, b.SubmitUs), strings.Compare(a.ID, b.ID))
	}
	order := make([]int32, len(l.Jobs)) // the job that comes to each place
	sorted := true
	for i := range order {
		order[i] = int32(i)
		sorted = sorted && (i == 0 || compare(&l.Jobs[i-1], &l.Jobs[i]) <= 0)
	}
	if sorted {
		return
	}
	slices.SortStableFunc(order, func(a, b int32) int { return compare(&l.Jobs[a], &l.Jobs[b]) })
	for i := range order {
		if order[i] == int32(i) {
			continue
		}
		first, at := l.Jobs[i], int32(i)
		for next := order[at]; next != int32(i); next = order[at] {
			l.Jobs[at], order[at] = l.Jobs[next], at
			at = next
		}
		l.Jobs[at], order[at] = first, at
	}
}

// splitResized makes what a job had since it changed its size an attempt of its own, where accounting tells what it
// had before.
func (l *Log) splitResized() {
	type change struct {
		id   string
		atUs int64
	}
	changes := map[change]bool{}
	for i := range l.Jobs {
		if j := &l.Jobs[i]; j.resizes {
			changes[change{j.ID, j.EndUs}] = true
		}
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if len(changes) > 0 && changes[change{j.ID, j.SubmitUs}] { // some versions tell the time of the change as the start
			j.resizedUs = j.SubmitUs
		}
		if changes[change{j.ID, j.resizedUs}] {
			j.SubmitUs, j.EligibleUs, j.StartUs = j.resizedUs, j.resizedUs, j.resizedUs
		}
	}
}

// merge keeps one of the jobs of the same ID that were submitted at the same time, which several
// texts tell: the one that has ended, else the one that has started. What it does not tell is that of the other.
func (l *Log) merge() {
	kept := l.Jobs[:0]
	for _, j := range l.Jobs { // which are sorted, so that jobs that are told twice stand together
		if n := len(kept); n == 0 || kept[n-1].ID != j.ID || kept[n-1].SubmitUs != j.SubmitUs {
			kept = append(kept, j)
			continue
		}
		l.Report.leaveOut("is told twice: the later state counts", j.Place)
		k := &kept[len(kept)-1]
		if k.EndUs == 0 && j.EndUs > 0 || k.StartUs == 0 && j.StartUs > 0 {
			*k, j = j, *k
		}
		k.complete(&j)
	}
	clear(l.Jobs[len(kept):])
	l.Jobs = kept
}

// complete takes over what another record of the same attempt knows and this one does not.
func (j *Job) complete(o *Job) {
	if unknown := j.GPUs == 0 || j.guessed && !o.guessed; unknown && o.GPUs > 0 {
		if j.GPUs == 0 {
			j.PerTask = o.PerTask
		}
		j.GPUs, j.guessed, j.asked, j.parts, j.PartMicro = o.GPUs, o.guessed, o.asked, o.parts, o.PartMicro
		if len(o.On) > 0 {
			j.On = o.On
		} else if !j.held(j.GPUs) {
			for i := range j.On {
				j.On[i].GPUs, j.On[i].Numbers = 0, nil
			}
		}
	}
	sure := func(on []Held) bool {
		return len(on) > 0 && !slices.ContainsFunc(on, func(h Held) bool { return h.GPUs == 0 || h.Assumed })
	}
	numbered := func(on []Held) bool {
		return sure(on) && !slices.ContainsFunc(on, func(h Held) bool { return h.Numbers == nil })
	}
	var gpus int64
	for _, h := range o.On {
		gpus += h.GPUs
	}
	if len(j.On) == 0 || gpus == j.GPUs && (!sure(j.On) && sure(o.On) || !numbered(j.On) && numbered(o.On)) {
		j.On = o.On
	}
	if len(j.On) > 0 && j.StartUs == 0 && j.EndUs > 0 && o.StartUs > 0 {
		j.StartUs = o.StartUs
	}
	j.confirmed, j.suspended = j.confirmed || o.confirmed, j.suspended || o.suspended
	if !j.lined && j.GPUs == o.GPUs && (o.lined || j.PerTask == 0) {
		j.PerTask = o.PerTask
	}
	j.lined = j.lined || o.lined
	if j.stays = j.stays && o.stays; j.Type == "" && j.Types == nil {
		j.Type, j.Types = o.Type, o.Types
	}
	for _, text := range []struct{ to, from *string }{{&j.Name, &o.Name}, {&j.User, &o.User}, {&j.Account, &o.Account},
		{&j.Partition, &o.Partition}, {&j.QOS, &o.QOS}, {&j.Reservation, &o.Reservation}, {&j.Features, &o.Features}} {
		*text.to = cmp.Or(*text.to, *text.from)
	}
	for _, number := range []struct{ to, from *int64 }{{&j.EligibleUs, &o.EligibleUs}, {&j.LimitUs, &o.LimitUs},
		{&j.EstimateUs, &o.EstimateUs}, {&j.Nodes, &o.Nodes}, {&j.CPUMilli, &o.CPUMilli}, {&j.MemoryMiB, &o.MemoryMiB}} {
		*number.to = cmp.Or(*number.to, *number.from)
	}
	j.Exclusive = j.Exclusive || o.Exclusive
	for _, list := range []struct{ to, from *[]string }{{&j.OnlyNodes, &o.OnlyNodes}, {&j.NotNodes, &o.NotNodes},
		{&j.After, &o.After}} {
		if len(*list.to) == 0 {
			*list.to = *list.from
		}
	}
	if len(j.Seconds) == 0 {
		j.Seconds = o.Seconds
	}
}

// held reports whether the nodes of a job tell of so many GPUs in all.
func (j *Job) held(gpus int64) bool {
	for _, h := range j.On {
		gpus -= h.GPUs
	}
	return gpus == 0
}

// countWhole gives jobs that had whole nodes, and of which no text tells the GPUs that they had, all GPUs of these.
func (l *Log) countWhole() {
	byName := make(map[string]*Node)
	for i := range l.Nodes {
		byName[l.Nodes[i].Name] = &l.Nodes[i]
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if !j.asked || !j.Exclusive || len(j.On) == 0 || !j.parts.none() {
			continue
		}
		var on []Held
		var gpus int64
		for _, h := range j.On {
			if n := byName[h.Node]; n != nil {
				for _, g := range n.GPUs {
					on, gpus = append(on, Held{Node: h.Node, Type: g.Type, GPUs: int64(g.Count)}), gpus+int64(g.Count)
				}
			}
		}
		if gpus > j.GPUs {
			j.On, j.GPUs, j.PerTask = on, gpus, 0
		}
	}
}

// countParts turns shards and units of MPS of jobs into parts of GPUs, by how many of them a GPU of the node has.
func (l *Log) countParts() {
	each := func(n *Node, of func(parts) int64) int64 {
		var gpus int64
		for _, g := range n.GPUs {
			gpus += int64(g.Count)
		}
		return of(n.parts) / max(1, gpus)
	}
	byName := make(map[string]*Node)
	for i := range l.Nodes {
		if !l.Nodes[i].parts.none() {
			byName[l.Nodes[i].Name] = &l.Nodes[i]
		}
	}
	shards, mps := func(p parts) int64 { return p.shards }, func(p parts) int64 { return p.mps }
	noShards, noMPS := l.withoutParts(shards), l.withoutParts(mps)
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if j.parts.none() {
			continue
		}
		of, without := shards, noShards
		if j.parts.shards == 0 {
			of, without = mps, noMPS
		}
		if len(j.NotNodes) == 0 {
			j.NotNodes = without
		} else {
			j.NotNodes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(j.NotNodes, without))))
		}
		var per int64
		if len(j.On) > 0 && byName[j.On[0].Node] != nil {
			per = each(byName[j.On[0].Node], of)
		}
		for k := 0; k < len(l.Nodes) && per == 0; k++ {
			per = each(&l.Nodes[k], of)
		}
		hosts := int64(max(1, len(j.On)))
		had := (of(j.parts) + hosts - 1) / hosts // on each node
		switch {
		case per == 0 || had < per:
			if j.GPUs = hosts; hosts == 1 && per > 0 {
				j.PartMicro = max(1, had*1e6/per)
			}
			l.Report.assume("has a part of a GPU (shards or MPS): the parts of one GPU are planned as one job that holds it",
				j.Place)
		default:
			j.GPUs = min(hosts*((had+per-1)/per), hare.MaxGPUs)
			l.Report.assume("has parts of GPUs (shards or MPS) that add up to whole ones: holds these", j.Place)
		}
		for k := range j.On {
			j.On[k].GPUs = j.GPUs / hosts
		}
	}
}

// spellTypes writes the GPU types of jobs as nodes do, where they differ in upper and lower case alone.
func (l *Log) spellTypes() {
	spelling := map[string]string{}
	for i := range l.Nodes {
		for _, g := range l.Nodes[i].GPUs {
			spelling[g.Type] = g.Type
		}
	}
	for _, name := range sortedStrings(spelling) {
		if lower := strings.ToLower(name); spelling[lower] == "" {
			spelling[lower] = name
		}
	}
	spell := func(name *string) {
		if *name != "" {
			*name = cmp.Or(spelling[*name], spelling[strings.ToLower(*name)], *name)
		}
	}
	for i := range l.Jobs {
		j := &l.Jobs[i]
		spell(&j.Type)
		for k := range j.Types {
			spell(&j.Types[k])
		}
		for k := range j.On {
			spell(&j.On[k].Type)
		}
	}
}

// withoutParts lists the nodes whose GPUs have no parts of a kind; nil where no node has such parts.
func (l *Log) withoutParts(of func(parts) int64) (names []string) {
	some := false
	for i := range l.Nodes {
		switch n := &l.Nodes[i]; {
		case of(n.parts) > 0:
			some = true
		case len(n.GPUs) > 0:
			names = append(names, n.Name)
		}
	}
	if !some {
		return nil
	}
	return names
}

// settle gives attempts of a job names of their own, orders nodes and jobs, and finds the end of
// the log.
func (l *Log) settle() {
	slices.SortFunc(l.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	l.spellTypes()
	l.splitResized()
	l.sortJobs()
	l.merge()
	l.countWhole()
	l.countParts()
	type attempt struct{ at, count int }
	attempts := make(map[string]attempt, len(l.Jobs))
	for i := range l.Jobs {
		j := &l.Jobs[i]
		if first, again := attempts[j.ID]; again {
			what := "each attempt of a job that began again is a job of its own"
			if j.resizedUs > 0 && j.StartUs == j.resizedUs {
				what = "each size of a job that changed its size is a job of its own"
			}
			if f := &l.Jobs[first.at]; f.User != j.User || f.Name != j.Name {
				what = "another job of the same number is a job of its own"
			}
			first.count++
			attempts[j.ID] = first
			j.ID += "#" + itoa(int64(first.count))
			l.Report.assume(what, j.Place)
		} else {
			attempts[j.ID] = attempt{at: i, count: 1}
		}
		if l.NowUs < max(j.EndUs, j.StartUs, j.SubmitUs) {
			l.NowUs = max(j.EndUs, j.StartUs, j.SubmitUs)
		}
	}
}
