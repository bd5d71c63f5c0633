package brute

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"

	"github.com/hare-sched/hare"
)

// Field is a field of an instance that RandomFields may use, or some that have a meaning only
// together.
type Field struct {
	Name string // as in the document, or objective, to which the value is added
	add  func(*fieldDraw)
}

// Fields are the fields of docs/reference/model.md, in the order in which RandomFields adds them.
var Fields = []Field{
	{"gpus", (*fieldDraw).addTypes},
	{"in_service_s", (*fieldDraw).addWindows},
	{"busy", (*fieldDraw).addBusy},
	{"gpus_per_task", (*fieldDraw).addTaskGPUs},
	{"cpus", (*fieldDraw).addCPUs},
	{"memory_mib", (*fieldDraw).addMemory},
	{"mix", (*fieldDraw).addMix},
	{"distinct_nodes", (*fieldDraw).addDistinct},
	{"only", (*fieldDraw).addOnly},
	{"exclude", (*fieldDraw).addExclude},
	{"within", (*fieldDraw).addWithin},
	{"sync_s", (*fieldDraw).addSpread},
	{"reservations", (*fieldDraw).addReservations},
	{"quota", (*fieldDraw).addQuotas},
	{"rounds_done", (*fieldDraw).addRoundsDone},
	{"progress", (*fieldDraw).addRunning},
	{"after", (*fieldDraw).addAfter},
	{"deadline_s", (*fieldDraw).addDeadlines},
	{"jct_and_tardiness", func(d *fieldDraw) { d.inst.Objective = hare.ObjectiveJCTAndTardiness }},
	{"makespan", func(d *fieldDraw) { d.inst.Objective = hare.ObjectiveMakespan }},
	{"switch_s", (*fieldDraw).addSwitch},
	{"shapes", (*fieldDraw).addShapes},
	{"reshape_s", (*fieldDraw).addReshape},
	{"durations", (*fieldDraw).addDurations},
}

// fieldDraw is an instance to which fields are added.
type fieldDraw struct {
	*rand.Rand
	inst *hare.Instance
	mixedFields
}

// maxUnits bounds what RandomFields leaves to be placed, so that all schedules can be tried.
const maxUnits = 7

// RandomFields returns a tiny valid instance and the names of its fields in Fields: mostly two or
// three of them, sometimes more, and sometimes nearly all. Some instances have no schedule.
func RandomFields(r *rand.Rand) (*hare.Instance, []string) {
	for {
		share := 0.0
		switch x := r.IntN(20); {
		case x < 14:
			share = 2.5 / float64(len(Fields))
		case x < 17:
			share = 0.25
		default:
			share = 0.85
		}
		inst, names := drawFields(r, func(string) bool { return r.Float64() < share })
		if len(names) > 0 && units(inst) <= maxUnits {
			return inst, names
		}
	}
}

// RandomWith returns a tiny valid instance with one field at least, and some others.
func RandomWith(r *rand.Rand, field string) *hare.Instance {
	for {
		inst, names := drawFields(r, func(name string) bool { return name == field || r.IntN(8) == 0 })
		if slices.Contains(names, field) && units(inst) <= maxUnits {
			return inst
		}
	}
}

// drawFields returns an instance with the fields that pick chooses. A field that makes the instance
// invalid is left out, a field that the instance has no use for is, too, and mostly a field with
// which there is no schedule.
func drawFields(r *rand.Rand, pick func(name string) bool) (*hare.Instance, []string) {
	inst := plainInstance(r)
	var names []string
	var held []string
	for _, f := range Fields {
		if !pick(f.Name) {
			continue
		}
		for range 4 {
			d := &fieldDraw{r, Clone(inst), mixedFields{held: slices.Clone(held)}}
			f.add(d)
			d.inst.SettleLevels()
			if reflect.DeepEqual(d.inst, inst) || d.inst.Validate() != nil || r.IntN(16) > 0 && !fits(d.inst) {
				continue
			}
			inst, held = d.inst, d.held
			names = append(names, f.Name)
			break
		}
	}
	return inst, names
}

// fits reports whether a schedule is soon found.
func fits(inst *hare.Instance) bool {
	_, plan, _ := Reading{}.search(inst, 300, true)
	return plan != nil
}

