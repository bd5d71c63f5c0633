package kube

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// state is what the API server says at one time.
type state struct {
	nowUs int64
	nodes []*room           // in service and with GPUs, by name
	jobs  []*job            // that have not ended, with GPUs, the oldest first
	over  []*job            // that have ended
	pods  map[string][]*pod // by job.podsUID, those that have not ended
	done  map[string]int64  // by job.podsUID, how many have succeeded
	alone []*pod            // with GPUs, of no Job
	// floating are pods with GPUs, of no Job, that wait for a node.
	floating []*pod
	flights  []*flight
	// waiting are the jobs of jobs that may be let go, by the ID that the session knows.
	waiting map[string]*job
	// left says why suspended Jobs that asked to take part are left alone, by reason.
	left      map[string]int
	unordered map[*clusterQueue]bool // of Result.Unordered
	// roots maps the UID of each Job to that of the object that owns it, such as a JobSet.
	roots map[string]string
}

// room is a node with what is free on it.
type room struct {
	name, gpuType         string
	labels                map[string]string
	taints                []taint
	gpus                  int64 // of the whole node
	free                  history.Demand
	podsFree              int64
	cpuKnown, memoryKnown bool
	// settled and settledPods are what is free beside the pods that are bound.
	settled     history.Demand
	settledPods int64
}

// held is what a pod needs of a node.
func held(s *podSpec) history.Demand { return s.Demand() }

// fits is how many pods of a kind the node has room for.
func (r *room) fits(d history.Demand) int64 {
	n := r.podsFree
	for _, x := range []struct {
		need, free int64
		known      bool
	}{{d.GPUs, r.free.GPUs, true}, {d.CPUMilli, r.free.CPUMilli, r.cpuKnown},
		{d.MemoryMiB, r.free.MemoryMiB, r.memoryKnown}} {
		if x.need > 0 && x.known {
			n = min(n, x.free/x.need)
		}
	}
	return max(0, n)
}

func (r *room) take(d history.Demand, n int64) {
	r.free.GPUs -= d.GPUs * n
	r.free.CPUMilli -= d.CPUMilli * n
	r.free.MemoryMiB -= d.MemoryMiB * n
	r.podsFree -= n
}

// Paths of the lists that are read.
const (
	nodesPath = "/api/v1/nodes"
	podsPath  = "/api/v1/pods"
	jobsPath  = "/apis/batch/v1/jobs"
)

// read asks the API server for nodes, pods and Jobs, and under Kueue for its objects. It only reads.
func (h *Helper) read(ctx context.Context) (*state, error) {
	nodes, _, err := list[node](ctx, h.api, nodesPath)
	if err != nil {
		return nil, err
	}
	pods, podsVersion, err := list[pod](ctx, h.api, podsPath)
	if err != nil {
		return nil, err
	}
	jobs, jobsVersion, err := list[job](ctx, h.api, jobsPath)
	if err != nil {
		return nil, err
	}
	h.versions = map[string]string{podsPath: podsVersion, jobsPath: jobsVersion}
	roots := map[string]string{}
	if h.cfg.Kueue {
		for i := range jobs {
			for _, r := range jobs[i].Metadata.OwnerReferences {
				if r.Controller {
					roots[jobs[i].Metadata.UID] = r.UID
				}
			}
		}
		jobs, err = h.readWorkloads(ctx, nodes, jobs)
	} else {
		jobs, err = h.readSets(ctx, jobs, roots)
	}
	if err != nil {
		return nil, err
	}
	return h.arrange(nodes, pods, jobs, roots)
}

