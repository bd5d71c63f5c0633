package history

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hare-sched/hare"
)

// Pods that belong together are one job. A job of a kind that is read owns its pods; other pods belong together by
// labels, by the group in which a scheduler starts them, or by what controls them. An attempt is the pods that ran at
// the same time, as many as the job has at a time: pods that began when those before had ended are the next attempt.

// gangSpreadUs is how far apart pods may begin, and end, that nothing but their times says to be one piece of work,
// and for how long a pod may overlap with the one that follows in its place.
const gangSpreadUs = 60e6

// gangLabels are labels of pods with the name of their job: pods of a namespace that share one belong to one job
// of the kind. index is the label that tells apart the gangs of such a job.
var gangLabels = []struct{ name, kind, index string }{
	{"leaderworkerset.sigs.k8s.io/name", "LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/group-index"},
	{"jobset.sigs.k8s.io/jobset-name", "JobSet", ""},
	{"ray.io/cluster", "RayCluster", ""},
	{"volcano.sh/job-name", "Job", ""},
	{"training.kubeflow.org/job-name", "", ""},
}

// groupLabels are the labels and annotations of pods that name the group in which a scheduler starts them.
var groupLabels = []string{"scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io",
	"pod-group.scheduling.sigs.k8s.io/name", "scheduling.k8s.io/group-name", "gang.scheduling.koordinator.sh/name",
	"pod-group-name", "kueue.x-k8s.io/pod-group-name", "scheduling.volcano.sh/group-name",
	"yunikorn.apache.org/app-id"}

// gangKinds are the kinds whose pods work together, where the job itself was not given.
var gangKinds = []string{"MPIJob", "PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "MXJob", "JAXJob", "TrainJob",
	"JobSet", "RayJob", "RayCluster", "LeaderWorkerSet", "PodGroup", "AppWrapper"}

// replicaKinds are the kinds whose pods do the same work beside each other.
var replicaKinds = []string{"ReplicaSet", "DaemonSet", "Deployment", "StatefulSet", "ReplicationController", "Node"}

// groupOf returns the group in which a scheduler starts a pod; "" for none.
func (p *kubePod) groupOf() string {
	for _, name := range groupLabels {
		if v := cmp.Or(p.Metadata.Labels[name], p.Metadata.Annotations[name]); v != "" {
			return v
		}
	}
	if r := &p.Spec.WorkloadRef; r.Name != "" {
		return strings.Join([]string{r.Name, r.PodGroup, r.PodGroupReplicaKey}, "/")
	}
	return p.Spec.SchedulingGroup.PodGroupName
}

// jobs returns the jobs that are not parts of others, and the Workloads of Kueue whose jobs were not read.
func (k *kubeLog) jobs() (jobs []*kubeOwner) {
	for _, uid := range k.order {
		if o := k.owners[uid]; k.root(&o.Metadata) == nil || o.form == "Workload" {
			jobs = append(jobs, o)
		}
	}
	return jobs
}

// sortPods gives pods to the jobs that they belong to and returns the others.
func (k *kubeLog) sortPods(l *kubeReader) (lone []*kubePod) {
	pods := map[string]bool{}
	for i := range k.pods {
		pods[k.pods[i].Metadata.UID] = true
	}
	for _, uid := range k.order { // a RayJob stands for its cluster
		o := k.owners[uid]
		name := "RayCluster " + o.Metadata.Namespace + "/" + o.Status.RayClusterName
		if o.form == "RayJob" && o.Status.RayClusterName != "" && k.named[name] == nil {
			k.named[name] = o
		}
	}
	for _, w := range k.queued { // a Workload stands for a job that was not read
		ref := w.Metadata.controller()
		if ref == nil || ref.UID == "" || k.owners[ref.UID] != nil || pods[ref.UID] || ref.Kind == "Pod" {
			continue
		}
		o := &kubeOwner{kubeObject: w.kubeObject, place: w.place}
		o.Metadata.Name, o.Metadata.UID, o.Metadata.GenerateName, o.Metadata.OwnerReferences = ref.Name, ref.UID, "", nil
		k.owners[ref.UID] = o
		k.order = append(k.order, ref.UID)
		l.Report.assume("a job that was not read, by its Workload of Kueue", w.place)
	}
	k.countSharers()
	for i := range k.pods {
		p := &k.pods[i]
		if p.reserves() {
			l.Report.leaveOut("pods that hold a GPU for those that have its parts", p.place)
			continue
		}
		claims := map[string]string{}
		for _, c := range p.Status.ResourceClaimStatuses {
			claims[c.Name] = c.ResourceClaimName
		}
		p.need = k.podNeed(&p.Spec.PodSpec, &p.Metadata, p.Metadata.Namespace, claims)
		if root := k.rootOf(p); root != nil {
			root.pods = append(root.pods, p)
		} else {
			lone = append(lone, p)
		}
	}
	return lone
}

