package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hare-sched/hare/history"
)

// Under Kueue every job of any kind has a Workload, which Kueue starts where quota is left. The helper
// reads and writes Workloads alone: a change of a suspended Job's node selector would be fatal, since
// Kueue would not see it before it has chosen a flavor.

// SelectorAnnotation is written on a Workload whose pods the helper sends to a GPU type: the names of the
// node selectors that it has added, with commas.
const SelectorAnnotation = "hare.dev/selectors"

// admissionWait is how long a Workload keeps the type that the helper chose while Kueue does not admit it.
const admissionWait = 15 * time.Second

// workload is a Workload of Kueue.
type workload struct {
	Metadata meta
	Spec     struct {
		Active                      *bool
		QueueName                   string
		Priority                    int64
		PriorityClassName           string          // of v1beta1
		PriorityClassRef            json.RawMessage // since v1beta2
		MaximumExecutionTimeSeconds int64
		PodSets                     []struct {
			Name     string
			Count    int64
			Template template
		}
	}
	Status struct{ Conditions []condition }

	queue *clusterQueue // nil where there is none
	// sets are the places in PodSets of those whose pods ask for GPUs.
	sets []int
	// unlike says why the pods cannot be planned as one gang; "" where they can.
	unlike string
	// managed says that the Workload's user, or whoever runs its queue, opted in.
	managed bool
}

// rootUID is the UID of the object that the Workload was made for.
func (w *workload) rootUID() string {
	for _, r := range w.Metadata.OwnerReferences {
		return r.UID
	}
	return w.Metadata.UID
}

// hasPriorityClass says whether the user chose the priority.
func (w *workload) hasPriorityClass() bool {
	return w.Spec.PriorityClassName != "" || len(w.Spec.PriorityClassRef) > 0 && string(w.Spec.PriorityClassRef) != "null"
}

// clusterQueue is a ClusterQueue of Kueue.
type clusterQueue struct {
	Metadata meta
	Spec     struct {
		Cohort, CohortName string
		Preemption         struct {
			WithinClusterQueue, ReclaimWithinCohort string
			BorrowWithinCohort                      struct{ Policy string }
		}
		FairSharing, AdmissionScope json.RawMessage
		ResourceGroups              []struct {
			Flavors []struct {
				Name      string
				Resources []struct {
					Name         string
					NominalQuota history.Quantity
				}
			}
		}
	}

	types map[string]queueFlavor // by GPU type
	// noOrder says why the helper must not change priorities; "" where it may.
	noOrder string
}

// queueFlavor is what a ClusterQueue has of a GPU type.
type queueFlavor struct {
	labels map[string]string // of the flavor's nodes
	gpus   int64             // of the quota; −1 where the cohort lends more
}

type localQueue struct {
	Metadata meta
	Spec     struct{ ClusterQueue string }
}

type resourceFlavor struct {
	Metadata meta
	Spec     struct{ NodeLabels map[string]string }
}

// kueueGroup and kueueVersions are where Kueue's objects are.
const kueueGroup = "/apis/kueue.x-k8s.io/"

var kueueVersions = []string{"v1beta2", "v1beta1"}

// errNoKueue says that a cluster has no Kueue.
var errNoKueue = errors.New("the cluster has no Workloads of Kueue: leave --kueue out, or install Kueue")

// readWorkloads reads Kueue's objects, and returns the Workloads as jobs.
func (h *Helper) readWorkloads(ctx context.Context, nodes []node, jobs []job) ([]job, error) {
	var works []workload
	err, version := errNoKueue, ""
	for _, v := range kueueVersions {
		works, version, err = list[workload](ctx, h.api, kueueGroup+v+"/workloads")
		if statusOf(err) != http.StatusNotFound {
			h.kueueVersion = v
			break
		}
		err = errNoKueue
	}
	if err != nil {
		return nil, err
	}
	root := kueueGroup + h.kueueVersion
	h.versions[root+"/workloads"] = version
	flavors, _, err := list[resourceFlavor](ctx, h.api, root+"/resourceflavors")
	if err != nil {
		return nil, err
	}
	clusterQueues, _, err := list[clusterQueue](ctx, h.api, root+"/clusterqueues")
	if err != nil {
		return nil, err
	}
	localQueues, _, err := list[localQueue](ctx, h.api, root+"/localqueues")
	if err != nil {
		return nil, err
	}
	types := h.flavorTypes(nodes, flavors)
	queues := map[string]*clusterQueue{} // by namespace/name of the LocalQueue
	managed := map[string]bool{}
	byName := map[string]*clusterQueue{}
	for i := range clusterQueues {
		q := &clusterQueues[i]
		q.noOrder = q.whyNoOrder()
		q.offer(types, flavors)
		byName[q.Metadata.Name] = q
	}
	for i := range localQueues {
		l := &localQueues[i]
		q := byName[l.Spec.ClusterQueue]
		queues[l.Metadata.id()] = q
		managed[l.Metadata.id()] = l.Metadata.Annotations[ManagedAnnotation] == "true" ||
			q != nil && q.Metadata.Annotations[ManagedAnnotation] == "true"
	}
	owners := map[string]*job{}
	for i := range jobs {
		owners[jobs[i].Metadata.UID] = &jobs[i]
	}
	out := make([]job, 0, len(works))
	for i := range works {
		w := &works[i]
		id := w.Metadata.Namespace + "/" + w.Spec.QueueName
		w.queue, w.managed = queues[id], managed[id]
		out = append(out, w.job(owners[w.rootUID()]))
	}
	return out, nil
}

