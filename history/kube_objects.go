package history

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
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
	OwnerReferences                    []kubeReference
}

// kubeReference names the object that an object belongs to.
type kubeReference struct {
	APIVersion, Kind, Name, UID string
	Controller                  bool
}

// controller returns the reference to what controls an object; nil for none.
func (m *kubeMeta) controller() *kubeReference {
	for i := range m.OwnerReferences {
		if r := &m.OwnerReferences[i]; r.Controller || len(m.OwnerReferences) == 1 {
			return r
		}
	}
	return nil
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
	Resources      Resources // of the pod as a whole, since 1.32
	ResourceClaims []struct{ Name, ResourceClaimName, ResourceClaimTemplateName string }
	// SchedulingGroup and WorkloadRef name the pod's PodGroup, since 1.36 and in 1.35.
	SchedulingGroup struct{ PodGroupName string }
	WorkloadRef     struct{ Name, PodGroup, PodGroupReplicaKey string }
	Affinity        struct {
		NodeAffinity struct {
			Required struct {
				NodeSelectorTerms []struct{ MatchExpressions, MatchFields []kubeExpression }
			} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		}
	}
}

// Container is a container of a pod with its resources.
type Container struct {
	RestartPolicy string // Always of an init container that runs beside the others
	Resources     Resources
}

// Resources are what a container asks for.
type Resources struct {
	Requests, Limits map[string]Quantity
	Claims           []struct{ Name, Request string }
}

// kubeTemplate is a template of pods.
type kubeTemplate struct {
	Metadata kubeMeta
	Spec     PodSpec
}

// kubeJobSpec is the specification of a batch/v1 Job.
type kubeJobSpec struct {
	Parallelism, Completions *int64
	CompletionMode           string
	Suspend                  bool
	ActiveDeadlineSeconds    int64
	Template                 kubeTemplate
}

// kubeReplicas are the pods of one role of a job of Kubeflow, of a task of Volcano, or of a group of Ray's workers.
type kubeReplicas struct {
	Replicas, NumOfHosts *int64
	Template             kubeTemplate
}

// kubeRunPolicy is the run policy of a job of Kubeflow.
type kubeRunPolicy struct {
	Suspend               bool
	ActiveDeadlineSeconds int64
}

// kubeReplicatedJob is a part of a JobSet.
type kubeReplicatedJob struct {
	Name     string
	Replicas *int64
	Template struct{ Spec kubeJobSpec }
}

// kubeRayCluster is the specification of a RayCluster.
type kubeRayCluster struct {
	HeadGroupSpec    *kubeReplicas
	WorkerGroupSpecs []kubeReplicas
}

// kubeDeviceRequest asks for devices; the members of Exactly stand in the request itself before v1beta2.
type kubeDeviceRequest struct {
	Name, DeviceClassName, AllocationMode string
	AdminAccess                           bool // to watch devices that others hold
	Count                                 int64
	Exactly                               *kubeDeviceRequest
	FirstAvailable                        []kubeDeviceRequest
}

// kubeAttribute is an attribute of a device.
type kubeAttribute struct{ String string }

// kubeDevice is a device of a ResourceSlice; the attributes stand in Basic before v1beta2.
type kubeDevice struct {
	Name       string
	Attributes map[string]kubeAttribute
	Basic      struct{ Attributes map[string]kubeAttribute }
}

// kubeSpec is the specification of an object.
type kubeSpec struct {
	PodSpec
	kubeJobSpec
	Unschedulable  bool                // of a node
	ReplicatedJobs []kubeReplicatedJob // of a JobSet
	// of the jobs of Kubeflow
	PyTorchReplicaSpecs, MPIReplicaSpecs, TFReplicaSpecs, XGBReplicaSpecs, PaddleReplicaSpecs, MXReplicaSpecs,
	JAXReplicaSpecs map[string]kubeReplicas
	RunPolicy kubeRunPolicy
	Trainer   struct { // of a TrainJob
		NumNodes         *int64
		ResourcesPerNode *Resources
	}
	kubeRayCluster
	RayClusterSpec       kubeRayCluster // of a RayJob
	Replicas             *int64         // of a LeaderWorkerSet
	LeaderWorkerTemplate struct {
		LeaderTemplate *kubeTemplate
		WorkerTemplate kubeTemplate
		Size           *int64
	}
	Tasks []kubeReplicas // of a Job of Volcano
	// of a PodGroup
	MinMember        int64
	SchedulingPolicy struct{ Gang struct{ MinCount int64 } }
	// of a Workload of Kueue
	Active                      *bool
	QueueName                   string
	MaximumExecutionTimeSeconds int64
	PodSets                     []struct {
		Count    int64
		Template kubeTemplate
	}
	NodeLabels     map[string]string // of a ResourceFlavor
	ClusterQueue   string            // of a LocalQueue
	ResourceGroups []struct {        // of a ClusterQueue
		CoveredResources []string
		Flavors          []struct{ Name string }
	}
	Devices json.RawMessage // of a ResourceClaim the requests, of a ResourceSlice the list
	Spec    struct {        // of a ResourceClaimTemplate
		Devices json.RawMessage
	}
	Driver    string          // of a ResourceSlice
	Selectors json.RawMessage // of a DeviceClass
}