// Wait waits for a time, or until a Job or a pod has changed since the last reading, and then for settle, in
// which further changes come together. Where the API server does not tell changes, Wait waits for the
// whole time. It returns false where ctx has ended.
func (h *Helper) Wait(ctx context.Context, longest, settle time.Duration) bool {
	w, ok := h.api.(Watcher)
	whole := time.NewTimer(longest)
	defer whole.Stop()
	changed := make(chan struct{}, len(h.versions))
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for path, version := range h.versions {
		if ok && version != "" && settle > 0 {
			go func() {
				if w.Changed(watching, path, version) == nil {
					changed <- struct{}{}
				}
			}()
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-whole.C:
		return true
	case <-changed:
	}
	gather := time.NewTimer(min(settle, longest))
	defer gather.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-gather.C:
		return true
	}
}

// arrange makes a state of what was read.
func (h *Helper) arrange(nodes []node, pods []pod, jobs []job, roots map[string]string) (*state, error) {
	s := &state{nowUs: h.now().UnixMicro(), pods: map[string][]*pod{}, done: map[string]int64{},
		waiting: map[string]*job{}, left: map[string]int{}, roots: roots,
		unordered: map[*clusterQueue]bool{}}
	rooms := map[string]*room{}
	for i := range nodes {
		r, err := h.room(&nodes[i])
		if err != nil {
			return nil, err
		}
		if r != nil {
			rooms[r.name] = r
			s.nodes = append(s.nodes, r)
		}
	}
	slices.SortFunc(s.nodes, func(a, b *room) int { return strings.Compare(a.name, b.name) })
	byUID := map[string]*job{}
	for i := range jobs {
		j := &jobs[i]
		switch d := held(&j.Spec.Template.Spec); {
		case d.GPUs == 0:
		case d.GPUs > hare.MaxGPUs || max(1, j.pods()) > hare.MaxGPUs/d.GPUs:
			// One user's Job must not stop the others'. Its pods, where it has any, count by themselves.
			if j.Spec.Suspend && h.takesPart(j) {
				s.left[fmt.Sprintf("asks for more than %d GPUs", hare.MaxGPUs)]++
			}
		case j.ended():
			s.over = append(s.over, j)
		case j.sets != nil && j.sets.why != "":
			// Its pods are not all alike, or not there at the same time: they count by themselves.
			if j.Spec.Suspend {
				s.jobs = append(s.jobs, j)
			}
		default:
			byUID[j.podsUID()] = j
			s.jobs = append(s.jobs, j)
		}
	}
	slices.SortStableFunc(s.jobs, func(a, b *job) int { return before(&a.Metadata, &b.Metadata) })
	for i := range pods {
		p := &pods[i]
		if p.over() {
			if p.Status.Phase == "Succeeded" && held(&p.Spec).GPUs > 0 {
				s.done[s.owner(p)]++
			}
			continue
		}
		d := held(&p.Spec)
		if r := rooms[p.Spec.NodeName]; r != nil {
			r.take(d, 1)
		}
		switch owner := byUID[s.owner(p)]; {
		case owner != nil && d.GPUs > 0: // others, such as a master's, are not among job.pods
			s.pods[owner.podsUID()] = append(s.pods[owner.podsUID()], p)
		case d.GPUs > 0 && p.Spec.NodeName != "":
			s.alone = append(s.alone, p)
		case d.GPUs > 0 && len(p.Spec.SchedulingGates) == 0 && p.Metadata.DeletionTimestamp == nil:
			s.floating = append(s.floating, p)
		}
	}
	for _, r := range s.nodes {
		r.settled, r.settledPods = r.free, r.podsFree
	}
	slices.SortStableFunc(s.alone, func(a, b *pod) int { return before(&a.Metadata, &b.Metadata) })
	return s, nil
}

// owner is the UID of the job that a pod belongs to, and not of a Job that this has made.
func (s *state) owner(p *pod) string {
	owner := p.owner()
	if root, ok := s.roots[owner]; ok {
		return root
	}
	return owner
}

