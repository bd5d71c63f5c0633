package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"maps"

	"github.com/oasdiff/yaml"

	"github.com/hare-sched/hare"
)

// TypeLabels are the labels of nodes that name the GPU type, the first that a node has counts.
var TypeLabels = []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name",
	"beta.amd.com/gpu.product-name", "gpu.intel.com/product"}

// SecondsAnnotation is the annotation of jobs and pods that says how many seconds a job takes on GPU types.
const SecondsAnnotation = "hare.dev/seconds"

// kubeKind is a kind that is read, with the API groups that have it. Other groups have kinds of the same name.
// An object that names no apiVersion is of the first kind of its name.
type kubeKind struct {
	kind   string
	groups []string
	as     string // the kind by whose form it is read; "" means its own
}

var kubeKinds = []kubeKind{
	{"Node", []string{""}, ""}, {"Pod", []string{""}, ""}, {"Job", []string{"batch", "extensions"}, ""},
	{"JobSet", []string{"jobset.x-k8s.io", "batch.x-k8s.io"}, ""}, {"PyTorchJob", []string{"kubeflow.org"}, "Replicas"},
	{"Event", []string{"", "events.k8s.io"}, ""}, {"Workload", []string{"kueue.x-k8s.io"}, ""},
	{"ResourceFlavor", []string{"kueue.x-k8s.io"}, ""}, {"ClusterQueue", []string{"kueue.x-k8s.io"}, ""},
	{"LocalQueue", []string{"kueue.x-k8s.io"}, ""},
	{"MPIJob", []string{"kubeflow.org"}, "Replicas"}, {"TFJob", []string{"kubeflow.org"}, "Replicas"},
	{"XGBoostJob", []string{"kubeflow.org"}, "Replicas"}, {"PaddleJob", []string{"kubeflow.org"}, "Replicas"},
	{"MXJob", []string{"kubeflow.org"}, "Replicas"}, {"JAXJob", []string{"kubeflow.org"}, "Replicas"},
	{"TrainJob", []string{"trainer.kubeflow.org"}, ""},
	{"RayJob", []string{"ray.io"}, ""}, {"RayCluster", []string{"ray.io"}, ""},
	{"LeaderWorkerSet", []string{"leaderworkerset.x-k8s.io"}, ""},
	{"Job", []string{"batch.volcano.sh"}, "VolcanoJob"},
	{"PodGroup", []string{"scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io",
		"scheduling.incubator.k8s.io", "scheduling.run.ai", "scheduling.k8s.io"}, ""},
	{"Workload", []string{"scheduling.k8s.io"}, "CoreWorkload"},
	{"ResourceClaim", []string{"resource.k8s.io"}, ""}, {"ResourceClaimTemplate", []string{"resource.k8s.io"}, ""},
	{"ResourceSlice", []string{"resource.k8s.io"}, ""}, {"DeviceClass", []string{"resource.k8s.io"}, ""},
}

// group is the API group of an object; "" for the core's, or where none is told.
func (o *kubeObject) group() string { return groupOf(o.APIVersion) }

func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

// kindOf finds the kind that is read by apiVersion and kind together; nil for none.
func kindOf(apiVersion, kind string) *kubeKind {
	for i := range kubeKinds {
		if k := &kubeKinds[i]; k.kind == kind && (apiVersion == "" || slices.Contains(k.groups, groupOf(apiVersion))) {
			return k
		}
	}
	return nil
}

// String names the kind, with its group where another group has a kind of that name that is better known.
func (k *kubeKind) String() string {
	if k.as == "VolcanoJob" || k.as == "CoreWorkload" {
		return k.kind + " of " + k.groups[0]
	}
	return k.kind
}

// kubeText is what is known while one text is read.
type kubeText struct {
	rows  map[string]int
	any   bool      // an object was read, or could have been
	fault *RowError // the first thing that was no object
}

// refuse sets aside what is no object of Kubernetes, unless what could not be read of it says so already. The text is
// refused if it has nothing else.
func (t *kubeText) refuse(l *kubeReader, place Place, reason, value string, unread bool) {
	if t.fault == nil {
		t.fault = &RowError{place, reason}
	}
	if !unread {
		l.Report.setAside("an object that "+reason+": left out", place, value)
	}
}

