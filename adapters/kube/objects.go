package kube

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"net/url"

	"github.com/hare-sched/hare/history"
)

// Names of annotations by which users talk to the helper, and the helper to them.
const (
	// ManagedAnnotation is "true" on a suspended Job that the helper may let go.
	ManagedAnnotation = "hare.dev/managed"
	// HoldAnnotation keeps a Job back, whatever its value.
	HoldAnnotation = "hare.dev/hold"
	// StartedAnnotation is written when the helper lets a Job go: the GPU type that it chose.
	StartedAnnotation = "hare.dev/started-on"
)

// kueueQueueLabel is on Jobs that Kueue starts.
const kueueQueueLabel = "kueue.x-k8s.io/queue-name"

// meta is the metadata of an object.
type meta struct {
	Name, Namespace, UID, ResourceVersion string
	Labels, Annotations                   map[string]string
	CreationTimestamp                     time.Time
	DeletionTimestamp                     *time.Time
	OwnerReferences                       []struct {
		Kind, Name, UID string
		Controller      bool
	}
}

func (m *meta) id() string { return m.Namespace + "/" + m.Name }

// controller returns the kind of the object that controls this one; "" for none.
func (m *meta) controller() string {
	for _, r := range m.OwnerReferences {
		if r.Controller {
			return r.Kind
		}
	}
	return ""
}

type condition struct {
	Type, Status, Reason string
	LastTransitionTime   time.Time
}

func is(conditions []condition, kind string) bool {
	return slices.ContainsFunc(conditions, func(c condition) bool { return c.Type == kind && c.Status == "True" })
}

type taint struct{ Key, Value, Effect string }

func (t taint) String() string { return t.Key + "=" + t.Value + ":" + t.Effect }

type toleration struct{ Key, Operator, Value, Effect string }

// tolerates reports whether a toleration covers a taint.
func (t toleration) tolerates(of taint) bool {
	return (t.Effect == "" || t.Effect == of.Effect) && (t.Key == "" && t.Operator == "Exists" ||
		t.Key == of.Key && (t.Operator == "Exists" || t.Value == of.Value))
}

// podSpec is what a pod asks for.
type podSpec struct {
	history.PodSpec
	Tolerations     []toleration
	SchedulingGates []struct{ Name string }
	// unclear names a rule of which the helper cannot tell whether nodes keep it; "" for none.
	unclear string
}

// UnmarshalJSON reads a specification, and looks for rules that the helper does not understand.
func (s *podSpec) UnmarshalJSON(text []byte) error {
	type plain podSpec
	if err := json.Unmarshal(text, (*plain)(s)); err != nil {
		return err
	}
	type required struct {
		Rules []json.RawMessage `json:"requiredDuringSchedulingIgnoredDuringExecution"`
	}
	var more struct {
		Affinity                   struct{ PodAffinity, PodAntiAffinity required }
		TopologySpreadConstraints  []struct{ WhenUnsatisfiable string }
		ResourceClaims             []json.RawMessage
		Containers, InitContainers []struct {
			Ports     []struct{ HostPort int64 }
			Resources struct{ Requests, Limits map[string]json.RawMessage }
		}
	}
	if err := json.Unmarshal(text, &more); err != nil {
		return err
	}
	switch {
	case len(more.Affinity.PodAffinity.Rules)+len(more.Affinity.PodAntiAffinity.Rules) > 0:
		s.unclear = "a required affinity to pods"
	case len(more.ResourceClaims) > 0:
		s.unclear = "claims of devices"
	}
	for _, c := range more.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != "ScheduleAnyway" {
			s.unclear = "a required spread over the topology"
		}
	}
	for _, c := range slices.Concat(more.Containers, more.InitContainers) {
		if slices.ContainsFunc(c.Ports, func(p struct{ HostPort int64 }) bool { return p.HostPort > 0 }) {
			s.unclear = "ports of nodes"
		}
		for _, list := range []map[string]json.RawMessage{c.Resources.Requests, c.Resources.Limits} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				if strings.Contains(name, "/") && !history.IsGPU(name) {
					s.unclear = "pods that ask for " + name
				}
			}
		}
	}
	return nil
}

type template struct {
	Metadata meta
	Spec     podSpec
}

