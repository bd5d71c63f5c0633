package kube

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hare-sched/hare"
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
	whole       history.Demand // of the empty node
	amounts     map[string]history.Quantity
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
	h.report = &history.Report{}
	h.counted.Unread, h.counted.NodesLeftOut = 0, 0
	defer h.tellUnread()
	nodes, _, err := list[node](ctx, h.api, nodesPath, h.report)
	if err != nil {
		return nil, err
	}
	pods, podsVersion, err := list[pod](ctx, h.api, podsPath, h.report)
	if err != nil {
		return nil, err
	}
	jobs, jobsVersion, err := list[job](ctx, h.api, jobsPath, h.report)
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

// tellUnread counts the values that could not be read, and logs each kind of them once.
func (h *Helper) tellUnread() {
	h.counted.Unread += h.report.Unread()
	for _, n := range h.report.SetAside {
		if !h.warned[n.What] {
			h.warned[n.What] = true
			h.cfg.Logger.Warn("a value cannot be read, and is left aside", "what", n.What, "first", n.First)
		}
	}
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
		if r := h.room(&nodes[i]); r != nil {
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

// room reads a node; nil where it takes no pods with GPUs. A node whose GPUs are shared under the name of whole ones
// is left out: how much of a GPU a pod gets there is for others to say.
func (h *Helper) room(n *node) *room {
	ready := slices.IndexFunc(n.Status.Conditions, func(c condition) bool { return c.Type == "Ready" })
	if n.Spec.Unschedulable || ready >= 0 && n.Status.Conditions[ready].Status != "True" ||
		n.Metadata.DeletionTimestamp != nil {
		return nil
	}
	gpuType := n.Metadata.Labels[h.cfg.TypeLabel]
	r := &room{name: n.Metadata.Name, gpuType: gpuType, labels: n.Metadata.Labels, podsFree: 1 << 30,
		amounts: n.Status.Allocatable}
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
	if r.gpus == 0 || gpuType == "" {
		return nil // without the label no type can be chosen
	}
	if r.gpus > hare.MaxGPUs || history.SharesGPUs(n.Status.Allocatable, n.Metadata.Labels, n.Metadata.Annotations,
		gpuType) {
		h.counted.NodesLeftOut++
		return nil
	}
	for _, t := range n.Spec.Taints {
		if t.Effect != "PreferNoSchedule" {
			r.taints = append(r.taints, t)
		}
	}
	slices.SortFunc(r.taints, func(a, b taint) int { return strings.Compare(a.String(), b.String()) })
	r.free.GPUs = r.gpus
	r.whole = r.free
	return r
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
	case j.unread:
		return unreadValue
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

// unreadValue is why a Job is left alone of which the helper does not know all.
const unreadValue = "has a value that cannot be read"

// unclearRule begins the reasons of which the helper cannot tell whether a Job fits.
const unclearRule = "has "

// takesPart reports whether a Job's user or the operator opted in.
func (h *Helper) takesPart(j *job) bool {
	return j.Metadata.Annotations[ManagedAnnotation] == "true" ||
		j.work != nil && j.work.managed || slices.Contains(h.cfg.Namespaces, j.Metadata.Namespace)
}

func (s *state) room(name string) *room {
	byName := func(r *room, name string) int { return strings.Compare(r.name, name) }
	i, ok := slices.BinarySearchFunc(s.nodes, name, byName)
	if !ok {
		return nil
	}
	return s.nodes[i]
}