// rootOf returns the job of a pod, by owners or by labels; nil for none.
func (k *kubeLog) rootOf(p *kubePod) *kubeOwner {
	if root := k.root(&p.Metadata); root != nil {
		return root
	}
	for _, g := range gangLabels {
		name := p.Metadata.Labels[g.name]
		o := k.named[g.kind+" "+p.Metadata.Namespace+"/"+name]
		if o == nil && g.kind == "JobSet" { // that a TrainJob made has its name
			o = k.named["TrainJob "+p.Metadata.Namespace+"/"+name]
		}
		if name != "" && o != nil && (o.form == "VolcanoJob") == (g.kind == "Job") {
			return cmp.Or(k.root(&o.Metadata), o)
		}
	}
	return nil
}

// kubeOwnerJobs adds the jobs of the log of one job of Kubernetes: one for each attempt, of a LeaderWorkerSet for each
// group, and for each pod where the pods are pieces of work that run in turns.
func (l *kubeReader) kubeOwnerJobs(k *kubeLog, o *kubeOwner, id string) {
	asked, ok := l.kubeAsked(k, o, id, o.templates())
	if !ok && asked.SubmitUs == 0 {
		return
	}
	gangs := map[string][]*kubePod{}
	for _, p := range o.pods {
		index := ""
		if o.form == "LeaderWorkerSet" {
			index = p.Metadata.Labels[gangLabels[0].index]
		}
		gangs[index] = append(gangs[index], p)
	}
	atOnce := int64(0)
	for _, t := range o.templates() {
		if n := k.podNeed(&t.Spec, &t.Metadata, o.Metadata.Namespace, nil); n.milli > 0 || asked.GPUs == 0 {
			atOnce += t.count
		}
	}
	if len(o.pods) == 0 {
		if !ok || asked.GPUs == 0 && o.unread { // whether it wants GPUs may be what could not be read
			return
		}
		asked.State, asked.StartUs, asked.EndUs = o.ended()
		if asked.State == Pending && asked.GPUs == 0 && !o.unread && !k.tells(o) {
			l.Report.doubt("waits, and nothing tells what its pods ask for (give its pods, its JobSet or its Workload "+
				"of Kueue)", o.place)
		}
		if replicas := o.Spec.Replicas; o.form == "LeaderWorkerSet" && replicas != nil && asked.State == Pending {
			for i := range min(max(0, *replicas), hare.MaxGPUs) {
				one := asked
				one.ID += "-" + itoa(i)
				l.Jobs = append(l.Jobs, one)
			}
			return
		}
		l.Jobs = append(l.Jobs, asked)
		return
	}
	for _, name := range sortedStrings(gangs) {
		one := asked
		if len(gangs) > 1 {
			one.ID += "-" + name
		}
		g := gang{pods: gangs[name], atOnce: atOnce, apart: o.form == "Job" && o.Spec.spread(),
			whole: o.form != "Job" || o.Spec.CompletionMode == "Indexed", place: o.place}
		l.kubeGang(k, &g, one, ok)
	}
}

// tells reports whether a job, or its Workload, tells of containers.
func (k *kubeLog) tells(o *kubeOwner) bool {
	asks := o.templates()
	if w := k.workloads[o.Metadata.UID]; w != nil {
		asks = append(asks, w.templates()...)
	}
	return slices.ContainsFunc(asks, func(t kubePods) bool { return len(t.Spec.Containers) > 0 })
}