type node struct {
	partial
	Metadata meta
	Spec     struct {
		Unschedulable bool
		Taints        []taint
	}
	Status struct {
		Allocatable map[string]history.Quantity
		Conditions  []condition
	}
}

type pod struct {
	partial
	Metadata meta
	Spec     podSpec
	Status   struct {
		Phase      string
		StartTime  *time.Time
		Conditions []condition
	}
}

// over reports whether the pod has ended.
func (p *pod) over() bool { return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed" }

// owner returns the UID of the object that made the pod; "" for none.
func (p *pod) owner() string {
	for _, r := range p.Metadata.OwnerReferences {
		if r.Controller || len(p.Metadata.OwnerReferences) == 1 {
			return r.UID
		}
	}
	return ""
}

type job struct {
	partial
	Metadata meta
	Spec     struct {
		Parallelism, Completions *int64
		Suspend                  bool
		ActiveDeadlineSeconds    int64
		ManagedBy                string
		Template                 template
	}
	Status struct {
		StartTime, CompletionTime *time.Time
		Conditions                []condition
		Active                    int64
	}
	// work is the Workload of Kueue that this job is made of; nil for Jobs.
	work *workload
	// sets is what this job is made of where it is a JobSet or PyTorchJob; nil for others.
	sets *podSets
}

// podsUID is the UID of the object that owns the job's pods.
func (j *job) podsUID() string {
	if j.work != nil {
		return j.work.rootUID()
	}
	return j.Metadata.UID
}

// pods is how many pods of the job run at the same time.
func (j *job) pods() int64 {
	n := int64(1)
	if j.Spec.Parallelism != nil {
		n = *j.Spec.Parallelism
	}
	if j.Spec.Completions != nil {
		n = min(n, *j.Spec.Completions)
	}
	return n
}

// ended reports whether the job is over.
func (j *job) ended() bool {
	return is(j.Status.Conditions, "Complete") || is(j.Status.Conditions, "Failed") ||
		is(j.Status.Conditions, "SuccessCriteriaMet") || is(j.Status.Conditions, "FailureTarget")
}

// selection is what the selectors of a pod say of the nodes that it may have.
type selection struct {
	types []string // of GPUs; nil means all
	only  map[string][]string
	not   map[string][]string
	// unclear says that there is a rule that the helper does not understand.
	unclear string
}

// selects reads the node selector and the required node affinity of a pod.
func (s *podSpec) selects(typeLabel string) selection {
	out := selection{only: map[string][]string{}, not: map[string][]string{}}
	keep := func(label string, values []string) {
		values = slices.Clone(values)
		if before, ok := out.only[label]; ok {
			values = slices.DeleteFunc(values, func(v string) bool { return !slices.Contains(before, v) })
		}
		slices.Sort(values)
		out.only[label] = slices.Compact(values)
	}
	for _, label := range slices.Sorted(maps.Keys(s.NodeSelector)) {
		keep(label, []string{s.NodeSelector[label]})
	}
	terms := s.Affinity.NodeAffinity.Required.NodeSelectorTerms
	switch {
	case len(terms) > 1:
		out.unclear = "a node affinity of several terms"
	case len(terms) == 1 && len(terms[0].MatchFields) > 0:
		out.unclear = "a node affinity by fields"
	case len(terms) == 1:
		for _, e := range terms[0].MatchExpressions {
			switch e.Operator {
			case "In":
				keep(e.Key, e.Values)
			case "NotIn":
				out.not[e.Key] = append(out.not[e.Key], e.Values...)
			default:
				out.unclear = "a node affinity by the operator " + e.Operator
			}
		}
	}
	if types, ok := out.only[typeLabel]; ok {
		out.types = types
		delete(out.only, typeLabel)
	}
	return out
}

// allows reports whether a node has the labels that are asked for, its GPU type apart.
func (s *selection) allows(labels map[string]string) bool {
	for label, values := range s.only {
		if value, ok := labels[label]; !ok || !slices.Contains(values, value) {
			return false
		}
	}
	for label, values := range s.not {
		if value, ok := labels[label]; ok && slices.Contains(values, value) {
			return false
		}
	}
	return true
}

// tolerated reports whether a pod may be on a node with these taints.
func (s *podSpec) tolerated(taints []taint) bool {
	for _, t := range taints {
		if t.Effect != "PreferNoSchedule" &&
			!slices.ContainsFunc(s.Tolerations, func(x toleration) bool { return x.tolerates(t) }) {
			return false
		}
	}
	return true
}

// us returns a time in microseconds since 1970; 0 for none.
func us(at *time.Time) int64 {
	if at == nil || at.Year() < 1970 || at.Year() > 2199 {
		return 0
	}
	return at.UnixMicro()
}

// before orders objects by age and name.
func before(a, b *meta) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp), strings.Compare(a.id(), b.id()))
}

