package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// gangSpreadUs is how far apart pods of one job may begin, and end, that count as one piece of work.
const gangSpreadUs = 60e6

// startUs returns when the pod was bound to its node; 0 if it was not.
func (p *kubePod) startUs() int64 {
	if p.Spec.NodeName == "" {
		return 0
	}
	if c := p.condition("PodScheduled"); c.Status == "True" && us(c.LastTransitionTime) > 0 {
		return us(c.LastTransitionTime)
	}
	return us(p.Status.StartTime)
}

// over says whether the pod has ended.
func (p *kubePod) over() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// endUs returns when the last container of the pod ended; 0 if the pod runs or nothing says when.
func (p *kubePod) endUs() (end int64) {
	if !p.over() {
		return 0
	}
	for i := range p.Status.ContainerStatuses {
		end = max(end, us(p.Status.ContainerStatuses[i].State.Terminated.FinishedAt))
	}
	if c := p.condition("Ready"); end == 0 && c.Status == "False" {
		end = us(c.LastTransitionTime)
	}
	return end
}

// templates returns how many pods of which templates a job has.
func (o *kubeObject) templates() (templates []kubeTemplate, counts []int64) {
	add := func(t kubeTemplate, n int64) {
		templates, counts = append(templates, t), append(counts, max(0, min(n, hare.MaxGPUs)))
	}
	count := func(n *int64) int64 {
		if n == nil {
			return 1
		}
		return *n
	}
	switch o.Kind {
	case "Workload":
		for _, p := range o.Spec.PodSets {
			add(p.Template, p.Count)
		}
	case "JobSet":
		for _, r := range o.Spec.ReplicatedJobs {
			add(r.Template.Spec.Template, min(count(r.Replicas), hare.MaxGPUs)*min(count(r.Template.Spec.Parallelism),
				hare.MaxGPUs))
		}
	case "PyTorchJob":
		for _, role := range slices.Sorted(maps.Keys(o.Spec.PyTorchReplicaSpecs)) {
			r := o.Spec.PyTorchReplicaSpecs[role]
			add(r.Template, count(r.Replicas))
		}
	case "Job":
		add(o.Spec.Template, count(o.Spec.Parallelism))
	}
	return templates, counts
}

// finishKube makes nodes and jobs of what the texts told.
func (l *Log) finishKube() error {
	k := l.kube
	l.kube = nil
	l.kubeDown(k)
	l.kubeQueues(k)
	var lone []*kubePod
	for i := range k.pods {
		p := &k.pods[i]
		if root := k.root(p.Metadata); root != nil {
			root.pods = append(root.pods, p)
		} else {
			lone = append(lone, p)
		}
	}
	used := map[string]bool{}
	for _, uid := range k.order {
		o := k.owners[uid]
		if k.root(o.Metadata) != nil {
			continue // a part of a JobSet
		}
		id := o.id()
		if used[id] {
			id = o.Kind + ":" + id
		}
		used[id] = true
		if err := l.kubeOwnerJobs(k, o, uid, id); err != nil {
			return &RowError{o.place, "job " + id + ": " + err.Error()}
		}
	}
	for _, p := range lone {
		if err := l.kubePodJob(k, p, nil); err != nil {
			return &RowError{p.place, "pod " + p.id() + ": " + err.Error()}
		}
	}
	keys := map[string]bool{}
	for i := range l.Jobs {
		for _, s := range slices.Concat(l.Jobs[i].Only, l.Jobs[i].Exclude) {
			keys[s.Label] = true
		}
	}
	for i := range l.Nodes {
		n := &l.Nodes[i]
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if value, ok := k.labels[n.Name][key]; ok {
				n.Labels = append(n.Labels, hare.Label{Name: key, Value: value})
			}
		}
	}
	return nil
}

// kubeDown makes times out of service of the events of nodes.
func (l *Log) kubeDown(k *kubeLog) {
	slices.SortStableFunc(k.events, func(a, b kubeNodeEvent) int { return cmp.Compare(a.atUs, b.atUs) })
	since := map[string]int64{}
	for _, e := range k.events {
		from, down := since[e.node]
		switch {
		case !e.up && !down:
			since[e.node] = e.atUs
		case e.up && down:
			l.node(e.node).addDown(from, e.atUs)
			delete(since, e.node)
		}
	}
	for i := range l.Nodes {
		if from, down := since[l.Nodes[i].Name]; down && l.Nodes[i].Out {
			l.Nodes[i].addDown(from, hare.Forever)
		}
	}
}

