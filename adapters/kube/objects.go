package kube

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

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
