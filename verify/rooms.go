package verify

import (
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"github.com/hare-sched/hare"
)

// rooms knows for how many tasks the nodes have room, and which pools price what a task
// holds there. It is safe for concurrent use.
type rooms struct {
	inst    *hare.Instance
	nodes   []hare.Node    // with GPUs busy while running work holds them
	index   map[string]int // node name to its index
	groups  []nodeGroup
	groupOf []int32                // by node
	classes map[string][]nodeClass // by type: the lists of pools that its nodes are in
	// admitted are the reservations that list a user or a job.
	admittedUsers, admittedJobs map[string][]int32
	levels                      *topology // nil if no job goes by levels
	topology                    *topology // levels, or those of pools; nil if neither needs them

	mu      sync.Mutex
	allowed map[string][]int64 // by selectors: how many nodes of each group they allow
	known   map[string]*typeRoom
	fits    map[string]int64 // by job, types and level: see inDomain
	lasting map[string]*lastingRoom
}

// nodeGroup is a set of nodes that are equal except for their names, and in the same pools.
type nodeGroup struct {
	first, count int                      // a node of the group, and how many there are
	free         map[string]*typeCapacity // by type
	class        map[string]int           // by type: the index in rooms.classes
	pools        []int32                  // the pools that price something on the nodes, in order
	shares       []heldShare              // what running work holds of CPUs and memory
	reserved     []int32                  // the reservations that have the nodes
}

// nodeClass is a set of nodes whose GPUs of one type are in the same pools.
type nodeClass struct {
	pools []int32 // the indices in the certificate
}

// typeRoom is what a job finds on one type.
type typeRoom struct {
	fit     int64 // the greatest number of tasks at once
	at      map[int64]int64
	classes []int // the classes with room for a task at some time, ascending
}

// newRooms groups nodes. It takes O(nodes + pools · groups), and longer for pools that choose
// nodes by name.
func newRooms(inst *hare.Instance, nodes []hare.Node, ru *running, pools []hare.Pool) *rooms {
	r := &rooms{inst: inst, nodes: nodes, index: make(map[string]int, len(nodes)), groupOf: make([]int32, len(nodes)),
		classes: map[string][]nodeClass{}, admittedUsers: map[string][]int32{}, admittedJobs: map[string][]int32{},
		allowed: map[string][]int64{}, known: map[string]*typeRoom{}, fits: map[string]int64{},
		lasting: map[string]*lastingRoom{}}
	if levelsMatter(inst) {
		r.levels = newTopology(&inst.Cluster)
		r.topology = r.levels
	}
	if r.topology == nil && slices.ContainsFunc(pools, func(p hare.Pool) bool { return splits(&p) }) {
		r.topology = newTopology(&inst.Cluster)
	}
	for i := range nodes {
		r.index[nodes[i].Name] = i
	}
	named := map[int][]int32{} // by node: the pools that choose it by name
	for p := range pools {
		if names := valuesOf(pools[p].Only, "node"); names != nil {
			for _, name := range names {
				if n, ok := r.index[name]; ok && inPool(&pools[p], &nodes[n]) {
					named[n] = append(named[n], int32(p))
				}
			}
		}
	}
	for i := range inst.Cluster.Reservations {
		for _, user := range inst.Cluster.Reservations[i].Users {
			r.admittedUsers[user] = append(r.admittedUsers[user], int32(i))
		}
		for _, job := range inst.Cluster.Reservations[i].Jobs {
			r.admittedJobs[job] = append(r.admittedJobs[job], int32(i))
		}
	}
	shares := map[int][]heldShare{}
	for _, h := range ru.shares(inst) {
		shares[h.node] = append(shares[h.node], h)
	}
	reserved := reservationsOf(inst)
	groups := map[string]int32{}
	var key []byte
	for i := range nodes {
		key = appendNode(key[:0], &nodes[i])
		for _, h := range shares[i] {
			for _, x := range []int64{h.until, h.cpus, h.memory} {
				key = binary.AppendVarint(append(key, 'h'), x)
			}
		}
		if reserved != nil {
			for _, x := range reserved[i] {
				key = binary.AppendVarint(append(key, 'r'), int64(x))
			}
		}
		for _, p := range named[i] {
			key = binary.AppendVarint(append(key, 'p'), int64(p))
		}
		at, ok := groups[string(key)]
		if !ok {
			at = int32(len(r.groups))
			groups[string(key)] = at
			g := nodeGroup{first: i, shares: shares[i]}
			if reserved != nil {
				g.reserved = reserved[i]
			}
			r.groups = append(r.groups, g)
		}
		r.groups[at].count++
		r.groupOf[i] = at
	}
	for i := range r.groups {
		r.groups[i].resolve(nodes, pools, r)
	}
	return r
}