// readKube reads objects of Kubernetes as kubectl get -o json or -o yaml writes them: lists, or single objects, one
// or several documents. It holds one item of a list of JSON at a time.
func (l *kubeReader) readKube(name string, in *bufio.Reader, cfg ReadConfig) error {
	if l.kubeLog == nil {
		l.kubeLog = newKubeLog()
		if cfg.TypeLabel != "" {
			l.kubeLog.typeLabels = []string{cfg.TypeLabel}
		}
	}
	var from io.Reader = in
	switch first, err := firstByte(in); {
	case errors.Is(err, io.EOF):
		l.Report.doubt("the text is empty: nothing was read of it", Place{File: name})
		return nil
	case err != nil:
		return &RowError{Place{File: name}, err.Error()}
	case first != '{' && first != '[':
		text, err := yamlToJSON(in)
		if err != nil {
			return &RowError{Place{File: name, Line: 1}, err.Error()}
		}
		from = bytes.NewReader(text)
	}
	d := json.NewDecoder(from)
	t := &kubeText{rows: map[string]int{}}
	for doc := 0; ; doc++ {
		at := ""
		if doc > 0 {
			at = "/" + strconv.Itoa(doc)
		}
		token, err := d.Token()
		if errors.Is(err, io.EOF) && doc > 0 {
			break
		}
		switch {
		case err != nil:
			return jsonFault(name, at, d, err)
		case token == json.Delim('['): // of jq, as a rule
			err = l.kubeItems(name, at, &kubeObject{}, d, t)
		case token == json.Delim('{'):
			err = l.kubeDocument(name, at, d, t)
		default:
			t.refuse(l, Place{File: name, At: at}, "is no object of Kubernetes: write the file by kubectl get -o json",
				fmt.Sprint(token), false)
		}
		if err != nil {
			return err
		}
	}
	if !t.any && t.fault != nil {
		return t.fault
	}
	for i := range kubeKinds {
		if k := kubeKinds[i].String(); t.rows[k] > 0 {
			l.Report.Files = append(l.Report.Files, File{Name: name, Kind: k, Rows: t.rows[k]})
		}
	}
	return nil
}

func newKubeLog() *kubeLog {
	return &kubeLog{typeLabels: TypeLabels, owners: map[string]*kubeOwner{}, named: map[string]*kubeOwner{},
		workloads: map[string]*kubeOwner{}, groups: map[string]*kubeOwner{}, flavors: map[string]map[string]string{},
		queues: map[string][]string{}, local: map[string]string{}, labels: map[string]map[string]string{},
		shares: map[string]kubeShare{}, claims: map[string]*kubeObject{}, devices: map[string][]string{},
		sharers: map[string]int64{}, seen: map[string]bool{}}
}

// yamlToJSON reads documents of YAML. What kubectl says of an empty list is none.
func yamlToJSON(in io.Reader) ([]byte, error) {
	text, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, part := range bytes.Split(append([]byte("\n"), text...), []byte("\n---")) {
		if trimmed := bytes.TrimSpace(part); len(trimmed) == 0 || bytes.HasPrefix(trimmed, []byte("No resources found")) {
			continue
		}
		var doc any
		if _, err := yaml.Unmarshal(part, &doc, yaml.DecodeOpts{}); err != nil {
			return nil, fmt.Errorf("is neither JSON nor YAML: %.200s: write the file by kubectl get -o json",
				strings.ReplaceAll(err.Error(), "\n", " "))
		}
		line, err := json.Marshal(doc)
		if _, ok := doc.(map[string]any); !ok || err != nil {
			return nil, errors.New("is no object of Kubernetes: write the file by kubectl get -o json")
		}
		out.Write(append(line, '\n'))
	}
	if out.Len() == 0 {
		out.WriteString(`{"items":[]}`)
	}
	return out.Bytes(), nil
}

// kubeDocument reads one document whose { is read.
func (l *kubeReader) kubeDocument(name, at string, d *json.Decoder, t *kubeText) error {
	members := map[string]json.RawMessage{}
	listed := false
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
			members[key] = text
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
		var list kubeObject
		_ = json.Unmarshal(members["kind"], &list.Kind)
		_ = json.Unmarshal(members["apiVersion"], &list.APIVersion)
		if err := l.kubeItems(name, at+"/items", &list, d, t); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return jsonFault(name, at, d, err)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return jsonFault(name, at, d, err)
	}
	if listed {
		t.any = true
		l.kubeCut(text, Place{File: name, At: at})
		return nil
	}
	l.kubeText(text, Place{File: name, At: at}, &kubeObject{}, t)
	return nil
}