// gang are pods that belong together.
type gang struct {
	pods   []*kubePod
	atOnce int64 // how many with GPUs there are at a time; 0 means that it is not known
	apart  bool  // whether they are pieces of work that run in turns
	whole  bool  // whether they work together, also where they do not end together
	near   bool  // whether they must begin and end at about the same time to be one piece of work
	place  Place
}

// kubeGang adds the jobs of pods that belong together. asked says what their job asks for, if it is known.
func (l *kubeReader) kubeGang(k *kubeLog, g *gang, asked Job, known bool) {
	var started, waiting []*kubePod
	for _, p := range g.pods {
		switch {
		case p.startUs() > 0:
			started = append(started, p)
		case !p.over():
			waiting = append(waiting, p)
		}
	}
	if len(started) == 0 {
		switch {
		case g.near && !g.createdTogether():
			for _, p := range g.pods {
				l.kubePodJob(k, p, nil)
			}
		case known:
			if len(waiting) == 0 {
				asked.State = Unknown
			}
			l.Jobs = append(l.Jobs, asked)
		}
		return
	}
	if len(waiting) > 0 {
		l.Report.leaveOut("pods that wait while others of their job run or ran", g.place)
	}
	attempt := 0
	for _, pods := range g.attempts(started) {
		if g.apart || !g.whole && !g.together(pods) {
			for _, p := range pods {
				if !g.near { // else the caller says so
					l.Report.assume("pods of one job that did not begin and end together: each is a job of its own", g.place)
				}
				l.kubePodJob(k, p, &asked)
			}
			continue
		}
		attempt++
		one := asked
		if attempt > 1 {
			one.ID += "#" + itoa(int64(attempt))
			l.Report.assume("each attempt of a job that began again is a job of its own", g.place)
		}
		l.hasPods(&one, pods)
		l.Jobs = append(l.Jobs, one)
	}
}

// createdTogether reports whether all pods were created at about the same time.
func (g *gang) createdTogether() bool {
	first, last := hare.Forever, int64(0)
	for _, p := range g.pods {
		first, last = min(first, us(p.Metadata.CreationTimestamp)), max(last, us(p.Metadata.CreationTimestamp))
	}
	return last-first <= gangSpreadUs
}

// untilUs returns when a pod ends; hare.Forever while it runs, or if nothing says when.
func (p *kubePod) untilUs() int64 { return cmp.Or(p.endUs(), hare.Forever) }

// attempts groups pods that started. A pod that begins when none of the attempt runs, or only some that are about
// to end while there are as many as there may be, begins the next. Pods without GPUs count with the attempt that ran
// when they began.
func (g *gang) attempts(started []*kubePod) (attempts [][]*kubePod) {
	slices.SortStableFunc(started, func(a, b *kubePod) int {
		return cmp.Or(cmp.Compare(a.startUs(), b.startUs()), strings.Compare(a.id(), b.id()))
	})
	if g.apart {
		return [][]*kubePod{started}
	}
	hasGPUs := func(p *kubePod) bool { return p.need.milli > 0 }
	all := !slices.ContainsFunc(started, hasGPUs)
	for _, p := range started {
		if !all && !hasGPUs(p) {
			continue
		}
		next := len(attempts) == 0
		if !next {
			running, longer := int64(0), int64(0)
			full := g.atOnce > 0 && int64(len(attempts[len(attempts)-1])) >= g.atOnce
			for _, q := range attempts[len(attempts)-1] {
				switch {
				case full && q.over() && q.endUs() == 0: // had ended, since another follows
				case q.untilUs() > p.startUs()+gangSpreadUs:
					running, longer = running+1, longer+1
				case q.untilUs() > p.startUs():
					running++
				}
			}
			next = running == 0 || full && (longer == 0 || g.atOnce == 1)
		}
		if next {
			attempts = append(attempts, nil)
		}
		attempts[len(attempts)-1] = append(attempts[len(attempts)-1], p)
	}
	for _, p := range started {
		if all || hasGPUs(p) {
			continue
		}
		at := 0
		for i := range attempts {
			if attempts[i][0].startUs() <= p.startUs()+gangSpreadUs {
				at = i
			}
		}
		attempts[at] = append(attempts[at], p)
	}
	return attempts
}

