package history

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

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

// over reports whether the pod has ended.
func (p *kubePod) over() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// endUs returns when the last container of the pod ended; 0 if the pod runs or nothing says when.
func (p *kubePod) endUs() (end int64) {
	if !p.over() {
		return 0
	}
	for i := range p.Status.ContainerStatuses {
		end = max(end, us(p.Status.ContainerStatuses[i].State.Terminated.FinishedAt))
	}
	if end > 0 {
		return end
	}
	if c := p.condition("Ready"); c.Status == "False" {
		end = us(c.LastTransitionTime)
	}
	if c := p.condition("DisruptionTarget"); c.Status == "True" { // of an evicted pod, which may have no containers left
		end = max(end, us(c.LastTransitionTime))
	}
	return end
}

// kubePods are pods of one template.
type kubePods struct {
	kubeTemplate
	count int64
}

// templates returns how many pods of which templates a job has at a time; of a LeaderWorkerSet those of one group.
func (o *kubeObject) templates() (templates []kubePods) {
	count := func(n *int64) int64 {
		if n == nil {
			return 1
		}
		return max(0, min(*n, hare.MaxGPUs))
	}
	add := func(t kubeTemplate, n int64) {
		templates = append(templates, kubePods{t, max(0, min(n, hare.MaxGPUs))})
	}
	jobSet := func(list []kubeReplicatedJob) {
		for _, r := range list {
			add(r.Template.Spec.Template, count(r.Replicas)*r.Template.Spec.pods())
		}
	}
	ray := func(c *kubeRayCluster) {
		if c.HeadGroupSpec != nil {
			add(c.HeadGroupSpec.Template, 1)
		}
		for _, g := range c.WorkerGroupSpecs {
			add(g.Template, count(g.Replicas)*max(1, count(g.NumOfHosts)))
		}
	}
	switch s := &o.Spec; o.form {
	case "Workload":
		for _, p := range s.PodSets {
			add(p.Template, p.Count)
		}
	case "JobSet":
		jobSet(s.ReplicatedJobs)
	case "Replicas":
		for _, roles := range []map[string]kubeReplicas{s.PyTorchReplicaSpecs, s.MPIReplicaSpecs, s.TFReplicaSpecs,
			s.XGBReplicaSpecs, s.PaddleReplicaSpecs, s.MXReplicaSpecs, s.JAXReplicaSpecs} {
			for _, role := range slices.Sorted(maps.Keys(roles)) {
				add(roles[role].Template, count(roles[role].Replicas))
			}
		}
	case "TrainJob":
		if r := s.Trainer.ResourcesPerNode; r != nil {
			add(kubeTemplate{Spec: PodSpec{Containers: []Container{{Resources: *r}}}}, count(s.Trainer.NumNodes))
		}
	case "RayJob":
		ray(&s.RayClusterSpec)
	case "RayCluster":
		ray(&s.kubeRayCluster)
	case "LeaderWorkerSet":
		t := &s.LeaderWorkerTemplate
		leader := t.LeaderTemplate
		if leader == nil {
			leader = &t.WorkerTemplate
		}
		add(*leader, 1)
		add(t.WorkerTemplate, count(t.Size)-1)
	case "VolcanoJob":
		for _, t := range s.Tasks {
			add(t.Template, count(t.Replicas))
		}
	case "Job":
		add(s.Template, s.pods())
	}
	return templates
}

// pods is how many pods of a Job run at a time.
func (s *kubeJobSpec) pods() int64 {
	n := int64(1)
	if s.Parallelism != nil {
		n = *s.Parallelism
	}
	if s.Completions != nil && !s.spread() {
		n = min(n, *s.Completions)
	}
	return max(0, min(n, hare.MaxGPUs))
}

// spread reports whether the pods of a Job are pieces of work that run in turns.
func (s *kubeJobSpec) spread() bool {
	return s.Completions != nil && s.Parallelism != nil && *s.Completions > *s.Parallelism
}