// resolve finds what the nodes of the group have free, and their pools and classes.
func (ng *nodeGroup) resolve(nodes []hare.Node, pools []hare.Pool, r *rooms) {
	node := &nodes[ng.first]
	ng.free = capacitiesOf(nodes[ng.first : ng.first+1])
	ng.class = make(map[string]int, len(node.GPUs))
	for p := range pools {
		if inPool(&pools[p], node) {
			ng.pools = append(ng.pools, int32(p))
		}
	}
	for _, g := range node.GPUs {
		var mine []int32
		for _, p := range ng.pools {
			if pools[p].Resource != hare.PoolGPUs || pools[p].Type == g.Type {
				mine = append(mine, p)
			}
		}
		list := r.classes[g.Type]
		at := slices.IndexFunc(list, func(c nodeClass) bool { return slices.Equal(c.pools, mine) })
		if at < 0 {
			at = len(list)
			r.classes[g.Type] = append(list, nodeClass{mine})
		}
		ng.class[g.Type] = at
	}
}

// inPool reports whether a pool prices something on a node: the node has GPUs of the type of the
// pool and matches its selector. A pool of a quota is not of nodes.
func inPool(p *hare.Pool, n *hare.Node) bool {
	if p.Resource == hare.PoolQuota ||
		!slices.ContainsFunc(n.GPUs, func(g hare.TypeCount) bool { return g.Type == p.Type }) {
		return false
	}
	for i := range p.Only {
		if !selects(&p.Only[i], n) {
			return false
		}
	}
	return true
}

// appendNode appends all of a node but its name.
func appendNode(b []byte, n *hare.Node) []byte {
	number := func(xs ...int64) {
		for _, x := range xs {
			b = binary.AppendVarint(b, x)
		}
	}
	text := func(s string) {
		number(int64(len(s)))
		b = append(b, s...)
	}
	number(n.CPUMilli, n.MemoryMiB, int64(len(n.GPUs)))
	for _, g := range n.GPUs {
		text(g.Type)
		number(int64(g.Count))
	}
	windows := n.Windows
	if windows == nil {
		windows = []hare.Window{{StartUs: 0, EndUs: hare.Forever}}
	}
	number(int64(len(windows)))
	for _, w := range windows {
		number(w.StartUs, w.EndUs)
	}
	number(int64(len(n.Busy)))
	for _, x := range n.Busy {
		number(int64(x.GPU), x.UntilUs)
	}
	number(int64(len(n.Labels)))
	for _, l := range n.Labels {
		text(l.Name)
		text(l.Value)
	}
	return b
}

// selectorText is equal for jobs with equal selectors.
func selectorText(job *hare.Job) string {
	if len(job.Only)+len(job.Exclude) == 0 {
		return ""
	}
	var b []byte
	text := func(s string) { b = append(binary.AppendVarint(b, int64(len(s))), s...) }
	for _, selector := range [][]hare.LabelValues{job.Only, job.Exclude} {
		b = binary.AppendVarint(b, int64(len(selector)))
		for _, lv := range selector {
			text(lv.Label)
			b = binary.AppendVarint(b, int64(len(lv.Values)))
			for _, v := range lv.Values {
				text(v)
			}
		}
	}
	return string(b)
}