// kubeCut says that a list goes on on a page that was not asked for.
func (l *kubeReader) kubeCut(list json.RawMessage, place Place) {
	var o struct {
		Metadata struct {
			Continue           string
			RemainingItemCount int64
		}
	}
	if json.Unmarshal(list, &o) == nil && (o.Metadata.Continue != "" || o.Metadata.RemainingItemCount > 0) {
		l.Report.doubt("a list was cut by a limit: what follows was not read (ask without limit=)", place)
	}
}

// kubeItems reads the items of a list whose [ is read.
func (l *kubeReader) kubeItems(name, at string, list *kubeObject, d *json.Decoder, t *kubeText) error {
	for i := 0; d.More(); i++ {
		place := Place{File: name, At: at + "/" + strconv.Itoa(i)}
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return jsonFault(name, place.At, d, err)
		}
		l.kubeText(text, place, list, t)
	}
	if _, err := d.Token(); err != nil {
		return jsonFault(name, at, d, err)
	}
	return nil
}

// kubeText takes the text of one object, of a list that may tell its kind.
func (l *kubeReader) kubeText(text json.RawMessage, place Place, list *kubeObject, t *kubeText) {
	var o kubeObject
	if text[0] != '{' {
		t.refuse(l, place, "is no object of Kubernetes", string(text), false)
		return
	}
	if json.Unmarshal(text, &o) != nil {
		// Kinds that are not read may have members of other forms.
		var head struct{ APIVersion, Kind, Message string }
		if json.Unmarshal(text, &head) == nil && head.Kind != "" && kindOf(head.APIVersion, head.Kind) == nil {
			o = kubeObject{APIVersion: head.APIVersion, Kind: head.Kind, Message: head.Message}
		} else if err := l.Report.decode(text, &o, place); err != nil {
			t.refuse(l, place, "is no object of Kubernetes", string(text), false)
			return
		}
		o.unread = true
	}
	if o.Kind == "" {
		o.Kind, o.APIVersion = strings.TrimSuffix(list.Kind, "List"), cmp.Or(o.APIVersion, list.APIVersion)
		if list.Kind == "List" {
			o.Kind = ""
		}
	}
	if o.Items != nil && (o.Kind == "" || strings.HasSuffix(o.Kind, "List")) { // a list in a list
		t.any = true
		l.kubeCut(text, place)
		for i, item := range o.Items {
			l.kubeText(item, Place{File: place.File, At: place.At + "/items/" + strconv.Itoa(i)}, &o, t)
		}
		return
	}
	l.addKube(&o, place, t)
}