// ended returns how a job without pods ended, and when it began and ended; Pending if it has not ended.
func (o *kubeObject) ended() (st State, startUs, endUs int64) {
	start, end := us(o.Status.StartTime), max(us(o.Status.CompletionTime), us(o.Status.EndTime))
	for _, c := range o.Status.Conditions {
		if c.Status != "True" {
			continue
		}
		switch c.Type {
		case "Complete", "Completed", "Succeeded", "Finished":
			if st = Completed; c.Type == "Finished" && strings.Contains(c.Reason, "Fail") {
				st = Failed
			}
			return st, start, max(end, us(c.LastTransitionTime))
		case "Failed":
			return Failed, start, us(c.LastTransitionTime)
		}
	}
	var phase struct{ Phase string } // of Volcano
	if json.Unmarshal(o.Status.State, &phase) != nil {
		phase.Phase = ""
	}
	switch cmp.Or(phase.Phase, o.Status.JobStatus) {
	case "Completed", "SUCCEEDED":
		return Completed, start, end
	case "Failed", "FAILED":
		return Failed, start, end
	case "Aborted", "Terminated", "STOPPED":
		return Cancelled, start, end
	}
	return Pending, 0, 0
}

// kubeDown makes times out of service of the events of nodes.
func (l *kubeReader) kubeDown(k *kubeLog) {
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
func (l *kubeReader) kubeQueues(k *kubeLog) {
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

// kubeDevices keeps jobs to nodes whose GPUs are counted by the resource that they ask for, where nodes differ.
func (l *kubeReader) kubeDevices(k *kubeLog) {
	without := map[string][]string{}       // nodes whose GPUs other resources count, by resource
	for _, device := range l.deviceNames { // which no node may count
		without[device] = nil
	}
	for _, devices := range k.devices {
		for _, device := range devices {
			without[device] = nil
		}
	}
	if len(without) < 2 {
		return
	}
	for i := range l.Nodes {
		devices := k.devices[l.Nodes[i].Name]
		for device := range without {
			if len(devices) > 0 && !slices.Contains(devices, device) {
				without[device] = append(without[device], l.Nodes[i].Name)
			}
		}
	}
	for _, names := range without {
		slices.Sort(names)
	}
	for i := range l.Jobs {
		if at := l.Jobs[i].device; at > 0 {
			l.Jobs[i].NotNodes = without[l.deviceNames[at-1]]
		}
	}
}

// countSharers counts how many pods hold each ResourceClaim at once.
func (k *kubeLog) countSharers() {
	edges := map[string][]edge{}
	for i := range k.pods {
		p := &k.pods[i]
		from := cmp.Or(p.startUs(), us(p.Metadata.CreationTimestamp))
		for _, c := range p.Spec.ResourceClaims {
			if key := p.Metadata.Namespace + "/" + c.ResourceClaimName; c.ResourceClaimName != "" && from > 0 {
				edges[key] = append(edges[key], edge{from, 1}, edge{p.untilUs(), -1})
			}
		}
	}
	for key, list := range edges {
		if most := mostHeld(list, 0); most > 1 {
			k.sharers[key] = most
		}
	}
}

// root returns the job to which an object belongs, the outermost one that was read; nil for none.
func (k *kubeLog) root(m *kubeMeta) (root *kubeOwner) {
	for range 8 { // no chain of owners is as long, and a circle ends here
		next := (*kubeOwner)(nil)
		if ref := m.controller(); ref != nil {
			next = k.owners[ref.UID]
		}
		if next == nil {
			return root
		}
		root, m = next, &next.Metadata
	}
	return root
}

// kubeAsked returns a waiting job with what a job of Kubernetes asks for. false means that it cannot be told when
// the job was submitted, or that it asks for more GPUs than a job may have.
func (l *kubeReader) kubeAsked(k *kubeLog, o *kubeOwner, id string, asks []kubePods) (j Job, ok bool) {
	m := &o.Metadata
	name := m.Name
	switch {
	case m.GenerateName != "":
		name = strings.TrimRight(m.GenerateName, "-")
	case len(m.OwnerReferences) == 1: // a CronJob, as a rule
		name = m.OwnerReferences[0].Name
	}
	j = Job{ID: id, Name: name, Place: o.place, User: m.Namespace, State: Pending, SubmitUs: us(m.CreationTimestamp)}
	if j.SubmitUs == 0 { // its pods tell, as far as they can
		first := hare.Forever
		for _, p := range o.pods {
			if at := cmp.Or(us(p.Metadata.CreationTimestamp), p.startUs()); at > 0 {
				first = min(first, at)
			}
		}
		if first == hare.Forever {
			o.faulty(l, "a job without a time: left out (metadata.creationTimestamp between 1970 and 2199)", o.place, id)
			return j, false
		}
		j.SubmitUs = first
	}
	j.EligibleUs = j.SubmitUs
	limit := max(o.Spec.ActiveDeadlineSeconds, o.Spec.RunPolicy.ActiveDeadlineSeconds,
		o.Spec.MaximumExecutionTimeSeconds)
	if w := k.workloads[m.UID]; w != nil {
		if len(w.Spec.PodSets) > 0 {
			asks = w.templates()
		}
		limit = max(limit, w.Spec.MaximumExecutionTimeSeconds)
		j.QOS = w.Spec.QueueName
		j.OnHold = w.Spec.Active != nil && !*w.Spec.Active
		j.Partition = k.local[m.Namespace+"/"+w.Spec.QueueName]
	}
	j.LimitUs = max(0, min(limit, maxTimeUs/1e6)) * 1e6
	annotations := []map[string]string{m.Annotations}
	each := map[int64]bool{}
	ran := slices.ContainsFunc(o.pods, func(p *kubePod) bool { return p.startUs() > 0 })
	var milli int64
	for _, t := range asks {
		n := k.podNeed(&t.Spec, &t.Metadata, m.Namespace, nil)
		milli += n.milli * t.count
		j.CPUMilli += n.CPUMilli * t.count
		j.MemoryMiB += n.MemoryMiB * t.count
		if annotations = append(annotations, t.Metadata.Annotations); n.milli > 0 && t.count > 0 {
			each[n.milli] = true
			l.kubeSelect(k, &j, &t.Spec)
			if !ran {
				l.needNotes(&n, o.place)
			}
			j.Type, j.device = cmp.Or(n.gpuType, j.Type), cmp.Or(j.device, l.device(n.device))
		}
	}
	if j.GPUs = (milli + 999) / 1000; j.GPUs > hare.MaxGPUs {
		o.faulty(l, "GPUs of a job, more than a job may have: left out", o.place, itoa(j.GPUs))
		return j, false
	}
	j.PerTask = 1
	if len(each) == 1 {
		for n := range each {
			if n%1000 == 0 {
				j.PerTask = n / 1000
			}
		}
	} else if len(each) > 1 {
		l.Report.assume("pods with unlike numbers of GPUs: may have its GPUs on any nodes", o.place)
	}
	l.kubeSeconds(&j, annotations...)
	return j, true
}

// needNotes says what was made of parts of GPUs.
func (l *kubeReader) needNotes(n *kubeNeed, place Place) {
	switch {
	case n.unsure:
		l.Report.assume("a part of a GPU, and nothing says how large: counts as a whole one ("+n.part+")", place)
	case n.milli%1000 != 0:
		l.Report.assume(partNote, place)
	case n.part != "":
		l.Report.assume("parts of GPUs that add up to whole ones", place)
	}
	if n.assumed != "" {
		l.Report.assume(n.assumed, place)
	}
}

// kubeSeconds reads the times by GPU type from annotations, the first that has them.
func (l *kubeReader) kubeSeconds(j *Job, annotations ...map[string]string) {
	for _, a := range annotations {
		text := a[SecondsAnnotation]
		if text == "" || len(j.Seconds) > 0 {
			continue
		}
		var err error
		if j.Seconds, err = parseSpeeds(commentPrefix + text); err != nil {
			l.Report.setAside("times in the annotation "+SecondsAnnotation+": the job counts as one without them",
				j.Place, text)
		}
	}
}

// kubeSelect keeps a job to the nodes that its pods select.
func (l *kubeReader) kubeSelect(k *kubeLog, j *Job, s *PodSpec) {
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
func (l *kubeReader) kubePodJob(k *kubeLog, p *kubePod, of *Job) {
	j := Job{Name: cmp.Or(strings.TrimRight(p.Metadata.GenerateName, "-"), p.Metadata.Name), Place: p.place,
		User: p.Metadata.Namespace}
	if of != nil {
		j = *of
	} else {
		l.kubeSelect(k, &j, &p.Spec.PodSpec)
		l.kubeSeconds(&j, p.Metadata.Annotations)
	}
	j.ID, j.Place, j.State, j.Type = p.id(), p.place, Pending, cmp.Or(p.need.gpuType, j.Type)
	if j.SubmitUs = cmp.Or(us(p.Metadata.CreationTimestamp), p.startUs()); j.SubmitUs == 0 {
		p.faulty(l, "a pod without a time: left out (metadata.creationTimestamp between 1970 and 2199)", p.place, p.id())
		return
	}
	gpus := p.need.gpus()
	if gpus > hare.MaxGPUs {
		p.faulty(l, "GPUs of a job, more than a job may have: left out", p.place, itoa(gpus))
		return
	}
	if gpus == 0 && p.unread {
		return // whether it had GPUs may be what could not be read
	}
	j.EligibleUs, j.device = j.SubmitUs, cmp.Or(l.device(p.need.device), j.device)
	j.GPUs, j.PerTask, j.CPUMilli, j.MemoryMiB = gpus, max(1, gpus), p.need.CPUMilli, p.need.MemoryMiB
	switch {
	case p.startUs() > 0:
		l.hasPods(&j, []*kubePod{p})
	case p.Status.Phase == "Succeeded":
		j.State = Completed
	case p.Status.Phase == "Failed":
		j.State = Failed
	default:
		l.needNotes(&p.need, p.place)
	}
	l.Jobs = append(l.Jobs, j)
}

// hasPods says when and on which nodes a job ran: from the begin of the last of its pods to the end of the
// first, with the GPUs of all. Pods without GPUs say nothing of the time where others have GPUs. A pod that took the
// place of another of the job counts in its place.
func (l *kubeReader) hasPods(j *Job, pods []*kubePod) {
	type place struct{ node, gpuType string }
	milli := map[place]int64{}
	first, last, end, running := hare.Forever, int64(0), hare.Forever, false
	j.State, j.GPUs, j.CPUMilli, j.MemoryMiB, j.On = Completed, 0, 0, 0, nil
	latest := int64(0)
	timed := slices.DeleteFunc(slices.Clone(pods), func(p *kubePod) bool { return p.need.milli == 0 })
	if len(timed) == 0 {
		timed = pods
	}
	followed := l.followed(timed, j.Place)
	for _, p := range pods {
		if followed[p] != nil {
			continue
		}
		j.CPUMilli, j.MemoryMiB = j.CPUMilli+p.need.CPUMilli, j.MemoryMiB+p.need.MemoryMiB
		if p.need.milli > 0 {
			milli[place{p.Spec.NodeName, p.need.gpuType}] += p.need.milli
			j.Type, j.device = cmp.Or(p.need.gpuType, j.Type), cmp.Or(l.device(p.need.device), j.device)
			l.needNotes(&p.need, p.place)
		}
	}
	for _, p := range timed {
		if followed[p] != nil {
			first = min(first, p.startUs())
			continue
		}
		begin := p.startUs()
		for q, next := range followed {
			if next == p {
				begin = min(begin, q.startUs())
			}
		}
		first, last = min(first, begin), max(last, begin)
		end, latest = min(end, p.endUs()), max(latest, p.endUs())
		switch {
		case !p.over():
			running = true
		case p.endUs() == 0:
			if !p.unread {
				l.Report.doubt("a pod has ended, and nothing says when: its job is left out", p.place)
			}
			j.State = Unknown
		case p.condition("DisruptionTarget").Status == "True":
			j.State = Requeued
		case p.Status.Phase == "Failed" && j.State == Completed:
			j.State = Failed
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
	var total int64
	for at, n := range milli { // parts add up before they are rounded
		h := Held{Node: at.node, Type: at.gpuType, GPUs: min((n+999)/1000, hare.MaxGPUs)}
		j.On = append(j.On, h)
		j.GPUs, total = j.GPUs+h.GPUs, total+n
	}
	slices.SortFunc(j.On, func(a, b Held) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Type, b.Type))
	})
	if j.GPUs > hare.MaxGPUs {
		j.GPUs = hare.MaxGPUs
	}
	if total < 1000 && len(j.On) == 1 {
		j.PartMicro = total * 1000
	}
	j.PerTask = 1
	if each := timed[0].need.milli; each > 0 && each%1000 == 0 &&
		!slices.ContainsFunc(timed, func(p *kubePod) bool { return p.need.milli != each }) {
		j.PerTask = each / 1000
	}
	j.Nodes = int64(len(j.On))
}

// followed tells of each pod that ended, while others of its job went on, which pod took its place.
func (l *kubeReader) followed(pods []*kubePod, place Place) map[*kubePod]*kubePod {
	out := map[*kubePod]*kubePod{}
	sorted := slices.SortedStableFunc(slices.Values(pods), func(a, b *kubePod) int {
		return cmp.Compare(a.startUs(), b.startUs())
	})
	taken := map[*kubePod]bool{}
	for _, p := range sorted {
		if p.endUs() == 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(sorted, p.endUs(), func(q *kubePod, at int64) int {
			return cmp.Compare(q.startUs(), at)
		})
		for _, q := range sorted[at:] {
			if q != p && !taken[q] {
				out[p], taken[q] = q, true
				l.Report.assume("a pod that took the place of another while others of the job went on: the job counts with "+
					"the later one", place)
				break
			}
		}
	}
	return out
}
