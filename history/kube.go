package history

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// TypeLabels are the labels of nodes that name the GPU type, the first that a node has counts.
var TypeLabels = []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name"}

// SecondsAnnotation is the annotation of jobs and pods that says how many seconds a job takes on GPU types.
const SecondsAnnotation = "hare.dev/seconds"

// kubeLog gathers the objects of Kubernetes until all texts are read.
type kubeLog struct {
	typeLabels []string
	pods       []kubePod
	owners     map[string]*kubeOwner // jobs of all kinds, by UID
	order      []string              // their UIDs in the order of reading
	workloads  map[string]*kubeObject
	flavors    map[string]map[string]string // labels by name
	queues     map[string][]string          // flavors by ClusterQueue
	local      map[string]string            // ClusterQueue by LocalQueue
	labels     map[string]map[string]string // of nodes
	events     []kubeNodeEvent
	seen       map[string]bool // UIDs
}

// kubePod is a pod with its place.
type kubePod struct {
	kubeObject
	place Place
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

// kubeKinds are the kinds that are read.
var kubeKinds = []string{"Node", "Pod", "Job", "JobSet", "PyTorchJob", "Event", "Workload", "ResourceFlavor",
	"ClusterQueue", "LocalQueue"}

// readKube reads objects of Kubernetes as kubectl get -o json writes them: lists, or single objects, one
// or several documents. It holds one item of a list at a time.
func (l *Log) readKube(name string, in *bufio.Reader, cfg ReadConfig) error {
	if l.kube == nil {
		l.kube = &kubeLog{typeLabels: TypeLabels, owners: map[string]*kubeOwner{}, workloads: map[string]*kubeObject{},
			flavors: map[string]map[string]string{}, queues: map[string][]string{}, local: map[string]string{},
			labels: map[string]map[string]string{}, seen: map[string]bool{}}
		if cfg.TypeLabel != "" {
			l.kube.typeLabels = []string{cfg.TypeLabel}
		}
	}
	d := json.NewDecoder(in)
	rows := map[string]int{}
	for doc := 0; ; doc++ {
		at := ""
		if doc > 0 {
			at = "/" + strconv.Itoa(doc)
		}
		token, err := d.Token()
		if errors.Is(err, io.EOF) && doc > 0 {
			break
		}
		if err != nil {
			return jsonFault(name, at, d, err)
		}
		if token != json.Delim('{') {
			return &RowError{Place{File: name, At: at}, "is no object of Kubernetes: write the file by kubectl get -o json"}
		}
		if err := l.kubeDocument(name, at, d, rows); err != nil {
			return err
		}
	}
	for _, kind := range kubeKinds {
		if rows[kind] > 0 {
			l.Report.Files = append(l.Report.Files, File{Name: name, Kind: kind, Rows: rows[kind]})
		}
	}
	return nil
}

// kubeDocument reads one document whose { is read.
func (l *Log) kubeDocument(name, at string, d *json.Decoder, rows map[string]int) error {
	members := map[string]json.RawMessage{}
	kind, listed := "", false
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return jsonFault(name, at, d, err)
		}
		key, _ := token.(string)
		if key != "items" {
			var text json.RawMessage
			if err := d.Decode(&text); err != nil {
				return jsonFault(name, at+"/"+key, d, err)
			}
			if members[key] = text; key == "kind" {
				if err := json.Unmarshal(text, &kind); err != nil {
					return jsonFault(name, at+"/kind", d, err)
				}
			}
			continue
		}
		listed = true
		switch token, err := d.Token(); {
		case err != nil:
			return jsonFault(name, at+"/items", d, err)
		case token == nil:
			continue
		case token != json.Delim('['):
			return &RowError{Place{File: name, At: at + "/items"}, "is not a list"}
		}
		for i := 0; d.More(); i++ {
			place := Place{File: name, At: at + "/items/" + strconv.Itoa(i)}
			var o kubeObject
			if err := d.Decode(&o); err != nil {
				return jsonFault(name, place.At, d, err)
			}
			o.Kind = cmp.Or(o.Kind, strings.TrimSuffix(kind, "List"))
			if err := l.addKube(&o, place, rows); err != nil {
				return &RowError{place, err.Error()}
			}
		}
		if _, err := d.Token(); err != nil {
			return jsonFault(name, at+"/items", d, err)
		}
	}
	if _, err := d.Token(); err != nil {
		return jsonFault(name, at, d, err)
	}
	if listed {
		return nil
	}
	text, err := json.Marshal(members)
	if err != nil {
		return jsonFault(name, at, d, err)
	}
	var o kubeObject
	if err := json.Unmarshal(text, &o); err != nil {
		return jsonFault(name, at, d, err)
	}
	if err := l.addKube(&o, Place{File: name, At: at}, rows); err != nil {
		return &RowError{Place{File: name, At: at}, err.Error()}
	}
	return nil
}

// jsonError is an error in a JSON text of which offset bytes were read.
type jsonError struct {
	*RowError
	offset int64
}