// kubeQueues makes a partition of each ClusterQueue that has GPUs: the nodes that its flavors match.
func (l *Log) kubeQueues(k *kubeLog) {
	for _, queue := range slices.Sorted(maps.Keys(k.queues)) {
		for i := range l.Nodes {
			n := &l.Nodes[i]
			if slices.ContainsFunc(k.queues[queue], func(flavor string) bool {
				labels, known := k.flavors[flavor]
				for name, value := range labels {
					known = known && k.labels[n.Name][name] == value
				}
				return known
			}) {
				n.Partitions = append(n.Partitions, queue)
			}
		}
	}
}

// root returns the job to which an object belongs, the outermost one that was read; nil for none.
func (k *kubeLog) root(m kubeMeta) (root *kubeOwner) {
	for range 8 { // no chain of owners is as long, and a circle ends here
		next := (*kubeOwner)(nil)
		for _, ref := range m.OwnerReferences {
			if o := k.owners[ref.UID]; o != nil && (ref.Controller || len(m.OwnerReferences) == 1) {
				next = o
			}
		}
		if next == nil {
			return root
		}
		root, m = next, next.Metadata
	}
	return root
}

// kubeOwnerJobs adds the jobs of the log of one job of Kubernetes: one for the pods that began and ended
// together, so that each attempt is one, and else one a pod.
func (l *Log) kubeOwnerJobs(k *kubeLog, o *kubeOwner, uid, id string) error {
	spread := o.Kind == "Job" && o.Spec.Completions != nil && o.Spec.Parallelism != nil &&
		*o.Spec.Completions > *o.Spec.Parallelism
	var started []*kubePod
	waits := 0
	for _, p := range o.pods {
		switch {
		case p.startUs() > 0:
			started = append(started, p)
		case !p.over():
			waits++
		}
	}
	j, err := l.kubeAsked(k, o, uid, id)
	if err != nil {
		return err
	}
	if len(started) == 0 {
		switch complete, failed := o.condition("Complete"), o.condition("Failed"); {
		case complete.Status == "True" || o.condition("Completed").Status == "True" ||
			o.condition("Succeeded").Status == "True":
			j.State, j.StartUs, j.EndUs = Completed, us(o.Status.StartTime), max(us(o.Status.CompletionTime),
				us(complete.LastTransitionTime))
		case failed.Status == "True":
			j.State, j.StartUs, j.EndUs = Failed, us(o.Status.StartTime), us(failed.LastTransitionTime)
		}
		l.Jobs = append(l.Jobs, j)
		return nil
	}
	slices.SortStableFunc(started, func(a, b *kubePod) int {
		return cmp.Or(cmp.Compare(a.startUs(), b.startUs()), strings.Compare(a.id(), b.id()))
	})
	if waits > 0 {
		l.Report.leaveOut("pods that wait while others of their job run or ran", o.place)
	}
	var groups [][]*kubePod
	for _, p := range started {
		if n := len(groups); n > 0 && p.startUs()-groups[n-1][0].startUs() <= gangSpreadUs && !spread {
			groups[n-1] = append(groups[n-1], p)
			continue
		}
		groups = append(groups, []*kubePod{p})
	}
	attempt := 0
	for _, pods := range groups {
		if spread || !together(pods) {
			l.Report.assume("pods of one job that did not begin and end together: each is a job of its own", o.place)
			for _, p := range pods {
				if err := l.kubePodJob(k, p, &j); err != nil {
					return err
				}
			}
			continue
		}
		attempt++
		one := j
		if attempt > 1 {
			one.ID += "#" + itoa(int64(attempt))
			l.Report.assume("each attempt of a job that began again is a job of its own", o.place)
		}
		l.hasPods(&one, pods)
		l.Jobs = append(l.Jobs, one)
	}
	return nil
}