// flavorTypes maps the flavors whose nodes with GPUs all have one GPU type to this type.
func (h *Helper) flavorTypes(nodes []node, flavors []resourceFlavor) map[string]string {
	types := map[string]string{}
	for i := range flavors {
		f := &flavors[i]
		if len(f.Spec.NodeLabels) == 0 {
			continue // no selector leads to this flavor alone
		}
		one, several := "", false
		for n := range nodes {
			labels := nodes[n].Metadata.Labels
			has := func(name, value string) bool { return labels[name] == value }
			match := true
			for name, value := range f.Spec.NodeLabels {
				match = match && has(name, value)
			}
			if gpuType := labels[h.cfg.TypeLabel]; match && gpuType != "" {
				several = several || one != "" && one != gpuType
				one = gpuType
			}
		}
		if one != "" && !several {
			types[f.Metadata.Name] = one
		}
	}
	return types
}

// whyNoOrder says why priorities must not be changed in a queue; "" where they may.
func (q *clusterQueue) whyNoOrder() string {
	never := func(policy string) bool { return policy == "" || policy == "Never" }
	there := func(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }
	p := &q.Spec.Preemption
	switch {
	case !never(p.WithinClusterQueue), !never(p.ReclaimWithinCohort), !never(p.BorrowWithinCohort.Policy):
		return "preempts"
	case there(q.Spec.FairSharing) && q.Spec.CohortName+q.Spec.Cohort != "":
		return "shares fairly"
	case there(q.Spec.AdmissionScope):
		return "admits by usage"
	case q.Metadata.Annotations[ManagedAnnotation] != "true":
		return "has not opted in by the annotation " + ManagedAnnotation
	}
	return ""
}

// offer finds the GPU types of a queue; of several flavors of a type the one with the largest quota.
func (q *clusterQueue) offer(types map[string]string, flavors []resourceFlavor) {
	q.types = map[string]queueFlavor{}
	for _, group := range q.Spec.ResourceGroups {
		for _, f := range group.Flavors {
			gpuType := types[f.Name]
			at := slices.IndexFunc(flavors, func(x resourceFlavor) bool { return x.Metadata.Name == f.Name })
			if gpuType == "" || at < 0 {
				continue
			}
			offer := queueFlavor{labels: flavors[at].Spec.NodeLabels}
			for _, r := range f.Resources {
				if history.IsGPU(r.Name) {
					offer.gpus += r.NominalQuota.Whole()
				}
			}
			if q.Spec.CohortName+q.Spec.Cohort != "" {
				offer.gpus = -1
			}
			if before, ok := q.types[gpuType]; !ok || offer.gpus > before.gpus && before.gpus >= 0 {
				q.types[gpuType] = offer
			}
		}
	}
}

