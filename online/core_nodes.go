package online

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online/placement"
)

// Where some job that is there has rules about nodes (docs/reference/model.md), a core keeps what is
// free on each node in nodes, and starts jobs on nodes with room, by best fit: in their order,
// and later ones pass those without room. For the first one that waits, nodes are kept, those
// that are expected to be free first: no other job starts on them until it has started. No
// type is gathered then.

// nodeClaim keeps nodes for a job.
type nodeClaim struct {
	job   int32          // or none
	nodes map[int32]bool // by number of a node
}

// rigidUs is added to the expected ends of rigid jobs, whose sizes are not known.
const rigidUs = 1 << 50

// addRules gives a job that arrives its rules about nodes.
func (c *core) addRules(ji int32, a *hare.Job) {
	j := &c.jobs[ji]
	j.taskGPUs = a.TaskGPUs()
	j.rules = nil
	matters := placement.Matters(a)
	if !matters && len(a.Users) == 0 {
		return
	}
	if matters {
		if c.placedJobs++; c.nodes == nil {
			c.goByNodes()
		}
	}
	j.rules = &hare.Job{GPUsPerTask: a.GPUsPerTask, CPUMilliPerTask: a.CPUMilliPerTask,
		MemoryMiBPerTask: a.MemoryMiBPerTask, DistinctNodes: a.DistinctNodes,
		Only: slices.Clone(a.Only), Exclude: slices.Clone(a.Exclude), Users: slices.Clone(a.Users)}
	if placement.UsesLevels(a) {
		c.addLevels(j.rules, placement.LevelNames(c.described.Topology(), a))
	}
	if c.nodes != nil {
		j.shape = c.nodes.Add(j.rules)
	}
}

// inClassOfShape reports whether only jobs of the same shape are in the class of a job.
func (c *core) inClassOfShape(j *job) bool {
	return j.rules != nil && (len(c.quotas) > 0 || placement.Matters(j.rules))
}

// goByNodes fills nodes with what jobs hold.
func (c *core) goByNodes() {
	c.ungatherAll()
	c.nodes = c.described.Nodes(len(c.gpus), c.gpuAt)
	c.nodes.SetQuotas(c.quotas, func(k int) string { return c.types[k].name })
	c.plain = c.nodes.Add(&hare.Job{})
	for g := range c.gpus {
		if c.gpus[g].job != none {
			c.nodes.Take(g)
		}
	}
	for i := range c.jobs {
		j := &c.jobs[i]
		if j.rules == nil || !j.alive {
			continue
		}
		j.shape = c.nodes.Add(j.rules)
		for g := j.head; g != none; g = c.gpus[g].next {
			if !c.gpus[g].follows {
				c.nodes.Hold(int(g), j.shape, 1)
			}
		}
	}
}

// gpuAt says of a GPU what Described.Nodes asks.
func (c *core) gpuAt(g int) (name string, kind int, inService bool) {
	x := &c.gpus[g]
	return x.name, int(x.kind), x.name != ""
}

// dropRules forgets the rules of a job that has ended.
func (c *core) dropRules(ji int32) {
	j := &c.jobs[ji]
	if c.claim.job == ji {
		c.claim = nodeClaim{job: none}
	}
	if j.rules == nil {
		return
	}
	if c.nodes != nil {
		c.nodes.Drop(j.shape)
	}
	if placement.Matters(j.rules) {
		c.placedJobs--
	}
	j.rules = nil
	if c.placedJobs == 0 && len(c.quotas) == 0 {
		c.nodes, c.claim = nil, nodeClaim{job: none}
	}
}

// shapeOf is the shape of a job's tasks.
func (c *core) shapeOf(j *job) placement.Shape {
	if j.rules == nil {
		return c.plain
	}
	return j.shape
}

// avoid says which nodes are kept for others than a job.
func (c *core) avoid(ji int32) placement.Avoid {
	if c.claim.job == none || c.claim.job == ji {
		return nil
	}
	kept := c.claim.nodes
	return func(node int32) bool { return kept[node] }
}

// atOnce is how many tasks of a job start together.
func (j *job) atOnce() int64 {
	if j.sync == hare.Relaxed {
		return 1
	}
	return j.tasks
}