// together says whether pods ended at about the same time, or all run.
func together(pods []*kubePod) bool {
	first, last := hare.Forever, int64(0)
	for _, p := range pods {
		first, last = min(first, p.endUs()), max(last, p.endUs())
	}
	return last-first <= gangSpreadUs
}

// kubeAsked returns a waiting job with what a job of Kubernetes asks for.
func (l *Log) kubeAsked(k *kubeLog, o *kubeOwner, uid, id string) (Job, error) {
	asks := &o.kubeObject
	m := &o.Metadata
	name := m.Name
	switch {
	case m.GenerateName != "":
		name = strings.TrimRight(m.GenerateName, "-")
	case len(m.OwnerReferences) == 1: // a CronJob, as a rule
		name = m.OwnerReferences[0].Name
	}
	j := Job{ID: id, Name: name, Place: o.place, User: m.Namespace, State: Pending, SubmitUs: us(m.CreationTimestamp)}
	if j.SubmitUs == 0 {
		return j, fmt.Errorf("has no metadata.creationTimestamp between 1970 and 2199")
	}
	j.EligibleUs = j.SubmitUs
	limit := max(o.Spec.ActiveDeadlineSeconds, o.Spec.RunPolicy.ActiveDeadlineSeconds)
	j.LimitUs = max(0, min(limit, maxTimeUs/1e6)) * 1e6
	if w := k.workloads[uid]; w != nil {
		asks = w
		j.QOS = w.Spec.QueueName
		j.OnHold = w.Spec.Active != nil && !*w.Spec.Active
		j.Partition = k.local[m.Namespace+"/"+w.Spec.QueueName]
	}
	templates, counts := asks.templates()
	annotations := []map[string]string{m.Annotations}
	each := map[int64]bool{}
	for i, t := range templates {
		d := t.Spec.Demand()
		j.GPUs += d.GPUs * counts[i]
		j.CPUMilli += d.CPUMilli * counts[i]
		j.MemoryMiB += d.MemoryMiB * counts[i]
		if annotations = append(annotations, t.Metadata.Annotations); d.GPUs > 0 && counts[i] > 0 {
			each[d.GPUs] = true
			l.kubeSelect(k, &j, &t.Spec)
		}
	}
	if j.GPUs > hare.MaxGPUs {
		return j, fmt.Errorf("wants %d GPUs: a job may have up to %d", j.GPUs, hare.MaxGPUs)
	}
	j.PerTask = 1
	if len(each) == 1 {
		for n := range each {
			j.PerTask = n
		}
	} else if len(each) > 1 {
		l.Report.assume("pods with unlike numbers of GPUs: may have its GPUs on any nodes", o.place)
	}
	l.kubeSeconds(&j, annotations...)
	return j, nil
}

// kubeSeconds reads the times by GPU type from annotations, the first that has them.
func (l *Log) kubeSeconds(j *Job, annotations ...map[string]string) {
	for _, a := range annotations {
		text := a[SecondsAnnotation]
		if text == "" || len(j.Seconds) > 0 {
			continue
		}
		var err error
		if j.Seconds, err = parseSpeeds(commentPrefix + text); err != nil {
			l.Report.leaveOut(fmt.Sprintf("speeds in an annotation that cannot be read: %v", err), j.Place)
		}
	}
}

// kubeSelect keeps a job to the nodes that its pods select.
func (l *Log) kubeSelect(k *kubeLog, j *Job, s *PodSpec) {
	keep := func(list *[]hare.LabelValues, label string, values []string) {
		values = slices.Compact(slices.Sorted(slices.Values(values)))
		if slices.ContainsFunc(*list, func(v hare.LabelValues) bool { return v.Label == label }) || len(values) == 0 {
			return // the selector of the first template counts
		}
		*list = append(*list, hare.LabelValues{Label: label, Values: values})
		slices.SortFunc(*list, func(a, b hare.LabelValues) int { return strings.Compare(a.Label, b.Label) })
	}
	only := func(label string, values []string) {
		if len(values) == 1 && slices.Contains(k.typeLabels, label) {
			j.Type = cmp.Or(j.Type, values[0])
			return
		}
		keep(&j.Only, label, values)
	}
	for _, label := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		only(label, []string{s.NodeSelector[label]})
	}
	terms := s.Affinity.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) > 1 || len(terms) == 1 && len(terms[0].MatchFields) > 0 {
		l.Report.assume("a node affinity of several terms, or by fields, is not kept", j.Place)
		return
	}
	for _, t := range terms {
		for _, e := range t.MatchExpressions {
			switch e.Operator {
			case "In":
				only(e.Key, e.Values)
			case "NotIn":
				keep(&j.Exclude, e.Key, e.Values)
			default:
				l.Report.assume("a node affinity by another operator than In and NotIn is not kept", j.Place)
			}
		}
	}
}