// jsonFault names file, pointer and byte of a fault of a JSON text; Read adds the line.
func jsonFault(name, pointer string, d *json.Decoder, err error) error {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	row := &RowError{Place{File: name, At: pointer}, err.Error()}
	if errors.As(err, &wrong) { // Go's words name Go's types
		row.Reason = strings.TrimPrefix(wrong.Field+": must not be a "+wrong.Value, ": ")
	}
	if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		row.Reason = fmt.Sprintf("byte %d: the JSON ends or breaks off here: %v", d.InputOffset(), err)
	}
	return &jsonError{row, d.InputOffset()}
}

// addKube takes one object.
func (l *Log) addKube(o *kubeObject, place Place, rows map[string]int) error {
	k, m := l.kube, &o.Metadata
	if o.Kind == "" {
		return errors.New("has no kind: this is no object of Kubernetes (write the file by kubectl get -o json)")
	}
	if !slices.Contains(kubeKinds, o.Kind) {
		l.Report.leaveOut(fmt.Sprintf("objects of the kind %.60q", o.Kind), place)
		return nil
	}
	rows[o.Kind]++
	if m.Name == "" {
		return errors.New("has no metadata.name")
	}
	uid := cmp.Or(m.UID, o.Kind+" "+o.id())
	if k.seen[uid] && o.Kind != "Event" {
		l.Report.leaveOut("is told twice: the first counts", place)
		return nil
	}
	k.seen[uid] = true
	switch o.Kind {
	case "Node":
		return l.addKubeNode(o, place)
	case "Pod":
		k.pods = append(k.pods, kubePod{*o, place})
	case "Job", "JobSet", "PyTorchJob":
		k.owners[uid] = &kubeOwner{kubeObject: *o, place: place}
		k.order = append(k.order, uid)
	case "Workload":
		for _, owner := range m.OwnerReferences {
			k.workloads[owner.UID] = o
		}
	case "ResourceFlavor":
		k.flavors[m.Name] = o.Spec.NodeLabels
	case "ClusterQueue":
		k.queues[m.Name] = []string{}
		for _, g := range o.Spec.ResourceGroups {
			if !slices.ContainsFunc(g.CoveredResources, IsGPU) {
				continue
			}
			for _, f := range g.Flavors {
				k.queues[m.Name] = append(k.queues[m.Name], f.Name)
			}
		}
		l.Report.leaveOut("the quotas of ClusterQueues", place)
	case "LocalQueue":
		k.local[o.id()] = o.Spec.ClusterQueue
	case "Event":
		l.addKubeEvent(o)
	}
	return nil
}

// addKubeNode adds a node with its GPUs.
func (l *Log) addKubeNode(o *kubeObject, place Place) error {
	n := l.node(o.Metadata.Name)
	has := o.Status.Allocatable
	if len(has) == 0 {
		has = o.Status.Capacity
	}
	gpuType := untyped
	for _, label := range l.kube.typeLabels {
		if value := o.Metadata.Labels[label]; value != "" {
			gpuType = value
			break
		}
	}
	n.GPUs = nil
	for name, amount := range has {
		switch {
		case IsGPU(name) && amount.Whole() > hare.MaxGPUs:
			return fmt.Errorf("%s: %d GPUs are more than a cluster may have", name, amount.Whole())
		case IsGPU(name) && amount.Whole() > 0:
			n.addGPUs(gpuType, int(amount.Whole()))
			if gpuType == untyped {
				l.Report.assume("a node with GPUs and without the label of their type: they count as the type \"gpu\"", place)
			}
		case isGPUPart(name) && amount > 0:
			l.Report.leaveOut("parts of GPUs (MIG, shared GPUs)", place)
		}
	}
	n.CPUMilli, n.MemoryMiB = int64(has["cpu"]), has["memory"].MiB()
	l.kube.labels[n.Name] = o.Metadata.Labels
	ready := o.condition("Ready")
	if n.Out = o.Spec.Unschedulable || ready.Type != "" && ready.Status != "True"; n.Out {
		l.Report.assume("a node that was out of service when the nodes were listed counts as in service before, but for "+
			"what events say", place)
	}
	return nil
}

// addKubeEvent takes the events of nodes that leave service or come back.
func (l *Log) addKubeEvent(o *kubeObject) {
	kind := cmp.Or(o.InvolvedObject.Kind, o.Regarding.Kind)
	at := max(us(o.EventTime), us(o.LastTimestamp), us(o.FirstTimestamp))
	l.NowUs = max(l.NowUs, at)
	up := o.Reason == "NodeReady" || o.Reason == "NodeSchedulable"
	if kind == "Node" && at > 0 && (up || o.Reason == "NodeNotReady" || o.Reason == "NodeNotSchedulable") {
		l.kube.events = append(l.kube.events, kubeNodeEvent{cmp.Or(o.InvolvedObject.Name, o.Regarding.Name), at, up})
	}
}