// job is a Workload as the helper knows jobs. owner is the Job that it was made for; nil for others.
func (w *workload) job(owner *job) job {
	j := job{Metadata: w.Metadata, work: w}
	j.Metadata.Annotations = maps.Clone(w.Metadata.Annotations)
	if owner != nil {
		if j.Metadata.Annotations == nil {
			j.Metadata.Annotations = map[string]string{}
		}
		for _, name := range []string{ManagedAnnotation, HoldAnnotation, history.SecondsAnnotation} {
			if value, ok := owner.Metadata.Annotations[name]; ok {
				j.Metadata.Annotations[name] = value
			}
		}
	}
	pods := int64(0)
	first := -1
	for i := range w.Spec.PodSets {
		set := &w.Spec.PodSets[i]
		if held(&set.Template.Spec).GPUs == 0 || set.Count <= 0 {
			continue
		}
		w.sets = append(w.sets, i)
		pods += set.Count
		if first < 0 {
			first, j.Spec.Template = i, set.Template
			continue
		}
		if a, b := &w.Spec.PodSets[first].Template.Spec, &set.Template.Spec; !alike(a, b) {
			w.unlike = "has pods with GPUs that ask for different things"
		}
	}
	if ours := w.selectors(); ours != nil && !is(w.Status.Conditions, "QuotaReserved") {
		// The plan may choose anew: what the helper chose before does not bind it.
		spec := &j.Spec.Template.Spec
		spec.NodeSelector = maps.Clone(spec.NodeSelector)
		maps.DeleteFunc(spec.NodeSelector, func(name, _ string) bool { return slices.Contains(ours, name) })
	}
	j.Spec.Parallelism = &pods
	j.Spec.Suspend = !is(w.Status.Conditions, "QuotaReserved")
	j.Spec.ActiveDeadlineSeconds = w.Spec.MaximumExecutionTimeSeconds
	for _, c := range w.Status.Conditions {
		at := c.LastTransitionTime
		switch {
		case c.Status != "True":
		case c.Type == "Admitted":
			j.Status.StartTime = &at
		case c.Type == "Finished":
			j.Status.CompletionTime = &at
			kind := "Complete"
			if strings.Contains(c.Reason, "Fail") || strings.Contains(c.Reason, "OutOfSync") {
				kind = "Failed"
			}
			j.Status.Conditions = append(j.Status.Conditions, condition{Type: kind, Status: "True"})
		}
	}
	return j
}

// alike says whether pods of two kinds may be on the same nodes and ask for the same.
func alike(a, b *podSpec) bool {
	return held(a) == held(b) && maps.Equal(a.NodeSelector, b.NodeSelector) &&
		slices.Equal(a.Tolerations, b.Tolerations) && a.unclear == b.unclear &&
		fmt.Sprint(a.Affinity) == fmt.Sprint(b.Affinity)
}

// admits says whether Kueue could ever admit the job on a GPU type.
func (j *job) admits(gpuType string) bool {
	if j.work == nil {
		return true
	}
	if j.work.queue == nil {
		return false
	}
	f, ok := j.work.queue.types[gpuType]
	return ok && (f.gpus < 0 || f.gpus >= j.pods()*held(&j.Spec.Template.Spec).GPUs)
}

// whyNotWorkload says why the helper does not choose the type of a Workload; "" where it may.
func (h *Helper) whyNotWorkload(s *state, j *job) string {
	w := j.work
	switch {
	case w.Metadata.DeletionTimestamp != nil:
		return "is being deleted"
	case w.Spec.Active != nil && !*w.Spec.Active:
		return "is not active"
	case w.queue == nil:
		return "has no ClusterQueue"
	case len(w.queue.types) == 0:
		return "is in a ClusterQueue whose flavors do not tell GPU types apart"
	case j.Metadata.Annotations[HoldAnnotation] != "":
		return "is held by the annotation " + HoldAnnotation
	case len(s.pods[j.podsUID()]) > 0:
		return "has lost its quota, and its pods are still there"
	case len(j.Spec.Template.Spec.SchedulingGates) > 0:
		return "has scheduling gates"
	case w.unlike != "":
		return w.unlike
	}
	return h.unclear(j)
}

// Operations of a JSON patch (RFC 6902).
type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// pointer makes a JSON pointer of steps.
func pointer(steps ...string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, s := range steps {
		b.WriteString("/" + escape.Replace(s))
	}
	return b.String()
}

// workUpdate is a write of a Workload. The resourceVersion makes it fail with a conflict where somebody else
// has changed the Workload since it was read.
func (h *Helper) workUpdate(j *job, was, now, reason string, operations []patchOperation) Update {
	m := &j.work.Metadata
	return Update{Job: m.id(), UID: m.UID, Old: was, New: now, Reason: reason, work: j.work, operations: operations,
		path: kueueGroup + h.kueueVersion + "/namespaces/" + url.PathEscape(m.Namespace) + "/workloads/" +
			url.PathEscape(m.Name)}
}

// jsonPatch is the patch of a Workload, whose version may have changed by an earlier patch of the loop.
func (u *Update) jsonPatch() []byte {
	text, _ := json.Marshal(append([]patchOperation{{"replace", "/metadata/resourceVersion",
		u.work.Metadata.ResourceVersion}}, u.operations...)) // strings, numbers and maps of strings are always JSON
	return text
}