// allowedBy returns how many nodes of each group a job may use. r.mu is held. It takes
// O(groups), or O(nodes) if the selectors name nodes.
func (r *rooms) allowedBy(job *hare.Job, selectors string) []int64 {
	if counts, ok := r.allowed[selectors]; ok {
		return counts
	}
	counts := make([]int64, len(r.groups))
	if valuesOf(job.Only, "node") == nil && valuesOf(job.Exclude, "node") == nil {
		for i := range r.groups {
			if allows(job, &r.nodes[r.groups[i].first]) {
				counts[i] = int64(r.groups[i].count)
			}
		}
	} else {
		for i := range r.nodes {
			if allows(job, &r.nodes[i]) {
				counts[r.groupOf[i]]++
			}
		}
	}
	r.allowed[selectors] = counts
	return counts
}

// keyOf is equal for jobs that find equal room.
func (r *rooms) keyOf(job *hare.Job) []byte {
	key := binary.AppendVarint(nil, gpusOf(job))
	key = binary.AppendVarint(key, job.CPUMilliPerTask)
	key = binary.AppendVarint(key, job.MemoryMiBPerTask)
	if job.DistinctNodes {
		key = append(key, 'd')
	}
	key = append(append(key, 0), selectorText(job)...)
	for _, x := range r.admitting(job) {
		key = binary.AppendVarint(append(key, 0, 'r'), int64(x))
	}
	return key
}

// inDomain returns the greatest number of tasks of the job that find room at once in one domain
// of a level, on GPUs of the types of some profiles together.
func (r *rooms) inDomain(job *hare.Job, on []hare.Profile, level int) int64 {
	key := binary.AppendVarint(append(r.keyOf(job), 0), int64(level))
	for i := range on {
		key = append(append(key, 0), on[i].Type...)
	}
	selectors := selectorText(job)
	r.mu.Lock()
	defer r.mu.Unlock()
	if fit, ok := r.fits[string(key)]; ok {
		return fit
	}
	counts := r.allowedBy(job, selectors)
	domains := map[int32]map[int64]int64{} // by domain, or group for nodes: the changes of the room
	for i := range r.groups {
		g := &r.groups[i]
		at, count := int32(i), counts[i]
		if count == 0 {
			continue
		}
		if level == 0 {
			count = 1 // the nodes of a group are alike
		} else {
			at = r.levels.domain[level][g.first]
		}
		for x := range on {
			free := g.free[on[x].Type]
			if free == nil {
				continue
			}
			if domains[at] == nil {
				domains[at] = map[int64]int64{}
			}
			before := int64(0)
			times, tasks := r.roomOn(job, g, free)
			for y, t := range times {
				domains[at][t] += (tasks[y] - before) * count
				before = tasks[y]
			}
		}
	}
	fit := int64(0)
	for _, changes := range domains {
		fit = max(fit, mostOf(changes))
	}
	r.fits[string(key)] = fit
	return fit
}

// of returns what the job finds on a type. It takes O(groups + S log S) for S changes of the
// free GPUs of all groups, and less if it is known from an equal job.
func (r *rooms) of(job *hare.Job, kind string) *typeRoom {
	key := append(append(r.keyOf(job), 0), kind...)
	selectors := selectorText(job)
	r.mu.Lock()
	defer r.mu.Unlock()
	if room, ok := r.known[string(key)]; ok {
		return room
	}
	room := r.find(job, kind, r.allowedBy(job, selectors))
	r.known[string(key)] = room
	return room
}

// find computes the room for a job on a type; counts are the nodes that the job may use.
func (r *rooms) find(job *hare.Job, kind string, counts []int64) *typeRoom {
	room := &typeRoom{at: map[int64]int64{}}
	for i := range r.groups {
		g := &r.groups[i]
		free := g.free[kind]
		if free == nil || counts[i] == 0 {
			continue
		}
		before, most := int64(0), int64(0)
		times, levels := r.roomOn(job, g, free)
		for x, at := range times {
			now := levels[x]
			if now != before {
				room.at[at] += (now - before) * counts[i]
			}
			before, most = now, max(most, now)
		}
		if c := g.class[kind]; most > 0 && !slices.Contains(room.classes, c) {
			room.classes = append(room.classes, c)
		}
	}
	slices.Sort(room.classes)
	room.fit = mostOf(room.at)
	return room
}