// together reports whether pods ended at about the same time, or all run.
func (g *gang) together(pods []*kubePod) bool {
	first, last, begin := hare.Forever, int64(0), int64(0)
	for _, p := range pods {
		first, last, begin = min(first, p.endUs()), max(last, p.endUs()), max(begin, p.startUs())
	}
	return last-first <= gangSpreadUs && (!g.near || begin-pods[0].startUs() <= gangSpreadUs)
}

// kubeLone adds jobs of the pods whose jobs were not read: those of one group or controller that ran together are one.
func (l *kubeReader) kubeLone(k *kubeLog, lone []*kubePod, used map[string]bool) {
	gangs := map[string][]*kubePod{}
	var order []string
	for _, p := range lone {
		key := "pod " + p.id()
		if c := p.Metadata.controller(); c != nil && !slices.Contains(replicaKinds, c.Kind) {
			key = strings.Join([]string{"controller", p.Metadata.Namespace, c.APIVersion, c.Kind, cmp.Or(c.UID, c.Name)}, " ")
		}
		if name := p.groupOf(); name != "" {
			key = "group " + p.Metadata.Namespace + "/" + name
		}
		for _, label := range gangLabels {
			if name := p.Metadata.Labels[label.name]; name != "" {
				key = strings.Join([]string{"label", label.name, p.Metadata.Namespace, name, p.Metadata.Labels[label.index]}, " ")
				break
			}
		}
		if gangs[key] == nil {
			order = append(order, key)
		}
		gangs[key] = append(gangs[key], p)
	}
	for _, key := range order {
		l.kubeLoneGang(k, key, gangs[key], used)
	}
}

// kubeLoneGang adds the jobs of pods of one group or controller.
func (l *kubeReader) kubeLoneGang(k *kubeLog, key string, pods []*kubePod, used map[string]bool) {
	first := pods[0]
	c := first.Metadata.controller()
	if len(pods) == 1 {
		if c != nil && first.need.milli > 0 && slices.Contains(replicaKinds, c.Kind) {
			l.Report.assume("pods of a "+c.Kind+": each is a job of its own", first.place)
		}
		l.kubePodJob(k, first, nil)
		return
	}
	g := gang{pods: pods, place: first.place, whole: true}
	name := ""
	switch how, _, _ := strings.Cut(key, " "); how {
	case "group":
		name = first.groupOf()
		if o := k.groups[first.Metadata.Namespace+"/"+name]; o != nil {
			g.atOnce = max(o.Spec.MinMember, o.Spec.SchedulingPolicy.Gang.MinCount)
		}
	case "label":
		for _, label := range gangLabels {
			if name = first.Metadata.Labels[label.name]; name != "" {
				if label.index != "" {
					name += "-" + first.Metadata.Labels[label.index]
				}
				break
			}
		}
	default:
		for _, p := range pods {
			name = cmp.Or(name, p.Metadata.controller().Name)
		}
		g.whole = slices.Contains(gangKinds, c.Kind) || groupOf(c.APIVersion) == "batch.volcano.sh"
		g.near = !g.whole
	}
	name = cmp.Or(name, first.Metadata.Name)
	o := &kubeOwner{place: first.place, pods: pods}
	o.Metadata.Namespace, o.Metadata.Name, o.Metadata.UID = first.Metadata.Namespace, name, first.Metadata.UID
	id := o.id()
	if used[id] {
		id = key
	}
	used[id] = true
	var asks []kubePods
	gpus := false
	for _, p := range pods {
		asks = append(asks, kubePods{kubeTemplate{Metadata: p.Metadata, Spec: p.Spec.PodSpec}, 1})
		gpus = gpus || p.need.milli > 0
	}
	asked, known := l.kubeAsked(k, o, id, asks)
	if asked.SubmitUs == 0 {
		return
	}
	jobs := len(l.Jobs)
	l.kubeGang(k, &g, asked, known)
	switch jobs = len(l.Jobs) - jobs; {
	case !gpus:
	case jobs < len(pods):
		l.Report.assume("pods of a job that was not read, which ran together: one job", first.place)
	default:
		for _, p := range pods {
			l.Report.assume("pods that belong to owners that were not read: each counts as a job of its own", p.place)
		}
	}
}