// room reads a node; nil where it takes no pods with GPUs.
func (h *Helper) room(n *node) (*room, error) {
	ready := slices.IndexFunc(n.Status.Conditions, func(c condition) bool { return c.Type == "Ready" })
	if n.Spec.Unschedulable || ready >= 0 && n.Status.Conditions[ready].Status != "True" ||
		n.Metadata.DeletionTimestamp != nil {
		return nil, nil
	}
	gpuType := n.Metadata.Labels[h.cfg.TypeLabel]
	r := &room{name: n.Metadata.Name, gpuType: gpuType, labels: n.Metadata.Labels, podsFree: 1 << 30}
	for name, amount := range n.Status.Allocatable {
		switch {
		case history.IsGPU(name):
			r.gpus += amount.Whole()
		case name == "cpu":
			r.free.CPUMilli, r.cpuKnown = int64(amount), true
		case name == "memory":
			r.free.MemoryMiB, r.memoryKnown = amount.MiB(), true
		case name == "pods":
			r.podsFree = amount.Whole()
		}
	}
	if r.gpus > hare.MaxGPUs {
		return nil, fmt.Errorf("node %s: %d GPUs are more than a cluster may have", r.name, r.gpus)
	}
	if r.gpus == 0 || gpuType == "" {
		return nil, nil // without the label no type can be chosen
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != "PreferNoSchedule" {
			r.taints = append(r.taints, t)
		}
	}
	slices.SortFunc(r.taints, func(a, b taint) int { return strings.Compare(a.String(), b.String()) })
	r.free.GPUs = r.gpus
	return r, nil
}

// taintsLabel is the label by which a session tells nodes apart whose taints differ.
const taintsLabel = "hare.taints"

// taintsValue names a set of taints; "none" for none.
func taintsValue(taints []taint) string {
	if len(taints) == 0 {
		return "none"
	}
	f := fnv.New64a()
	for _, t := range taints {
		_, _ = f.Write([]byte(t.String() + "\n"))
	}
	return strconv.FormatUint(f.Sum64(), 36)
}

// whyNot says why the helper does not let a suspended Job go; "" where it may.
func (h *Helper) whyNot(s *state, j *job) string {
	if j.work != nil {
		return h.whyNotWorkload(s, j)
	}
	m := &j.Metadata
	switch {
	case m.DeletionTimestamp != nil:
		return "is being deleted"
	case m.Labels[kueueQueueLabel] != "":
		return "is in a queue of Kueue, which starts it"
	case j.Spec.ManagedBy != "" && j.Spec.ManagedBy != "kubernetes.io/job-controller":
		return "is managed by " + j.Spec.ManagedBy
	case m.controller() != "" && m.controller() != "CronJob":
		return "belongs to a " + m.controller() + ", which starts it"
	case m.Annotations[StartedAnnotation] != "":
		return "was let go before, and somebody has suspended it: without the annotation " + StartedAnnotation +
			" it takes part again"
	case m.Annotations[HoldAnnotation] != "":
		return "is held by the annotation " + HoldAnnotation
	case len(s.pods[j.podsUID()]) > 0:
		return "has been suspended, and its pods are still there"
	case len(j.Spec.Template.Spec.SchedulingGates) > 0:
		return "has scheduling gates"
	case j.sets != nil && j.sets.why != "":
		return j.sets.why
	case j.pods() < 1:
		return "has a parallelism of 0"
	}
	if j.Spec.Completions != nil && j.Spec.Parallelism != nil && *j.Spec.Completions > *j.Spec.Parallelism {
		return "runs its pods in turns: completions above parallelism"
	}
	return h.unclear(j)
}

// unclear says which rule of a job's pods the helper does not understand; "" for none.
func (h *Helper) unclear(j *job) string {
	if x := j.Spec.Template.Spec.selects(h.cfg.TypeLabel).unclear; x != "" {
		return unclearRule + x
	}
	if x := j.Spec.Template.Spec.unclear; x != "" {
		return unclearRule + x
	}
	return ""
}

// unclearRule begins the reasons of which the helper cannot tell whether a Job fits.
const unclearRule = "has "

// takesPart says whether a Job's user or the operator opted in.
func (h *Helper) takesPart(j *job) bool {
	return j.Metadata.Annotations[ManagedAnnotation] == "true" ||
		j.work != nil && j.work.managed || slices.Contains(h.cfg.Namespaces, j.Metadata.Namespace)
}