// selectors are the node selectors that the helper has added to a Workload, sorted.
func (w *workload) selectors() []string {
	text := w.Metadata.Annotations[SelectorAnnotation]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// chosen is the GPU type that the helper has chosen for a waiting Workload; "" for none.
func (w *workload) chosen() string { return w.Metadata.Annotations[StartedAnnotation] }

// choice is the patch that sends the pods of a Workload to a GPU type, or takes back what was chosen
// before where gpuType is "".
func (w *workload) choice(gpuType string) (operations []patchOperation) {
	labels := map[string]string{}
	if gpuType != "" { // admits has found it
		labels = maps.Clone(w.queue.types[gpuType].labels)
	}
	ours := w.selectors()
	for _, i := range w.sets {
		before := w.Spec.PodSets[i].Template.Spec.NodeSelector
		at := []string{"spec", "podSets", fmt.Sprint(i), "template", "spec", "nodeSelector"}
		for _, name := range ours {
			if _, ok := before[name]; ok && labels[name] == "" {
				operations = append(operations, patchOperation{"remove", pointer(append(at, name)...), nil})
			}
		}
		if before == nil && len(labels) > 0 {
			operations = append(operations, patchOperation{"add", pointer(at...), labels})
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(labels)) {
			if before[name] != labels[name] {
				operations = append(operations, patchOperation{"add", pointer(append(at, name)...), labels[name]})
			}
		}
	}
	// What the user has selected is not the helper's to take back.
	var added []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		mine := slices.Contains(ours, name)
		for _, i := range w.sets {
			_, there := w.Spec.PodSets[i].Template.Spec.NodeSelector[name]
			mine = mine || !there
		}
		if mine {
			added = append(added, name)
		}
	}
	values := map[string]string{SelectorAnnotation: strings.Join(added, ","), StartedAnnotation: gpuType}
	return append(operations, w.annotate(values)...)
}

// annotate writes annotations, and removes those whose value is "".
func (w *workload) annotate(values map[string]string) (operations []patchOperation) {
	if w.Metadata.Annotations == nil {
		maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
		return []patchOperation{{"add", "/metadata/annotations", values}}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		_, there := w.Metadata.Annotations[name]
		switch at := pointer("metadata", "annotations", name); {
		case values[name] != "":
			operations = append(operations, patchOperation{"add", at, values[name]})
		case there:
			operations = append(operations, patchOperation{"remove", at, nil})
		}
	}
	return operations
}

// undoChoices takes types back that were chosen for Workloads that do not start: because the plan has
// changed, or because Kueue did not admit them in time.
func (h *Helper) undoChoices(s *state, result *Result) (updates []Update) {
	starting := map[string]bool{}
	for _, t := range result.Turns {
		starting[t.Job] = t.Why == ""
	}
	for _, j := range s.jobs {
		w := j.work
		if w == nil || !j.Spec.Suspend || w.chosen() == "" || starting[j.Metadata.id()] {
			continue
		}
		delete(h.chosenAt, w.Metadata.UID)
		updates = append(updates, h.workUpdate(j, w.chosen(), "any type", "does not start now", w.choice("")))
	}
	return updates
}

// keepChoices finds the Workloads that keep the type that was chosen for them before, and takes room for
// them: the plan may change its mind while Kueue is about to admit them. Where Kueue has not admitted one
// in time, others go first for a while.
func (h *Helper) keepChoices(s *state) (kept map[string]bool) {
	kept = map[string]bool{}
	for _, j := range s.jobs {
		if j.work == nil || s.waiting[j.Metadata.id()] != j || j.work.chosen() == "" {
			continue
		}
		uid, now := j.Metadata.UID, h.now()
		since, known := h.chosenAt[uid]
		if !known { // by a helper before this one
			since = now
			h.chosenAt[uid] = now
		}
		switch {
		case now.Sub(since) >= admissionWait:
			h.refused[uid] = refusal{until: now.Add(firstRefusalWait), wait: firstRefusalWait}
		case j.admits(j.work.chosen()) && h.fitsNow(s, j, j.work.chosen()):
			kept[j.Metadata.id()] = true
		}
	}
	return kept
}

// chooseType is the write that sends a Workload to the type of its turn.
func (h *Helper) chooseType(j *job, gpuType, reason string) Update {
	was := cmp.Or(j.work.chosen(), "any type")
	h.chosenAt[j.Metadata.UID] = h.now()
	u := h.workUpdate(j, was, gpuType, reason, j.work.choice(gpuType))
	u.Type = gpuType
	return u
}

// forget drops what was known of Workloads that do not wait any more.
func (h *Helper) forget(s *state) {
	waits := map[string]bool{}
	for _, j := range s.waiting {
		waits[j.Metadata.UID] = true
	}
	maps.DeleteFunc(h.chosenAt, func(uid string, _ time.Time) bool { return !waits[uid] })
}