// kubePodJob adds a pod as a job of its own; of is what its job asks for, nil for a pod of no job that
// was read.
func (l *Log) kubePodJob(k *kubeLog, p *kubePod, of *Job) error {
	d := p.Spec.Demand()
	j := Job{ID: p.id(), Name: cmp.Or(strings.TrimRight(p.Metadata.GenerateName, "-"), p.Metadata.Name), Place: p.place,
		User: p.Metadata.Namespace, State: Pending, SubmitUs: us(p.Metadata.CreationTimestamp)}
	if of != nil {
		j = *of
		j.ID, j.Place, j.SubmitUs = p.id(), p.place, us(p.Metadata.CreationTimestamp)
	} else {
		l.kubeSelect(k, &j, &p.Spec.PodSpec)
		l.kubeSeconds(&j, p.Metadata.Annotations)
	}
	if j.SubmitUs == 0 {
		return fmt.Errorf("has no metadata.creationTimestamp between 1970 and 2199")
	}
	if d.GPUs > hare.MaxGPUs {
		return fmt.Errorf("wants %d GPUs: a job may have up to %d", d.GPUs, hare.MaxGPUs)
	}
	j.EligibleUs = j.SubmitUs
	j.GPUs, j.PerTask, j.CPUMilli, j.MemoryMiB = d.GPUs, max(1, d.GPUs), d.CPUMilli, d.MemoryMiB
	switch {
	case p.startUs() > 0:
		l.hasPods(&j, []*kubePod{p})
	case p.Status.Phase == "Succeeded":
		j.State = Completed
	case p.Status.Phase == "Failed":
		j.State = Failed
	}
	l.Jobs = append(l.Jobs, j)
	return nil
}

// hasPods says when and on which nodes a job ran: from the begin of the last of its pods to the end of the
// first, with the GPUs of all.
func (l *Log) hasPods(j *Job, pods []*kubePod) {
	gpus := map[string]int64{}
	first, last, end, running := hare.Forever, int64(0), hare.Forever, false
	j.State, j.GPUs, j.CPUMilli, j.MemoryMiB = Completed, 0, 0, 0
	latest := int64(0)
	for _, p := range pods {
		d := p.Spec.Demand()
		j.GPUs, j.CPUMilli, j.MemoryMiB = j.GPUs+d.GPUs, j.CPUMilli+d.CPUMilli, j.MemoryMiB+d.MemoryMiB
		gpus[p.Spec.NodeName] += d.GPUs
		first, last = min(first, p.startUs()), max(last, p.startUs())
		end, latest = min(end, p.endUs()), max(latest, p.endUs())
		switch {
		case !p.over():
			running = true
		case p.condition("DisruptionTarget").Status == "True":
			j.State = Requeued
		case p.Status.Phase == "Failed" && j.State == Completed:
			j.State = Failed
		case p.endUs() == 0:
			l.Report.doubt("a pod has ended, and nothing says when: its job is left out", p.place)
			j.State = Unknown
		}
	}
	if first < last || !running && end < latest {
		l.Report.assume("pods of one job that began or ended some seconds apart: the job counts from the begin of the last "+
			"to the end of the first", j.Place)
	}
	if j.StartUs = last; running {
		j.State, end = Running, 0
	}
	j.EndUs = end
	if !running && end == 0 {
		j.StartUs = 0
	}
	for _, node := range slices.Sorted(maps.Keys(gpus)) {
		if gpus[node] > 0 {
			j.On = append(j.On, Held{Node: node, GPUs: gpus[node]})
		}
	}
	j.Nodes = int64(len(j.On))
}
