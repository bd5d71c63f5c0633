package history

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// kubeMeta holds the metadata of any object of Kubernetes that are read.
type kubeMeta struct {
	Name, Namespace, UID, GenerateName string
	Labels, Annotations                map[string]string
	CreationTimestamp                  time.Time
	DeletionTimestamp                  time.Time
	OwnerReferences                    []struct {
		Kind, Name, UID string
		Controller      bool
	}
}

// kubeCondition is a condition of a status.
type kubeCondition struct {
	Type, Status, Reason string
	LastTransitionTime   time.Time
}

// kubeExpression is an expression of a node selector.
type kubeExpression struct {
	Key, Operator string
	Values        []string
}

// PodSpec is the part of the specification of a pod of Kubernetes that says what the pod needs.
type PodSpec struct {
	NodeName       string
	NodeSelector   map[string]string
	Containers     []Container
	InitContainers []Container
	Affinity       struct {
		NodeAffinity struct {
			Required struct {
				NodeSelectorTerms []struct{ MatchExpressions, MatchFields []kubeExpression }
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		}
	}
}

// Container is a container of a pod with its resources.
type Container struct {
	Resources struct{ Requests, Limits map[string]Quantity }
}

// kubeTemplate is a template of pods.
type kubeTemplate struct {
	Metadata kubeMeta
	Spec     PodSpec
}

// kubeJobSpec is the specification of a batch/v1 Job.
type kubeJobSpec struct {
	Parallelism, Completions *int64
	Suspend                  bool
	ActiveDeadlineSeconds    int64
	Template                 kubeTemplate
}

// kubeReplicas are the pods of one role of a PyTorchJob.
type kubeReplicas struct {
	Replicas *int64
	Template kubeTemplate
}

// kubeRunPolicy is the run policy of a PyTorchJob.
type kubeRunPolicy struct {
	Suspend               bool
	ActiveDeadlineSeconds int64
}

// kubeObject holds the members of all kinds that are read. Names that several kinds have mean the
// same, or are of the same form.
type kubeObject struct {
	Kind     string
	Metadata kubeMeta
	Spec     struct {
		PodSpec
		kubeJobSpec
		Unschedulable bool // of a node
		// of a JobSet
		ReplicatedJobs []struct {
			Replicas *int64
			Template struct{ Spec kubeJobSpec }
		}
		PyTorchReplicaSpecs map[string]kubeReplicas // of a PyTorchJob
		RunPolicy           kubeRunPolicy
		// of a Workload of Kueue
		Active    *bool
		QueueName string
		PodSets   []struct {
			Count    int64
			Template kubeTemplate
		}
		NodeLabels     map[string]string // of a ResourceFlavor
		ClusterQueue   string            // of a LocalQueue
		ResourceGroups []struct {        // of a ClusterQueue
			CoveredResources []string
			Flavors          []struct{ Name string }
		}
	}
	Status struct {
		Allocatable, Capacity map[string]Quantity
		Phase                 string
		Conditions            []kubeCondition
		StartTime             time.Time
		CompletionTime        time.Time
		ContainerStatuses     []struct {
			State struct {
				Terminated struct{ FinishedAt time.Time }
			}
		}
	}
	// of an event
	Reason         string
	InvolvedObject struct{ Kind, Name string }
	Regarding      struct{ Kind, Name string }
	FirstTimestamp time.Time
	LastTimestamp  time.Time
	EventTime      time.Time
}

// condition returns a condition; its type is "" if there is none.
func (o *kubeObject) condition(kind string) kubeCondition {
	for _, c := range o.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return kubeCondition{}
}

// id returns namespace/name.
func (o *kubeObject) id() string {
	if o.Metadata.Namespace == "" {
		return o.Metadata.Name
	}
	return o.Metadata.Namespace + "/" + o.Metadata.Name
}

// Quantity is an amount of Kubernetes, such as 500m, 4 or 64Gi, in thousandths.
type Quantity int64

var quantityUnits = map[string]float64{"m": 1e-3, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60, "n": 1e-9, "u": 1e-6}

// UnmarshalJSON reads a number or a string.
func (q *Quantity) UnmarshalJSON(text []byte) error {
	var word string
	if len(text) > 0 && text[0] == '"' {
		if err := json.Unmarshal(text, &word); err != nil {
			return err
		}
	} else if word = string(text); word == "null" {
		return nil
	}
	number := strings.TrimRight(word, "numkKMGTPEi")
	unit, known := quantityUnits[word[len(number):]]
	x, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(x >= 0) {
		return fmt.Errorf("%.40q is not an amount such as 500m, 4 or 64Gi", word)
	}
	*q = Quantity(math.Round(min(x*unit*1000, 1<<62)))
	return nil
}

// Whole returns the amount without its fraction.
func (q Quantity) Whole() int64 { return int64(q) / 1000 }

// MiB returns an amount of bytes in MiB, without its fraction.
func (q Quantity) MiB() int64 { return int64(float64(q) / 1000 / (1 << 20)) }

// IsGPU says whether a resource counts whole GPUs, such as nvidia.com/gpu and amd.com/gpu.
func IsGPU(resource string) bool { return strings.HasSuffix(resource, "/gpu") }

// isGPUPart says whether a resource counts parts of GPUs, or shared ones.
func isGPUPart(resource string) bool {
	_, name, ok := strings.Cut(resource, "/")
	return ok && (strings.HasPrefix(name, "mig-") || name == "gpu.shared")
}

// Demand is what a pod holds.
type Demand struct{ GPUs, CPUMilli, MemoryMiB int64 }

// Demand returns what a pod of the specification holds: the sum of its containers, or what an init
// container needs if that is more.
func (s *PodSpec) Demand() (d Demand) {
	of := func(c *Container) (d Demand) {
		for name, limit := range c.Resources.Limits { // a GPU's request is its limit
			if IsGPU(name) {
				d.GPUs += limit.Whole()
			}
		}
		for name, request := range c.Resources.Requests {
			if _, limited := c.Resources.Limits[name]; IsGPU(name) && !limited {
				d.GPUs += request.Whole()
			}
		}
		amount := func(name string) Quantity {
			if q, ok := c.Resources.Requests[name]; ok {
				return q
			}
			return c.Resources.Limits[name]
		}
		d.CPUMilli, d.MemoryMiB = int64(amount("cpu")), amount("memory").MiB()
		return d
	}
	for i := range s.Containers {
		one := of(&s.Containers[i])
		d.GPUs, d.CPUMilli, d.MemoryMiB = d.GPUs+one.GPUs, d.CPUMilli+one.CPUMilli, d.MemoryMiB+one.MemoryMiB
	}
	for i := range s.InitContainers {
		one := of(&s.InitContainers[i])
		d.GPUs, d.CPUMilli = max(d.GPUs, one.GPUs), max(d.CPUMilli, one.CPUMilli)
		d.MemoryMiB = max(d.MemoryMiB, one.MemoryMiB)
	}
	return d
}

// us returns a time in microseconds since 1970; 0 for none, or for one that cannot be.
func us(at time.Time) int64 {
	if at.Year() < 1970 || at.Year() > 2199 {
		return 0
	}
	return at.UnixMicro()
}