// forSession is the cluster as the session is told it. It also places the pods that wait for a node, of
// jobs that were let go, so that nobody else is given their room.
func (h *Helper) forSession(s *state) *advice.State {
	out := &advice.State{NowUs: s.nowUs}
	used := map[string]bool{}
	for _, j := range s.jobs {
		sel := j.Spec.Template.Spec.selects(h.cfg.TypeLabel)
		for _, labels := range []map[string][]string{sel.only, sel.not} {
			for name := range labels {
				used[name] = true
			}
		}
	}
	for _, r := range s.nodes {
		n := advice.Node{Name: r.name, GPUs: []hare.TypeCount{{Type: r.gpuType, Count: int(r.gpus)}},
			Labels: []hare.Label{{Name: taintsLabel, Value: taintsValue(r.taints)}}}
		for _, name := range slices.Sorted(maps.Keys(used)) {
			if value, ok := r.labels[name]; ok {
				n.Labels = append(n.Labels, hare.Label{Name: name, Value: value})
			}
		}
		out.Nodes = append(out.Nodes, n)
	}
	for _, p := range s.alone {
		out.Jobs = append(out.Jobs, h.podAlone(s, p))
	}
	for _, p := range s.floating {
		if d := held(&p.Spec); h.placeOne(s, &p.Spec, d) != nil {
			s.flights = append(s.flights, &flight{template: &p.Spec, need: d, pods: 1})
		}
	}
	queues := map[*clusterQueue]bool{}
	for _, j := range s.jobs {
		if q := j.clusterQueue(); q != nil && !queues[q] {
			queues[q] = true
			out.Quotas = append(out.Quotas, q.quotas()...)
		}
		if !j.Spec.Suspend || len(s.pods[j.podsUID()]) > 0 {
			for _, one := range h.started(s, j) {
				one.Queue = j.queueUser()
				out.Jobs = append(out.Jobs, one)
			}
			continue
		}
		if !h.takesPart(j) {
			continue
		}
		if why := h.whyNot(s, j); why != "" {
			s.left[why]++
			continue
		}
		spec := h.spec(s, j)
		if spec == nil {
			s.left["fits on no GPU type, even if all nodes were free"]++
			continue
		}
		s.waiting[spec.ID] = j
		out.Jobs = append(out.Jobs, advice.Job{Spec: spec, State: advice.Waiting, Queue: j.queueUser()})
	}
	for _, j := range s.over {
		out.Jobs = append(out.Jobs, advice.Job{Spec: &hare.Job{ID: j.id()}, State: advice.Ended,
			Completed: is(j.Status.Conditions, "Complete"), EndUs: cmp.Or(us(j.Status.CompletionTime), s.nowUs)})
	}
	return out
}

// clusterQueue is the queue of a Workload; nil without Kueue, or where there is none.
func (j *job) clusterQueue() *clusterQueue {
	if j.work == nil {
		return nil
	}
	return j.work.queue
}

// queueUser is clusterQueue.queueUser, or empty.
func (j *job) queueUser() string {
	if q := j.clusterQueue(); q != nil {
		return q.queueUser()
	}
	return ""
}

// podAlone is a pod of nobody's Job, or of another kind of owner, as a job that runs.
func (h *Helper) podAlone(s *state, p *pod) advice.Job {
	g := held(&p.Spec).GPUs
	j := history.Job{ID: "pod:" + p.Metadata.id(), Name: p.Metadata.Name, User: p.Metadata.Namespace, GPUs: g, Nodes: 1}
	if r := s.room(p.Spec.NodeName); r != nil {
		j.Type = r.gpuType
	}
	j.Seconds, _ = history.ParseSeconds(cmp.Or(p.Metadata.Annotations[history.SecondsAnnotation], "{}"))
	return advice.Job{Spec: advice.Spec(&j, s.types(), h.cfg.Speeds), State: advice.Running,
		StartUs: cmp.Or(us(p.Status.StartTime), s.nowUs), On: []history.Held{{Node: p.Spec.NodeName, GPUs: g}}}
}