// plainInstance has one to three nodes of a type each, and one to three jobs.
func plainInstance(r *rand.Rand) *hare.Instance {
	inst := &hare.Instance{Objective: hare.ObjectiveWeightedJCT}
	types := []string{"A", "B"}[:1+r.IntN(3)/2]
	left := 5 // GPUs
	for i := range 1 + r.IntN(3) {
		count := min(left, 1+r.IntN(3))
		left -= count - 1
		inst.Cluster.Nodes = append(inst.Cluster.Nodes, hare.Node{Name: fmt.Sprintf("n%d", i),
			GPUs: []hare.TypeCount{{Type: types[min(i, r.IntN(len(types)))], Count: count}}})
	}
	for i := range 1 + r.IntN(3) {
		j := hare.Job{ID: fmt.Sprintf("j%d", i), WeightMicro: int64(r.IntN(4)) * 1_000_000,
			Rounds: int64(1 + r.IntN(3)*r.IntN(2)), Tasks: int64(1 + r.IntN(3)), Sync: hare.Sync(r.IntN(3))}
		if r.IntN(3) == 0 {
			j.ReleaseUs = int64(r.IntN(5)) * tick / 2
		}
		for _, t := range types {
			if len(j.On) > 0 && r.IntN(5) == 0 {
				continue
			}
			p := hare.Profile{Type: t, ComputeUs: int64(1+r.IntN(3)) * tick}
			if r.IntN(2) == 0 {
				p.SyncUs = int64(1+r.IntN(4)) * tick / 2
			}
			j.On = append(j.On, p)
		}
		if j.Tasks = min(j.Tasks, int64(countOf(inst, j.On[0].Type))); j.Tasks == 0 {
			j.Tasks = 1
		}
		inst.Jobs = append(inst.Jobs, j)
	}
	return inst
}

// countOf returns how many GPUs of a type there are.
func countOf(inst *hare.Instance, kind string) (sum int) {
	for _, n := range inst.Cluster.Nodes {
		for _, g := range n.GPUs {
			if g.Type == kind {
				sum += g.Count
			}
		}
	}
	return sum
}

// units counts what OptimumOnNodes places one by one: tasks of relaxed jobs, rounds of gangs and
// rigid jobs, in the shape of the most.
func units(inst *hare.Instance) (sum int64) {
	for i := range inst.Jobs {
		j := &inst.Jobs[i]
		_, first := running(inst, j)
		most := int64(0)
		for x := range j.ShapeCount() {
			s := j.Shape(x)
			n := roundsOf(&s, j.Rounds-first)
			switch j.Sync {
			case hare.Relaxed:
				n *= s.Tasks
			case hare.Rigid:
				n = min(n, 1)
			}
			most = max(most, n)
		}
		sum += most
	}
	return sum
}

// node returns a node, and job a job.
func (d *fieldDraw) node() *hare.Node {
	return &d.inst.Cluster.Nodes[d.IntN(len(d.inst.Cluster.Nodes))]
}
func (d *fieldDraw) job() *hare.Job { return &d.inst.Jobs[d.IntN(len(d.inst.Jobs))] }

// together returns a gang or rigid job; a relaxed one becomes a gang if there is no other.
func (d *fieldDraw) together() *hare.Job {
	for range 8 {
		if j := d.job(); j.Sync != hare.Relaxed {
			return j
		}
	}
	j := d.job()
	j.Sync = hare.Gang
	return j
}

func (d *fieldDraw) some(f func(j *hare.Job)) {
	f(d.job())
	for i := range d.inst.Jobs {
		if d.IntN(3) == 0 {
			f(&d.inst.Jobs[i])
		}
	}
}

// addTypes adds a GPU of another type to a node.
func (d *fieldDraw) addTypes() {
	n := d.node()
	other := map[string]string{"A": "B", "B": "A"}[n.GPUs[0].Type]
	n.GPUs = append(n.GPUs[:1:1], hare.TypeCount{Type: other, Count: 1 + d.IntN(2)})
	slices.SortFunc(n.GPUs, func(a, b hare.TypeCount) int { return int(a.Type[0]) - int(b.Type[0]) })
	d.some(func(j *hare.Job) {
		if len(j.On) == 1 && j.On[0].Type == "A" {
			j.On = append(j.On, hare.Profile{Type: "B", ComputeUs: int64(1+d.IntN(3)) * tick, SyncUs: j.On[0].SyncUs})
		}
	})
}

func (d *fieldDraw) addWindows() {
	n := d.node()
	at := int64(1+d.IntN(4)) * tick
	switch d.IntN(3) {
	case 0:
		n.Windows = []hare.Window{{EndUs: at}, {StartUs: at + int64(1+d.IntN(2))*tick, EndUs: hare.Forever}}
	case 1:
		n.Windows = []hare.Window{{StartUs: at, EndUs: hare.Forever}}
	case 2:
		n.Windows = []hare.Window{{EndUs: 2 * at}}
	}
}