// Priorities that the helper gives lie between these, and begin prioritySpace apart.
const (
	leastPriority = -1 << 30
	prioritySpace = 1 << 10
)

// order finds the changes of priorities that put the Workloads of each queue into the order of the plan, as
// few as can be. Priorities are at or below 0, so that they are never above that of others.
func (h *Helper) order(s *state, result *Result) (updates []Update) {
	lines := map[*clusterQueue][]*job{}
	var queues []*clusterQueue
	// Those that start now come before all others.
	turns := slices.Clone(result.Turns)
	slices.SortStableFunc(turns, func(a, b Turn) int { return cmp.Compare(min(1, len(a.Why)), min(1, len(b.Why))) })
	for _, t := range turns {
		j := s.waiting[t.Job]
		if j == nil || j.work == nil {
			continue
		}
		q := j.work.queue
		if q.noOrder != "" {
			if _, told := s.unordered[q]; !told {
				s.unordered[q] = true
				result.Unordered = append(result.Unordered, fmt.Sprintf("ClusterQueue %s %s", q.Metadata.Name, q.noOrder))
			}
			continue
		}
		if j.work.hasPriorityClass() {
			continue
		}
		if lines[q] == nil {
			queues = append(queues, q)
		}
		lines[q] = append(lines[q], j)
	}
	for _, q := range queues {
		line := lines[q]
		before := make([]int64, len(line))
		for i, j := range line {
			before[i] = j.work.Spec.Priority
		}
		for i, priority := range falling(before) {
			if priority != before[i] {
				updates = append(updates, h.workUpdate(line[i], fmt.Sprint("priority ", before[i]),
					fmt.Sprint("priority ", priority), fmt.Sprintf("place %d of %d in ClusterQueue %s", i+1, len(line),
						q.Metadata.Name), []patchOperation{{"add", "/spec/priority", priority}}))
			}
		}
	}
	return updates
}

// falling returns strictly falling numbers at or below 0 that differ from the given ones in as few places
// as there is room for. It takes O(n log n).
func falling(before []int64) []int64 {
	n := len(before)
	// The longest strictly falling subsequence of numbers that may stay; a number stays only where the places
	// since the one that stayed before find numbers between.
	tail, at, from := []int64{}, []int{}, make([]int, n)
	for i, p := range before {
		from[i] = -1
		if p > 0 || p < leastPriority {
			continue
		}
		key := -p - int64(i) // rising numbers with a place for each between: −p must rise by 1 a place
		k, _ := slices.BinarySearch(tail, key+1)
		if key < 0 {
			continue // fewer numbers from 0 down than places before
		}
		if k > 0 {
			from[i] = at[k-1]
		}
		if k == len(tail) {
			tail, at = append(tail, key), append(at, i)
		} else {
			tail[k], at[k] = key, i
		}
	}
	out := make([]int64, n)
	stays := make([]bool, n)
	if len(at) > 0 {
		for i := at[len(at)-1]; i >= 0; i = from[i] {
			out[i], stays[i] = before[i], true
		}
	}
	last, lastAt := int64(1), -1
	for i := 0; i <= n; i++ {
		if i < n && !stays[i] {
			continue
		}
		places := int64(i - lastAt)
		step := int64(prioritySpace)
		if i < n {
			step = max(1, (last-out[i])/places)
		}
		for k := lastAt + 1; k < i; k++ {
			last -= step
			if lastAt < 0 && k == 0 && step > 1 {
				last = 0
			}
			out[k] = last
		}
		if i < n {
			last, lastAt = out[i], i
		}
	}
	if n > 0 && out[n-1] < leastPriority {
		for i := range out {
			out[i] = -int64(i) * min(prioritySpace, -leastPriority/int64(n))
		}
	}
	return out
}

// releaseWorkloads finds the writes that take back all that the helper has written on waiting Workloads.
func (h *Helper) releaseWorkloads(s *state) (updates []Update) {
	for _, j := range s.jobs {
		w := j.work
		if !j.Spec.Suspend {
			continue
		}
		var operations []patchOperation
		was := ""
		if w.chosen() != "" {
			operations, was = w.choice(""), w.chosen()
		}
		if w.queue != nil && w.queue.noOrder == "" && !w.hasPriorityClass() && w.Spec.Priority < 0 {
			operations = append(operations, patchOperation{"add", "/spec/priority", 0})
			was = strings.TrimSpace(fmt.Sprint(was, " priority ", w.Spec.Priority))
		}
		if operations != nil {
			updates = append(updates, h.workUpdate(j, was, "as without Hare", "release", operations))
		}
	}
	return updates
}