// kubeObject holds the members of all kinds that are read. Names that several kinds have mean the
// same, or are of the same form.
type kubeObject struct {
	APIVersion, Kind string
	Items            []json.RawMessage // of a list
	Metadata         kubeMeta
	Spec             kubeSpec
	Status           struct {
		Allocatable, Capacity map[string]Quantity
		Phase                 string
		Conditions            []kubeCondition
		StartTime             time.Time
		CompletionTime        time.Time
		EndTime               time.Time // of a RayJob
		ContainerStatuses     []struct {
			State struct {
				Terminated struct{ FinishedAt time.Time }
			}
		}
		ResourceClaimStatuses []struct{ Name, ResourceClaimName string }
		Allocation            struct { // of a ResourceClaim
			Devices struct {
				Results []struct{ Request string }
			}
		}
		State          json.RawMessage // of a Job of Volcano an object with a phase, of others a word
		JobStatus      string          // of a RayJob
		RayClusterName string
	}
	// of an event
	Reason         string
	Message        string // of a Status too
	InvolvedObject struct{ Kind, Name string }
	Regarding      struct{ Kind, Name string }
	FirstTimestamp time.Time
	LastTimestamp  time.Time
	EventTime      time.Time

	unread bool   // whether a value of it could not be read
	form   string // how the object is read: its kind, or the kind of the same form
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

// us returns a time in microseconds since 1970; 0 for none, or for one that cannot be.
func us(at time.Time) int64 {
	if at.Year() < 1970 || at.Year() > 2199 {
		return 0
	}
	return at.UnixMicro()
}

// kubeLog gathers the objects of Kubernetes until all texts are read.
type kubeLog struct {
	typeLabels []string
	pods       []kubePod
	owners     map[string]*kubeOwner        // jobs of all kinds, by UID
	order      []string                     // their UIDs in the order of reading
	named      map[string]*kubeOwner        // by kind, namespace and name
	workloads  map[string]*kubeOwner        // of Kueue, by the UID of what they are made for
	queued     []*kubeOwner                 // the same in the order of reading
	groups     map[string]*kubeOwner        // PodGroups by namespace and name
	flavors    map[string]map[string]string // labels by name
	queues     map[string][]string          // flavors by ClusterQueue
	local      map[string]string            // ClusterQueue by LocalQueue
	labels     map[string]map[string]string // of nodes
	shares     map[string]kubeShare         // of nodes whose GPUs are shared
	devices    map[string][]string          // the resources by which nodes count GPUs
	sharers    map[string]int64             // how many pods hold a ResourceClaim at once, by namespace and name
	claims     map[string]*kubeObject       // ResourceClaims and their templates by kind, namespace and name
	slices     []kubeOwner                  // ResourceSlices
	events     []kubeNodeEvent
	seen       map[string]bool // UIDs
}

// kubePod is a pod with its place.
type kubePod struct {
	kubeObject
	place Place
	need  kubeNeed
}

// kubeOwner is a job of any kind with its place.
type kubeOwner struct {
	kubeObject
	place Place
	pods  []*kubePod
}

// kubeNodeEvent says when a node left service or came back.
type kubeNodeEvent struct {
	node string
	atUs int64
	up   bool
}

// kubeReader reads objects of Kubernetes.
type kubeReader struct {
	*reader
	*kubeLog // nil until a text is read, and once jobs are made
	// deviceNames are resources that count GPUs. The number of a resource is one more than its place.
	deviceNames []string
}

// device returns the number of a resource that counts GPUs; 0 for "".
func (l *kubeReader) device(name string) uint8 {
	at := slices.Index(l.deviceNames, name)
	if at < 0 && name != "" && len(l.deviceNames) < math.MaxUint8 {
		at = len(l.deviceNames)
		l.deviceNames = append(l.deviceNames, name)
	}
	return uint8(at + 1)
}

// faulty sets aside an object that cannot be a job, unless what could not be read of it says so already.
func (o *kubeObject) faulty(l *kubeReader, what string, place Place, value string) {
	if !o.unread {
		l.Report.setAside(what, place, value)
	}
}