func (d *fieldDraw) addBusy() {
	n := d.node()
	n.Busy = []hare.Busy{{GPU: d.IntN(int(n.GPUCount())), UntilUs: int64(1+d.IntN(3)) * tick}}
}

func (d *fieldDraw) addTaskGPUs() {
	d.some(func(j *hare.Job) {
		j.GPUsPerTask = int64(2 + d.IntN(6)/5)
		j.Tasks = min(j.Tasks, max(1, int64(countOf(d.inst, j.On[0].Type))/j.GPUsPerTask))
	})
}

func (d *fieldDraw) addCPUs() {
	d.node().CPUMilli = int64(1+d.IntN(4)) * 1000
	for i := range d.inst.Cluster.Nodes {
		if n := &d.inst.Cluster.Nodes[i]; d.IntN(2) == 0 {
			n.CPUMilli = int64(1+d.IntN(4)) * 1000
		}
	}
	d.some(func(j *hare.Job) { j.CPUMilliPerTask = int64(1+d.IntN(3)) * 500 })
}

func (d *fieldDraw) addMemory() {
	d.node().MemoryMiB = int64(1 + d.IntN(4))
	for i := range d.inst.Cluster.Nodes {
		if n := &d.inst.Cluster.Nodes[i]; d.IntN(2) == 0 {
			n.MemoryMiB = int64(1 + d.IntN(4))
		}
	}
	d.some(func(j *hare.Job) { j.MemoryMiBPerTask = int64(1 + d.IntN(2)) })
}

func (d *fieldDraw) addMix() {
	j := d.together()
	j.Sync, j.Mix, j.Tasks = hare.Gang, true, max(2, j.Tasks)
}

func (d *fieldDraw) addDistinct() {
	j := d.together()
	j.DistinctNodes, j.Tasks = true, int64(1+d.IntN(min(3, len(d.inst.Cluster.Nodes))))
}

// addLabels gives each node one of two values of a label, unless it has one.
func (d *fieldDraw) addLabels(label string, values ...string) {
	for i := range d.inst.Cluster.Nodes {
		n := &d.inst.Cluster.Nodes[i]
		if _, ok := n.Label(label); ok {
			continue
		}
		n.Labels = append(n.Labels, hare.Label{Name: label, Value: values[d.IntN(len(values))]})
		slices.SortFunc(n.Labels, func(a, b hare.Label) int {
			if a.Name < b.Name {
				return -1
			}
			return 1
		})
	}
}

// selector returns a condition that some nodes match.
func (d *fieldDraw) selector() []hare.LabelValues {
	if d.IntN(2) == 0 {
		return []hare.LabelValues{{Label: hare.LabelNode, Values: []string{d.node().Name}}}
	}
	d.addLabels("disk", "hdd", "nvme")
	return []hare.LabelValues{{Label: "disk", Values: []string{[]string{"hdd", "nvme"}[d.IntN(2)]}}}
}

func (d *fieldDraw) addOnly()    { d.job().Only = d.selector() }
func (d *fieldDraw) addExclude() { d.job().Exclude = d.selector() }

// addTopology gives the nodes racks, and sometimes zones.
func (d *fieldDraw) addTopology() []string {
	if d.inst.Cluster.Topology == nil {
		d.inst.Cluster.Topology = [][]string{{"rack"}, {"zone", "rack"}, {"zone", "rack"}}[d.IntN(3)]
		d.addLabels("rack", "r", "s")
		d.addLabels("zone", "e", "w")
	}
	return LevelNames(d.inst)
}

func (d *fieldDraw) addWithin() {
	names := d.addTopology()
	j := d.together()
	j.Within, j.Tasks = names[d.IntN(len(names)-1)], max(2, j.Tasks)
}

func (d *fieldDraw) addSpread() {
	names := d.addTopology()
	j := d.together()
	j.Tasks = max(2, j.Tasks)
	for x := range j.On {
		randomSpread(d.Rand, names, &j.On[x])
	}
}

// addUser gives a job a user, and returns the user.
func (d *fieldDraw) addUser(j *hare.Job) string {
	user := []string{"ann", "bob"}[d.IntN(2)]
	if !slices.Contains(j.Users, user) {
		j.Users = append(j.Users, user)
		slices.Sort(j.Users)
	}
	return user
}

