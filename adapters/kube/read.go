package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/history"
)

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