func (s *state) room(name string) *room {
	byName := func(r *room, name string) int { return strings.Compare(r.name, name) }
	i, ok := slices.BinarySearchFunc(s.nodes, name, byName)
	if !ok {
		return nil
	}
	return s.nodes[i]
}

// types are the GPU types of the nodes in service, sorted.
func (s *state) types() (types []string) {
	for _, r := range s.nodes {
		types = append(types, r.gpuType)
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// started is a job that was let go: one job of the session for each GPU type on which it has pods. Pods
// that have no node yet, or are not made yet, are placed where there is room for them.
func (h *Helper) started(s *state, j *job) (jobs []advice.Job) {
	template := &j.Spec.Template.Spec
	d := held(template)
	on := map[string]map[string]int64{} // GPUs by type and node
	add := func(node string, gpus int64) {
		if r := s.room(node); r != nil { // otherwise the node takes no other jobs
			if on[r.gpuType] == nil {
				on[r.gpuType] = map[string]int64{}
			}
			on[r.gpuType][node] += gpus
		}
	}
	n, startUs := s.done[j.podsUID()], us(j.Status.StartTime)
	flying := int64(0)
	for _, p := range s.pods[j.podsUID()] {
		n++
		if p.Spec.NodeName != "" {
			add(p.Spec.NodeName, held(&p.Spec).GPUs)
			startUs = max(startUs, us(p.Status.StartTime))
		} else if r := h.placeOne(s, template, d); r != nil {
			add(r.name, d.GPUs)
			flying++
		}
	}
	for ; !j.Spec.Suspend && n < j.pods(); n++ { // pods that the Job controller makes soon
		if r := h.placeOne(s, template, d); r != nil {
			add(r.name, d.GPUs)
			flying++
		}
	}
	if flying > 0 {
		s.flights = append(s.flights, &flight{template: template, need: d, pods: flying,
			whole: j.Metadata.Annotations[StartedAnnotation] != ""})
	}
	for _, gpuType := range slices.Sorted(maps.Keys(on)) {
		one := advice.Job{State: advice.Running, StartUs: cmp.Or(startUs, s.nowUs)}
		gpus := int64(0)
		for _, name := range slices.Sorted(maps.Keys(on[gpuType])) {
			one.On = append(one.On, history.Held{Node: name, GPUs: on[gpuType][name]})
			gpus += on[gpuType][name]
		}
		l := h.logged(j)
		if len(on) > 1 {
			l.ID += "#" + gpuType
		}
		one.Spec = tasks(advice.Spec(&l, []string{gpuType}, h.cfg.Speeds), d.GPUs, max(1, gpus/d.GPUs))
		jobs = append(jobs, one)
	}
	return jobs
}

// placeOne takes room for one pod on a node that it may have; nil where there is none.
func (h *Helper) placeOne(s *state, template *podSpec, d history.Demand) *room {
	sel := template.selects(h.cfg.TypeLabel)
	for _, r := range s.nodes {
		if (sel.types == nil || slices.Contains(sel.types, r.gpuType)) && sel.allows(r.labels) &&
			template.tolerated(r.taints) && r.fits(d) > 0 {
			r.take(d, 1)
			return r
		}
	}
	return nil
}

// fitsNow takes room for all pods of a job on nodes of a type, or none, where they and all pods that are
// let go and not bound yet might not find room.
func (h *Helper) fitsNow(s *state, j *job, gpuType string) bool {
	template := &j.Spec.Template.Spec
	d, sel, left := held(template), template.selects(h.cfg.TypeLabel), j.pods()
	taken := map[*room]int64{}
	for _, r := range s.nodes {
		if r.gpuType == gpuType && sel.allows(r.labels) && template.tolerated(r.taints) {
			if n := min(left, r.fits(d)); n > 0 {
				r.take(d, n)
				taken[r] = n
				left -= n
			}
		}
	}
	if left == 0 {
		// The patch sends the pods to the type, whichever others their template allows.
		typed := *template
		typed.NodeSelector = maps.Clone(template.NodeSelector)
		if typed.NodeSelector == nil {
			typed.NodeSelector = map[string]string{}
		}
		typed.NodeSelector[h.cfg.TypeLabel] = gpuType
		s.flights = append(s.flights, &flight{template: &typed, need: d, pods: j.pods(), whole: true})
		if s.safe(h.cfg.TypeLabel, gpuType) {
			return true
		}
		s.flights = s.flights[:len(s.flights)-1]
	}
	for r, n := range taken {
		r.take(d, -n)
	}
	return false
}

// maxLimitS is the longest deadline of a Job that counts: thirty years.
const maxLimitS = 30 * 366 * 24 * 3600

// logged is the job as package history knows jobs.
func (h *Helper) logged(j *job) history.Job {
	d, n := held(&j.Spec.Template.Spec), j.pods()
	out := history.Job{ID: j.id(), Name: j.Metadata.Name, User: j.Metadata.Namespace, GPUs: d.GPUs * n,
		PerTask: d.GPUs, LimitUs: max(0, min(j.Spec.ActiveDeadlineSeconds, maxLimitS)) * 1e6}
	for _, a := range []map[string]string{j.Metadata.Annotations, j.Spec.Template.Metadata.Annotations} {
		if text := a[history.SecondsAnnotation]; text != "" && out.Seconds == nil {
			out.Seconds, _ = history.ParseSeconds(text)
		}
	}
	return out
}

// tasks makes a pod the task of the session's job.
func tasks(spec *hare.Job, gpus, pods int64) *hare.Job {
	if spec == nil {
		return nil
	}
	spec.Tasks, spec.GPUsPerTask, spec.DistinctNodes = pods, 0, false
	if gpus > 1 {
		spec.GPUsPerTask = gpus
	}
	return spec
}

// spec is a waiting job as the session is told it; nil where no node could run it.
func (h *Helper) spec(s *state, j *job) *hare.Job {
	template := &j.Spec.Template.Spec
	sel := template.selects(h.cfg.TypeLabel)
	places, tolerated := map[string]int64{}, map[string]bool{} // places for pods, by type, on empty nodes
	everyTaint := true
	for _, r := range s.nodes {
		switch {
		case !template.tolerated(r.taints):
			everyTaint = false
			continue
		case sel.types != nil && !slices.Contains(sel.types, r.gpuType), !sel.allows(r.labels):
			continue
		}
		tolerated[taintsValue(r.taints)] = true
		places[r.gpuType] += r.gpus / held(template).GPUs
	}
	types := maps.Clone(places)
	maps.DeleteFunc(types, func(gpuType string, n int64) bool { return n < j.pods() || !j.admits(gpuType) })
	l := h.logged(j)
	out := tasks(advice.Spec(&l, slices.Sorted(maps.Keys(types)), h.cfg.Speeds), held(template).GPUs, j.pods())
	if out == nil {
		return nil
	}
	for _, label := range slices.Sorted(maps.Keys(sel.only)) {
		out.Only = append(out.Only, hare.LabelValues{Label: label, Values: sel.only[label]})
	}
	if !everyTaint {
		out.Only = append(out.Only, hare.LabelValues{Label: taintsLabel, Values: slices.Sorted(maps.Keys(tolerated))})
	}
	for _, label := range slices.Sorted(maps.Keys(sel.not)) {
		values := slices.Compact(slices.Sorted(slices.Values(sel.not[label])))
		out.Exclude = append(out.Exclude, hare.LabelValues{Label: label, Values: values})
	}
	slices.SortFunc(out.Only, func(a, b hare.LabelValues) int { return strings.Compare(a.Label, b.Label) })
	return out
}