// kinds are the types on which a job may run.
func (j *job) kinds() (kinds []int) {
	for m := j.mask; m != 0; m &= m - 1 {
		kinds = append(kinds, bits.TrailingZeros64(m))
	}
	return kinds
}

// scheduleOnNodes starts whatever can start. It takes O(classes + nodes log nodes) for each
// start.
func (c *core) scheduleOnNodes() {
	c.dropHeldClaim()
	if ji := c.claim.job; ji != none && !c.tryStartOnNodes(ji) {
		c.keepQuotas(&c.jobs[ji])
	}
	c.tried = append(c.tried[:0], make([]bool, len(c.classes))...)
	for c.free != 0 {
		x := c.firstClass(c.tried)
		if x == none {
			break
		}
		ji := c.classes[x].ready[0].job
		if c.tried[x] = !c.tryStartOnNodes(ji); c.tried[x] {
			c.close(c.lacking(&c.jobs[ji]))
		}
	}
	c.nodes.OpenQuotas()
	c.keepNodes()
	c.nodes.OpenQuotas()
}

// firstClass is the class whose first job goes before the others, without those of a set; none
// if there is none.
func (c *core) firstClass(without []bool) int32 {
	best := none
	for x := range c.classes {
		cl := &c.classes[x]
		if cl.jobs > 0 && len(cl.ready) > 0 && !without[x] &&
			(best == none || cl.ready[0].key < c.classes[best].ready[0].key) {
			best = int32(x)
		}
	}
	return best
}

// tryStartOnNodes starts a task of a relaxed job, or a round of another, and reports whether
// there was room.
func (c *core) tryStartOnNodes(ji int32) bool {
	j := &c.jobs[ji]
	s, n, avoid := c.shapeOf(j), j.atOnce(), c.avoid(ji)
	kinds := c.kindsByCost(j)
	var gpus []int
	for _, k := range kinds {
		if c.nodes.Room(s, k, n, avoid) >= n {
			gpus = c.nodes.Pick(nil, s, k, n, avoid)
			break
		}
	}
	if gpus == nil && j.mix {
		gpus = c.nodes.PickMixed(s, kinds, n, avoid)
	}
	if gpus == nil {
		return false
	}
	if c.claim.job == ji {
		c.claim = nodeClaim{job: none}
	}
	for len(gpus) > 0 {
		c.startTaskOn(ji, gpus[:j.taskGPUs])
		gpus = gpus[j.taskGPUs:]
	}
	return true
}

// kindsByCost lists the types of a job that have free GPUs, the cheapest first: see cheapest.
func (c *core) kindsByCost(j *job) []int {
	c.kinds = c.kinds[:0]
	for m := j.mask & c.free; m != 0; m &= m - 1 {
		c.kinds = append(c.kinds, bits.TrailingZeros64(m))
	}
	if len(c.kinds) < 2 {
		return c.kinds
	}
	cost := map[int]int64{}
	for i := range j.on {
		cost[int(j.on[i].kind)] = c.estimate(j, &j.on[i])
	}
	slices.SortStableFunc(c.kinds, func(a, b int) int {
		switch {
		case cost[a] != cost[b]:
			return compare(cost[a], cost[b])
		case c.slowerForReady(int32(a), int32(b)):
			return -1
		case c.slowerForReady(int32(b), int32(a)):
			return 1
		}
		return a - b
	})
	return c.kinds
}

// fitsNodes reports whether nodes have room for a start of a job if all GPUs are free.
func (c *core) fitsNodes(j *job) bool {
	s, n, kinds := c.shapeOf(j), j.atOnce(), j.kinds()
	if slices.ContainsFunc(kinds, func(k int) bool { return c.nodes.Most(s, k) >= n }) {
		return true
	}
	return j.mix && c.nodes.MostTogether(s, kinds) >= n
}