// admitting returns the reservations that list the job or one of its users, in order.
func (r *rooms) admitting(job *hare.Job) []int32 {
	if len(r.inst.Cluster.Reservations) == 0 {
		return nil
	}
	all := slices.Clone(r.admittedJobs[job.ID])
	for _, user := range job.Users {
		all = append(all, r.admittedUsers[user]...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// roomOn returns the room for the job on one node of a group over time, from the GPUs of a type
// that are free there, the CPUs and memory that running work leaves, and reservations.
func (r *rooms) roomOn(job *hare.Job, g *nodeGroup, free *typeCapacity) (at, tasks []int64) {
	node := &r.nodes[g.first]
	closed := closedTimes(r.inst.Cluster.Reservations, g.reserved, job)
	at = slices.Clone(free.at)
	for _, h := range g.shares {
		at = append(at, h.until)
	}
	for _, w := range closed {
		at = append(at, w.StartUs, w.EndUs)
	}
	slices.Sort(at)
	at = slices.Compact(at)
	x := 0
	for _, t := range at {
		for x+1 < len(free.at) && free.at[x+1] <= t {
			x++
		}
		if w, ok := nextClosed(closed, t); ok && w.StartUs <= t {
			tasks = append(tasks, 0)
			continue
		}
		var cpus, memory int64
		for _, h := range g.shares {
			if h.until > t {
				cpus += h.cpus
				memory += h.memory
			}
		}
		tasks = append(tasks, tasksFit(job, node, free.level[x], cpus, memory))
	}
	return at, tasks
}

// tasksFit returns how many tasks of the job find room on a node of which so many GPUs of one
// type are free, if nothing runs there but work that holds so many CPUs and MiB.
func tasksFit(job *hare.Job, n *hare.Node, free, cpus, memory int64) int64 {
	tasks := free / gpusOf(job)
	if n.CPUMilli > 0 && job.CPUMilliPerTask > 0 {
		tasks = min(tasks, max(0, n.CPUMilli-cpus)/job.CPUMilliPerTask)
	}
	if n.MemoryMiB > 0 && job.MemoryMiBPerTask > 0 {
		tasks = min(tasks, max(0, n.MemoryMiB-memory)/job.MemoryMiBPerTask)
	}
	if job.DistinctNodes {
		tasks = min(tasks, 1)
	}
	return tasks
}

// together returns the greatest number of tasks of the job that find room at once on all of its
// types.
func (r *rooms) together(job *hare.Job) int64 {
	changes := map[int64]int64{}
	for _, p := range job.On {
		for at, by := range r.of(job, p.Type).at {
			changes[at] += by
		}
	}
	return mostOf(changes)
}

// mostOf returns the greatest sum of changes by time.
func mostOf(changes map[int64]int64) int64 {
	times := make([]int64, 0, len(changes))
	for t := range changes {
		times = append(times, t)
	}
	slices.Sort(times)
	var level, most int64
	for _, t := range times {
		level += changes[t]
		most = max(most, level)
	}
	return most
}

// splits reports whether a pool is split into the domains of a label.
func splits(p *hare.Pool) bool {
	return p.Resource == hare.PoolGPUs && p.Per != hare.PerNode && p.Per != hare.PerAll
}

// lastingRoom is the room for tasks of a job: how many more tasks find room in each period. The tasks
// of the periods that contain a block are the sum over the nodes of the least room over the block.
type lastingRoom struct {
	tasks map[period]int64
	ends  bool // whether some period ends
	// Where none ends: the starts of the periods, and the tasks up to each.
	starts []int64
	sums   []int64
}

// period is the time from which and until when something holds; always stands for no end.
type period struct{ from, until int64 }

const always = math.MaxInt64