// addKube takes one object.
func (l *kubeReader) addKube(o *kubeObject, place Place, t *kubeText) {
	k, m := l.kubeLog, &o.Metadata
	if o.Kind == "" {
		t.refuse(l, place, "has no kind: this is no object of Kubernetes (write the file by kubectl get -o json)", "",
			o.unread)
		return
	}
	t.any = true
	kind := kindOf(o.APIVersion, o.Kind)
	switch {
	case o.Kind == "Status" && groupOf(o.APIVersion) == "":
		l.Report.doubt(fmt.Sprintf("the API server answered with an error: %.200s", o.Message), place)
		return
	case kind == nil && o.group() != "":
		l.Report.leaveOut(fmt.Sprintf("objects of the kind %.60q of %.60s", o.Kind, o.group()), place)
		return
	case kind == nil:
		l.Report.leaveOut(fmt.Sprintf("objects of the kind %.60q", o.Kind), place)
		return
	}
	t.rows[kind.String()]++
	if m.Name == "" {
		o.faulty(l, "an object that has no metadata.name: left out", place, "")
		return
	}
	o.form = cmp.Or(kind.as, kind.kind)
	uid := cmp.Or(m.UID, kind.String()+" "+o.id())
	if k.seen[uid] && o.Kind != "Event" {
		l.Report.leaveOut("is told twice: the first counts", place)
		return
	}
	k.seen[uid] = true
	owner := &kubeOwner{kubeObject: *o, place: place}
	switch o.form {
	case "Node":
		l.addKubeNode(o, place)
	case "Pod":
		k.pods = append(k.pods, kubePod{kubeObject: *o, place: place})
	case "Job", "JobSet", "Replicas", "TrainJob", "RayJob", "RayCluster", "LeaderWorkerSet", "VolcanoJob":
		k.owners[uid] = owner
		k.order = append(k.order, uid)
		k.named[o.Kind+" "+o.id()] = owner
	case "Workload":
		for _, of := range m.OwnerReferences {
			k.workloads[of.UID] = owner
		}
		k.queued = append(k.queued, owner)
	case "PodGroup":
		k.groups[o.id()] = owner
	case "ResourceClaim", "ResourceClaimTemplate", "DeviceClass":
		k.claims[o.Kind+" "+o.id()] = o
	case "ResourceSlice":
		k.slices = append(k.slices, *owner)
	case "ResourceFlavor":
		k.flavors[m.Name] = o.Spec.NodeLabels
	case "ClusterQueue":
		k.queues[m.Name] = []string{}
		for _, g := range o.Spec.ResourceGroups {
			if !slices.ContainsFunc(g.CoveredResources, func(name string) bool { return IsGPU(name) || isPiece(name) }) {
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
}

// addKubeNode adds a node with its GPUs.
func (l *kubeReader) addKubeNode(o *kubeObject, place Place) {
	n := l.node(o.Metadata.Name)
	has := o.Status.Allocatable
	if len(has) == 0 {
		has = o.Status.Capacity
	}
	gpuType := untyped
	for _, label := range l.kubeLog.typeLabels {
		if value := o.Metadata.Labels[label]; value != "" {
			gpuType = value
			break
		}
	}
	n.GPUs = nil
	gpus, share := nodeGPUs(has, &o.Metadata, gpuType)
	for _, g := range gpus {
		if g.Count > maxNodeGPUs {
			l.Report.setAside("GPUs of a node, more than a cluster may have: it counts as one without its GPUs", place,
				strconv.Itoa(g.Count)+" "+g.Type)
			continue
		}
		n.addGPUs(g.Type, g.Count)
		switch {
		case g.Type == untyped:
			l.Report.assume("a node with GPUs and without the label of their type: they count as the type \"gpu\"", place)
		case isSliceType(g.Type):
			l.Report.assume("slices of GPUs (MIG, partitions): each counts as a GPU of the slices' own type", place)
		}
	}
	if share.note != "" {
		l.Report.assume(share.note, place)
	}
	if share.split > 1 || share.memoryMiB > 0 {
		l.kubeLog.shares[n.Name] = share
	}
	for _, name := range slices.Sorted(maps.Keys(has)) {
		if IsGPU(name) && has[name] > 0 {
			l.kubeLog.devices[n.Name] = append(l.kubeLog.devices[n.Name], name)
		}
		if has[name] > 0 && otherAccelerator(name) {
			l.Report.leaveOut("accelerators of nodes that do not count as GPUs ("+name+")", place)
		}
	}
	n.CPUMilli, n.MemoryMiB = int64(has["cpu"]), has["memory"].MiB()
	l.kubeLog.labels[n.Name] = o.Metadata.Labels
	ready := o.condition("Ready")
	if n.Out = o.Spec.Unschedulable || ready.Type != "" && ready.Status != "True"; n.Out {
		l.Report.assume("a node that was out of service when the nodes were listed counts as in service before, but for "+
			"what events say", place)
	}
}

// addKubeEvent takes the events of nodes that leave service or come back.
func (l *kubeReader) addKubeEvent(o *kubeObject) {
	kind := cmp.Or(o.InvolvedObject.Kind, o.Regarding.Kind)
	at := max(us(o.EventTime), us(o.LastTimestamp), us(o.FirstTimestamp))
	l.NowUs = max(l.NowUs, at)
	up := o.Reason == "NodeReady" || o.Reason == "NodeSchedulable"
	if kind == "Node" && at > 0 && (up || o.Reason == "NodeNotReady" || o.Reason == "NodeNotSchedulable") {
		l.kubeLog.events = append(l.kubeLog.events, kubeNodeEvent{cmp.Or(o.InvolvedObject.Name, o.Regarding.Name), at, up})
	}
}

// finishKube makes nodes and jobs of what the texts told.
func (l *kubeReader) finishKube() {
	k := l.kubeLog
	l.kubeLog = nil
	l.kubeDown(k)
	l.kubeQueues(k)
	l.addSlices(k)
	lone := k.sortPods(l)
	used := map[string]bool{}
	for _, o := range k.jobs() {
		id := o.id()
		if used[id] {
			id = o.Kind + ":" + id
		}
		if used[id] { // of two groups of the API
			id = o.group() + ":" + id
		}
		used[id] = true
		l.kubeOwnerJobs(k, o, id)
	}
	l.kubeLone(k, lone, used)
	l.kubeDevices(k)
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
	l.keepBounds()
}