// keepNodes keeps nodes for the first job that waits, where no nodes are kept.
func (c *core) keepNodes() {
	if c.claim.job != none {
		return
	}
	c.tried = append(c.tried[:0], make([]bool, len(c.classes))...)
	for {
		x := c.firstClass(c.tried)
		if x == none {
			return
		}
		ji := c.classes[x].ready[0].job
		lacking := c.lacking(&c.jobs[ji])
		if len(lacking) == 0 && c.fitsNodes(&c.jobs[ji]) {
			c.claimFor(ji)
			return
		}
		c.close(lacking)
		c.tried[x] = true
	}
}

// claimFor keeps the nodes on which a job is expected to find room first.
func (c *core) claimFor(ji int32) {
	j := &c.jobs[ji]
	s, n := c.shapeOf(j), j.atOnce()
	use := func(g int) placement.Use {
		x := &c.gpus[g]
		if x.job == none {
			return placement.Use{}
		}
		o := &c.jobs[x.job]
		u := placement.Use{AtUs: max(1, x.sinceUs)}
		for i := range o.on {
			if p := &o.on[i]; p.kind == x.kind {
				u.AtUs = max(c.nowUs, min(x.sinceUs+c.estimate(o, p)+p.syncUs, hare.MaxExact))
			}
		}
		if o.sync == hare.Rigid {
			u.AtUs = rigidUs + o.arrivedUs
		}
		if !x.follows {
			u.CPUMilli, u.MemoryMiB = c.nodes.Uses(c.shapeOf(o))
		}
		return u
	}
	var best []int
	bestUs := int64(0)
	consider := func(kinds []int) {
		atUs, gpus, ok := c.nodes.Earliest(s, kinds, n, use)
		if ok && (best == nil || atUs < bestUs) {
			best, bestUs = gpus, atUs
		}
	}
	var kinds []int
	for i := range j.on {
		kinds = append(kinds, int(j.on[i].kind))
		consider(kinds[i : i+1])
	}
	if best == nil && j.mix {
		consider(kinds)
	}
	if best == nil {
		return
	}
	c.claim = nodeClaim{job: ji, nodes: map[int32]bool{}}
	for _, g := range best {
		c.claim.nodes[c.nodes.Node(g)] = true
	}
}

// startTaskOn starts the next task of a job on free GPUs of one node.
func (c *core) startTaskOn(ji int32, gpus []int) {
	j := &c.jobs[ji]
	if j.active == 0 {
		c.execute(ji)
	}
	task := j.take()
	for i, g := range gpus {
		c.hold(ji, int32(g), task)
		x := &c.gpus[g]
		x.follows, x.ended = i > 0, i > 0
	}
	c.nodes.Hold(gpus[0], c.shapeOf(j), 1)
	if j.ready() == 0 {
		c.leave(ji)
	}
	c.emit(hare.DecisionStart, j, task, c.gpus[gpus[0]].name, c.othersOf(int32(gpus[0])))
}

// othersOf names the GPUs that follow the first one of a task.
func (c *core) othersOf(g int32) hare.OtherGPUs {
	if c.nodes == nil {
		return "" // quickly for streams of single GPUs
	}
	return c.nameOthers(g)
}

func (c *core) nameOthers(g int32) hare.OtherGPUs {
	x := &c.gpus[g]
	if x.job == none || c.jobs[x.job].taskGPUs < 2 {
		return ""
	}
	names := []string{x.name}
	for h := x.next; h != none && c.gpus[h].follows; h = c.gpus[h].next {
		names = append(names, c.gpus[h].name)
	}
	return hare.OthersOf(names)
}

// leadOf is the first GPU of the task that holds a GPU.
func (c *core) leadOf(g int32) int32 {
	for c.gpus[g].follows {
		g = c.gpus[g].prev
	}
	return g
}

// releaseTask releases the GPUs of a task, given by its first.
func (c *core) releaseTask(g int32) {
	for g != none {
		g = c.release(g)
	}
}

// nodeInService reports whether some GPU of a node is in service.
func (c *core) nodeInService(name string) bool {
	return slices.ContainsFunc(c.gpus, func(x gpu) bool { return x.name != "" && placement.NodeName(x.name) == name })
}