// SelectorAnnotation is written on a Workload or a Job whose pods the helper sends to a GPU type: the names of the
// node selectors that it has added, with commas.
const SelectorAnnotation = "hare.dev/selectors"

// workload is a Workload of Kueue.
type workload struct {
	partial
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

// hasPriorityClass reports whether the user chose the priority.
func (w *workload) hasPriorityClass() bool {
	return w.Spec.PriorityClassName != "" || len(w.Spec.PriorityClassRef) > 0 && string(w.Spec.PriorityClassRef) != "null"
}

// clusterQueue is a ClusterQueue of Kueue.
type clusterQueue struct {
	partial
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
	// several says that other flavors of the queue have this type too.
	several bool
}

// queueUser is the user of the quotas of a ClusterQueue in the session.
func (q *clusterQueue) queueUser() string { return "ClusterQueue " + q.Metadata.Name }

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

// setKind is a kind of object that makes pods by several templates.
type setKind struct {
	kind, version string // version is group and version of the API
	plural        string
	suspend       []string // path of the field that suspends
	controller    string   // value of managedBy of the kind's own controller
	read          func(text json.RawMessage, s *podSets) error
}

func (k *setKind) listPath() string { return "/apis/" + k.version + "/" + k.plural }

// podSets is what the helper knows of a JobSet or PyTorchJob besides a Job's fields.
type podSets struct {
	kind *setKind
	// templates are those whose pods ask for GPUs, with their paths in the object.
	templates []setTemplate
	// pods counts the pods of templates; clamped, so that it cannot overflow.
	pods int64
	// why says why the object is left alone; "" where it is not.
	why       string
	suspended bool
	managedBy string
	deadlineS int64
}

type setTemplate struct {
	path     []string
	template template
}

// id names a job in plans, in the journal and in what is printed. Objects of different kinds may have the
// same name.
func (j *job) id() string {
	if j.sets != nil {
		return strings.ToLower(j.sets.kind.kind) + ":" + j.Metadata.id()
	}
	return j.Metadata.id()
}

// kind is what users call a job that is not a Workload.
func (j *job) kind() string {
	if j.sets != nil {
		return j.sets.kind.kind
	}
	return "Job"
}

// path is where the API server has the job.
func (j *job) path() string {
	m := &j.Metadata
	if j.sets != nil {
		return "/apis/" + j.sets.kind.version + "/namespaces/" + url.PathEscape(m.Namespace) + "/" + j.sets.kind.plural +
			"/" + url.PathEscape(m.Name)
	}
	return "/apis/batch/v1/namespaces/" + url.PathEscape(m.Namespace) + "/jobs/" + url.PathEscape(m.Name)
}

// FreedAnnotation is written on a Job that is freed: the GPU types that it is kept off, with the times in seconds
// since 1970 at which it was freed of them, such as V100=1764328000,T4=1764329000.
const FreedAnnotation = "hare.dev/freed"

// ours reports whether the helper has chosen the type of a Job that it let go, which the user left open.
func (j *job) ours(typeLabel string) bool {
	return j.work == nil && slices.Contains(strings.Split(j.Metadata.Annotations[SelectorAnnotation], ","), typeLabel)
}

// choosesOpen reports whether the user leaves the type open in all templates.
func (j *job) choosesOpen(typeLabel string) bool {
	open := func(t *template) bool { _, set := t.Spec.NodeSelector[typeLabel]; return !set }
	if j.sets == nil {
		return open(&j.Spec.Template)
	}
	return !slices.ContainsFunc(j.sets.templates, func(t setTemplate) bool { return !open(&t.template) })
}

// held is what a pod needs of a node.
func held(s *podSpec) history.Demand { return s.Demand() }
