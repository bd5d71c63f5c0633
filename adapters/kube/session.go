package kube

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/adapters/advice"
	"github.com/hare-sched/hare/history"
)

// forSession is the cluster as the session gets it. It also places the pods that wait for a node, of
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
			why := "fits on no GPU type, even if all nodes were free"
			if j.Metadata.Annotations[FreedAnnotation] != "" {
				why = "was freed of a GPU type a while ago, and fits on no other"
			}
			s.left[why]++
			continue
		}
		s.waiting[spec.ID] = j
		out.Jobs = append(out.Jobs, advice.Job{Spec: spec, State: advice.Waiting, Queue: j.queueUser(),
			Name: j.Metadata.Name, User: j.Metadata.Namespace})
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
	return advice.Job{Spec: advice.Spec(&j, s.types(), h.cfg.Speeds), State: advice.Running, Name: j.Name, User: j.User,
		StartUs: cmp.Or(us(p.Status.StartTime), s.nowUs), On: []history.Held{{Node: p.Spec.NodeName, GPUs: g}}}
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
		one := advice.Job{State: advice.Running, StartUs: cmp.Or(startUs, s.nowUs), Name: j.Metadata.Name,
			User: j.Metadata.Namespace}
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
	rules := template.rules(h.cfg.TypeLabel)
	for _, r := range s.nodes {
		if r.allowed(rules) && r.fits(d) > 0 {
			r.take(d, 1)
			return r
		}
	}
	return nil
}

// fitsNow takes room for all pods of a job on nodes of a type, or none, where they and all pods that are
// let go and not bound yet might not find room.
func (h *Helper) fitsNow(s *state, j *job, gpuType string) bool {
	// The patch sends the pods to the type, whichever others their template allows.
	typed := j.Spec.Template.Spec
	typed.NodeSelector = maps.Clone(typed.NodeSelector)
	if typed.NodeSelector == nil {
		typed.NodeSelector = map[string]string{}
	}
	typed.NodeSelector[h.cfg.TypeLabel] = gpuType
	if j.work != nil && j.work.queue != nil { // Kueue sends them to the nodes of the flavor
		maps.Copy(typed.NodeSelector, j.work.queue.types[gpuType].labels)
	}
	d, left, rules := held(&typed), j.pods(), typed.rules(h.cfg.TypeLabel)
	taken := map[*room]int64{}
	for _, r := range s.nodes {
		if r.allowed(rules) {
			if n := min(left, r.fits(d)); n > 0 {
				r.take(d, n)
				taken[r] = n
				left -= n
			}
		}
	}
	if left == 0 {
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

// spec is a waiting job as the session gets it; nil where no node could run it.
func (h *Helper) spec(s *state, j *job) *hare.Job {
	template := &j.Spec.Template.Spec
	rules := template.rules(h.cfg.TypeLabel)
	sel := rules.sel
	places, tolerated := map[string]int64{}, map[string]bool{} // places for pods, by type, on empty nodes
	everyTaint := true
	for _, r := range s.nodes {
		switch {
		case !template.tolerated(r.taints):
			everyTaint = false
			continue
		case !r.allowed(rules):
			continue
		}
		tolerated[taintsValue(r.taints)] = true
		places[r.gpuType] += r.gpus / held(template).GPUs
	}
	types := maps.Clone(places)
	maps.DeleteFunc(types, func(gpuType string, n int64) bool {
		return n < j.pods() || !j.admits(gpuType) || j.keptOff(gpuType, h.now())
	})
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