// nodeJoined lets a whole node join.
func (c *core) nodeJoined(nowUs int64, e *hare.Event) *hare.InvalidError {
	gpus, err := GPUsOfNode(e)
	if err != nil {
		return err
	}
	if err := CheckNodeJoined(e, gpus, c.nodeInService(e.Node().Name),
		c.described.CheckLabels(e.Node().Name, e.Node()), len(c.gpuOf)); err != nil {
		return err
	}
	known := func(gpuType string) bool { _, ok := c.typeOf[gpuType]; return ok }
	if len(c.types)+NewTypes(gpus, known) > maxTypes {
		return tooManyTypes("/gpus")
	}
	if err := c.described.Describe(e.Node(), func() bool { return false }); err != nil {
		return err
	}
	for i := range gpus {
		if err := c.gpuJoined(nowUs, &gpus[i]); err != nil {
			return err // it was checked above
		}
	}
	return nil
}

// nodeLeft takes all GPUs of a node out of service and forgets the node.
func (c *core) nodeLeft(nowUs int64, e *hare.Event) *hare.InvalidError {
	name, err := LeavingNode(e, c.nodeInService)
	if err != nil {
		return err
	}
	for g := range c.gpus {
		if x := &c.gpus[g]; x.name != "" && placement.NodeName(x.name) == name {
			if err := c.gpuLeft(nowUs, &hare.Event{GPU: x.name}); err != nil {
				return err // it was found above
			}
		}
	}
	c.described.Forget(name)
	return nil
}

// adoptOnNodes applies recorded starts of n tasks of a job where the core goes by nodes.
func (c *core) adoptOnNodes(ji int32, starts []hare.Decision) error {
	j := &c.jobs[ji]
	var gpus []int
	var kinds uint64
	for i := range starts {
		d := &starts[i]
		if err := c.checkStart(j, d); err != nil {
			return err
		}
		if j.ready() <= int64(i) || d.Task != j.lowest()+int64(i) {
			return notNext(j, d)
		}
		for _, name := range d.GPUs() {
			g, err := c.checkFree(j, name)
			if err != nil {
				return err
			}
			if slices.Contains(gpus, int(g)) {
				return notFree(name)
			}
			kinds |= 1 << c.gpus[g].kind
			gpus = append(gpus, int(g))
		}
		if int64(len(gpus)) != int64(i+1)*j.taskGPUs {
			return wrongGPUs(j)
		}
	}
	if len(starts) > 1 && !j.mix && bits.OnesCount64(kinds) > 1 {
		return severalTypes(j)
	}
	if reason := c.nodes.Check(c.shapeOf(j), gpus); reason != "" {
		return notAllowed(j, reason)
	}
	if c.claim.job == ji {
		c.claim = nodeClaim{job: none}
	}
	for len(gpus) > 0 {
		c.startTaskOn(ji, gpus[:j.taskGPUs])
		gpus = gpus[j.taskGPUs:]
	}
	return nil
}

// A core with quotas goes by nodes, and package placement counts what the jobs of each quota
// hold. A job that waits for a quota alone has no nodes kept for it, and no later job that the
// quota counts passes it; jobs of other users do.

// setQuota replaces a quota. It takes O(jobs + GPUs).
func (c *core) setQuota(nowUs int64, e *hare.Event) *hare.InvalidError {
	if err := CheckNewQuota(e, c.quotas); err != nil {
		return err
	}
	c.advance(nowUs)
	c.ungatherAll()
	ready := make([]bool, len(c.jobs))
	for i := range c.jobs {
		if c.jobs[i].alive {
			ready[i] = c.readyAt[i] >= 0
			c.leave(int32(i))
			c.leaveClass(int32(i))
		}
	}
	c.quotas = WithQuota(c.quotas, e.Quota())
	c.nodes, c.claim = nil, nodeClaim{job: none}
	if c.placedJobs > 0 || len(c.quotas) > 0 {
		c.goByNodes()
	}
	for i := range c.jobs {
		if !c.jobs[i].alive {
			continue
		}
		c.joinClass(int32(i))
		if ready[i] {
			c.enter(int32(i))
		}
	}
	return nil
}

// ungatherAll gives all types free that are gathered for a job.
func (c *core) ungatherAll() {
	for i := range c.types {
		if ji := c.types[i].owner; ji != none {
			c.ungather(&c.jobs[ji])
			c.enter(ji)
		}
	}
}