func (d *fieldDraw) addReservations() {
	for range 1 + d.IntN(3)/2 {
		from := int64(d.IntN(8)) * tick / 2
		v := hare.Reservation{FromUs: from, UntilUs: from + int64(1+d.IntN(6))*tick/2}
		if d.IntN(3) > 0 {
			v.Nodes = d.selector()
		}
		if d.IntN(3) == 0 {
			v.Users = []string{d.addUser(d.job())}
		}
		if d.IntN(3) == 0 {
			v.Jobs = []string{d.job().ID}
		}
		d.inst.Cluster.Reservations = append(d.inst.Cluster.Reservations, v)
	}
}

func (d *fieldDraw) addQuotas() {
	for range 1 + d.IntN(3)/2 {
		q := hare.Quota{GPUs: int64(1 + d.IntN(4))}
		d.some(func(j *hare.Job) { q.User = d.addUser(j) })
		if d.IntN(3) == 0 {
			q.Types = []string{[]string{"A", "B"}[d.IntN(2)]}
		}
		d.inst.Quota = append(d.inst.Quota, q)
	}
}

func (d *fieldDraw) addRoundsDone() {
	j := d.job()
	j.Rounds = max(2, j.Rounds)
	j.Progress = &hare.Progress{RoundsDone: 1 + d.Int64N(j.Rounds-1)}
}

func (d *fieldDraw) addRunning() {
	for range 1 + d.IntN(2) {
		j := d.together()
		if j.Running() {
			continue
		}
		if d.IntN(2) == 0 {
			j.Rounds++
		}
		d.run(d.Rand, d.inst, j)
	}
}

func (d *fieldDraw) addAfter() {
	for range 1 + d.IntN(2) {
		if len(d.inst.Jobs) < 2 {
			return
		}
		i := 1 + d.IntN(len(d.inst.Jobs)-1)
		p := hare.Predecessor{Job: d.inst.Jobs[d.IntN(i)].ID}
		if d.IntN(2) == 0 {
			p.LagUs = int64(1+d.IntN(3)) * tick / 2
		}
		j := &d.inst.Jobs[i]
		if slices.ContainsFunc(j.After, func(o hare.Predecessor) bool { return o.Job == p.Job }) {
			continue
		}
		j.After = append(j.After, p)
		slices.SortFunc(j.After, func(a, b hare.Predecessor) int {
			if a.Job < b.Job {
				return -1
			}
			return 1
		})
	}
}

func (d *fieldDraw) addDeadlines() {
	if d.IntN(4) > 0 {
		d.inst.Objective = hare.ObjectiveJCTAndTardiness
	}
	d.some(func(j *hare.Job) {
		j.DeadlineUs, j.LateWeightMicro = int64(1+d.IntN(12))*tick/2, int64(d.IntN(4))*1_000_000
	})
}

func (d *fieldDraw) addSwitch() {
	d.some(func(j *hare.Job) {
		for x := range j.On {
			j.On[x].SwitchUs = int64(1+d.IntN(4)) * tick / 2
		}
	})
}

func (d *fieldDraw) addShapes() {
	if j := d.job(); j.Shapes == nil {
		for j.Shapes == nil {
			addShapes(d.Rand, j)
		}
		j.Reshape, j.ReshapeUs = false, 0
	}
}

func (d *fieldDraw) addReshape() {
	j := d.job()
	shaped := func(j hare.Job) bool { return j.Shapes != nil && j.Sync == hare.Gang }
	if i := slices.IndexFunc(d.inst.Jobs, shaped); i >= 0 {
		j = &d.inst.Jobs[i]
	} else if j.Shapes == nil {
		for j.Sync = hare.Gang; j.Shapes == nil; {
			addShapes(d.Rand, j)
		}
	}
	j.Reshape, j.ReshapeUs = true, int64(d.IntN(4)/2*d.IntN(3))*tick/2
	if j.Rounds += 1 - j.Rounds%2; !j.Running() {
		j.Shapes[0].Counts, j.Shapes[1].Counts = 2, 1
	}
}

func (d *fieldDraw) addDurations() {
	d.some(func(j *hare.Job) {
		short, often := []int64{500_000, 1_000_000}[d.IntN(2)], 250_000*int64(1+d.IntN(3))
		j.Durations = []hare.Duration{{Micro: often, FactorMicro: short}, {Micro: 1_000_000 - often, FactorMicro: 3 * short}}
	})
}