// lacking are the quotas that have no room for a start of a job which nodes have room for when
// they are empty; nil where the quotas have room, or nodes never do.
func (c *core) lacking(j *job) []int32 {
	if len(c.quotas) == 0 || j.rules == nil {
		return nil
	}
	return c.nodes.LackingForStart(j.shape, j.kinds(), j.atOnce(), j.mix)
}

// close lets nothing start that some quotas count.
func (c *core) close(quotas []int32) {
	for _, q := range quotas {
		c.nodes.CloseQuota(q)
	}
}

// dropHeldClaim gives the nodes free that are kept for a job which a quota holds back.
func (c *core) dropHeldClaim() {
	if ji := c.claim.job; ji != none && len(c.lacking(&c.jobs[ji])) > 0 {
		c.claim = nodeClaim{job: none}
	}
}

// keepQuotas keeps GPUs of the quotas of a job for which nodes are kept.
func (c *core) keepQuotas(j *job) {
	if j.rules != nil {
		c.nodes.KeepQuotas(j.shape, j.kinds(), j.atOnce())
	}
}

// checkProgress checks what a job that arrives says of its progress, and finds its GPUs.
func (c *core) checkProgress(a *hare.Job) (gpus []int, err *hare.InvalidError) {
	return placement.CheckRunning(a, func(name string) placement.Found {
		g, ok := c.gpuOf[name]
		if !ok {
			return placement.Found{}
		}
		x := &c.gpus[g]
		found := placement.Found{GPU: int(g), Type: c.types[x.kind].name, Here: true, Held: x.job != none}
		if found.Held {
			found.By = c.jobs[x.job].id
		}
		return found
	}, func() *placement.Nodes {
		if c.nodes != nil {
			return c.nodes
		}
		return c.described.Nodes(len(c.gpus), c.gpuAt)
	})
}

// resume starts the round of a job that runs when it arrives, without a decision.
func (c *core) resume(ji int32, gpus []int, elapsedUs int64) {
	j := &c.jobs[ji]
	for len(gpus) > 0 {
		if j.active == 0 {
			c.execute(ji)
		}
		task := j.take()
		for i, g := range gpus[:j.taskGPUs] {
			c.hold(ji, int32(g), task)
			x := &c.gpus[g]
			x.follows, x.ended, x.sinceUs = i > 0, i > 0, c.nowUs-elapsedUs
		}
		if c.nodes != nil {
			c.nodes.Hold(gpus[0], c.shapeOf(j), 1)
		}
		gpus = gpus[j.taskGPUs:]
	}
}

// A core keeps of the levels of a job (docs/reference/model.md) what its places depend on: within, and at which
// finer levels a round is shorter. Which tasks are faster where is measured by their ends.

// addLevels notes the levels at which places for a job are chosen, from fine to coarse, of which the
// last is within.
func (c *core) addLevels(rules *hare.Job, names []string) {
	if len(names) == 0 {
		return
	}
	if rules.Within = names[len(names)-1]; rules.Within == hare.LevelAny {
		rules.Within = ""
	}
	if len(names) == 1 {
		return
	}
	p := hare.Profile{Type: "-", ComputeUs: 1}
	for i, name := range names {
		p.SyncAt = append(p.SyncAt, hare.LevelSync{Level: name, SyncUs: int64(i)})
		p.SyncUs = int64(i)
	}
	slices.SortFunc(p.SyncAt, func(a, b hare.LevelSync) int { return strings.Compare(a.Level, b.Level) })
	rules.On = []hare.Profile{p}
}

// levelsOf are the names that addLevels was given.
func (c *core) levelsOf(rules *hare.Job) []string {
	if rules == nil || !placement.UsesLevels(rules) {
		return nil
	}
	return placement.LevelNames(c.described.Topology(), rules)
}

// syncWithin is the longest time of synchronisation of a job on a type.
func (c *core) syncWithin(a *hare.Job, p *hare.Profile) int64 {
	lv := hare.NewLevels(&hare.Cluster{Topology: c.described.Topology()})
	within, _ := lv.Index(a.Within)
	return lv.SyncUs(p, within)
}
