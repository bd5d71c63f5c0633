package history

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/hare-sched/hare"
)

// A cluster tells GPUs in many ways: whole ones by nvidia.com/gpu and the like; slices of MIG and of AMD's partitions
// by resources of their own; time slices, MPS and HAMi by nvidia.com/gpu, which then counts slices; parts in percent
// (Koordinator, vCUDA) or by annotations (KAI); and devices by claims. All are counted in thousandths of a GPU here,
// and rounded only when what a job holds on a node has been added up. Slices of MIG are hardware of their own: they
// count as GPUs of the type by which the resource names them.

// IsGPU reports whether a resource counts GPUs, or slices of shared ones, such as nvidia.com/gpu and amd.com/gpu.
// Gaudi accelerators, which jobs use as GPUs, count as such; other accelerators, such as TPUs and Neuron devices, do
// not.
func IsGPU(resource string) bool {
	vendor, name, ok := strings.Cut(resource, "/")
	switch resource {
	case "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi":
		return true
	}
	return ok && name == "gpu" && vendor != "koordinator.sh"
}

// otherAccelerator reports whether a resource counts accelerators that do not count as GPUs. Nodes count Neuron
// devices as neuron, and again by their cores as neuroncore.
func otherAccelerator(resource string) bool {
	_, name, ok := strings.Cut(strings.ToLower(resource), "/")
	return ok && !IsGPU(resource) && (name == "neuron" || slices.ContainsFunc([]string{"tpu", "npu", "xpu", "dcu", "mlu",
		"gcu", "ascend"}, func(word string) bool { return strings.HasPrefix(name, word) }))
}

// kubePercent are the resources that count hundredths of a GPU.
var kubePercent = []string{"koordinator.sh/gpu", "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio",
	"tencent.com/vcuda-core", "alibabacloud.com/gpu-core"}

// kubeSizes are resources that say how large the parts of GPUs are, beside others that count the parts.
var kubeSizes = []string{"nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores",
	"nvidia.com/priority", "koordinator.sh/gpu-memory", "koordinator.sh/gpu.shared", "tencent.com/vcuda-memory",
	"volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores", "volcano.sh/gpu-memory",
	"volcano.sh/gpu-number", "volcano.sh/vgpu-number", "aliyun.com/gpu-mem", "aliyun.com/gpu-count"}

// sliceType is the GPU type of a resource that counts slices of GPUs, such as nvidia.com/mig-1g.5gb; "" for others.
func sliceType(resource string) string {
	_, name, ok := strings.Cut(resource, "/")
	name = strings.TrimSuffix(name, ".shared")
	for _, begin := range []string{"mig-", "cpx_", "dpx_", "qpx_", "tpx_"} {
		if ok && strings.HasPrefix(name, begin) {
			return name
		}
	}
	return ""
}

// isSliceType reports whether a GPU type is one of slices, by the names of resources and those of labels.
func isSliceType(gpuType string) bool {
	return sliceType("x/"+gpuType) != "" || strings.Contains(gpuType, "-MIG-")
}

// isPiece reports whether a resource counts parts of GPUs.
func isPiece(resource string) bool {
	vendor, name, ok := strings.Cut(strings.ToLower(resource), "/")
	return ok && !IsGPU(resource) && (sliceType(resource) != "" || slices.Contains(kubePercent, resource) ||
		slices.Contains(kubeSizes, resource) || strings.Contains(name, "gpu") && vendor != "requests.nvidia.com")
}

// kubeShare says how the GPUs of a node are shared.
type kubeShare struct {
	split     int64 // how many slices nvidia.com/gpu counts for a GPU; 0 or 1 means that it counts GPUs
	memoryMiB int64 // of one GPU; 0 means that it is not known
	note      string
}

// labelCount reads a number of a label; 0 for none.
func labelCount(labels map[string]string, name string) int64 {
	n, err := strconv.ParseInt(labels[name], 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// registered counts the GPUs that an annotation of HAMi or Volcano lists: JSON, or texts between colons.
func registered(text string) (n int64) {
	var list []json.RawMessage
	if json.Unmarshal([]byte(text), &list) == nil {
		return int64(len(list))
	}
	for part := range strings.SplitSeq(text, ":") {
		if strings.Contains(part, ",") {
			n++
		}
	}
	return n
}

// nodeGPUs returns the GPUs of a node by what is allocatable, its labels and annotations.
func nodeGPUs(has map[string]Quantity, m *kubeMeta, gpuType string) (gpus []hare.TypeCount, share kubeShare) {
	var counted, sliced, percent int64 // nvidia.com/gpu and the like, gpu.shared, hundredths
	for _, name := range slices.Sorted(maps.Keys(has)) {
		n := has[name].Whole()
		switch t := sliceType(name); {
		case n <= 0:
		case IsGPU(name):
			counted += n
		case t != "":
			gpus = append(gpus, hare.TypeCount{Type: t, Count: count32(n)})
		case slices.Contains(kubePercent, name):
			percent = max(percent, n)
		case strings.HasSuffix(name, "/gpu.shared") && !strings.HasPrefix(name, "koordinator"):
			sliced += n
		}
	}
	share.memoryMiB = labelCount(m.Labels, "nvidia.com/gpu.memory")
	share.split = max(1, labelCount(m.Labels, "nvidia.com/gpu.replicas"))
	there := labelCount(m.Labels, "nvidia.com/gpu.count")
	for _, a := range []string{"hami.io/node-nvidia-register", "volcano.sh/node-vgpu-register"} {
		there = max(there, registered(m.Annotations[a]))
	}
	if v := has["volcano.sh/vgpu-number"].Whole(); v > 0 && counted == 0 {
		counted = v
	}
	whole := counted
	switch {
	case sliced > 0: // some or all GPUs are shared, under a name of their own
		if share.split == 1 && there > counted {
			share.split = max(1, sliced/(there-counted))
		}
		whole += (sliced + share.split - 1) / share.split
		if counted > 0 {
			share.split = 1 // nvidia.com/gpu counts GPUs here
		}
	case share.split > 1:
		whole = (counted + share.split - 1) / share.split
	case there > 0 && there < counted && counted%there == 0:
		whole, share.split = there, counted/there
	}
	for _, name := range []string{"volcano.sh/gpu-number", "aliyun.com/gpu-count"} {
		whole = max(whole, has[name].Whole())
	}
	whole = max(whole, percent/100)
	if whole < counted+sliced {
		share.note = "a node that shares its GPUs (time slices, MPS, HAMi): counts with its GPUs, not with their slices"
		if (labelCount(m.Labels, "nvidia.com/gpu.replicas") > 1 || sliced > 0) && gpuType != untyped &&
			!strings.HasSuffix(gpuType, sharedSuffix) {
			gpuType += sharedSuffix
		}
	}
	if total := has["aliyun.com/gpu-mem"].Whole(); total > 0 && whole > 0 {
		share.memoryMiB = cmp.Or(share.memoryMiB, total*1024/whole)
	}
	if whole > 0 {
		gpus = append(gpus, hare.TypeCount{Type: gpuType, Count: count32(whole)})
	}
	return gpus, share
}

// SharesGPUs reports whether nvidia.com/gpu and the like count slices of GPUs on a node, by what is allocatable there,
// the labels and the annotations, although the label of the GPU type names whole ones.
func SharesGPUs(allocatable map[string]Quantity, labels, annotations map[string]string, gpuType string) bool {
	_, share := nodeGPUs(allocatable, &kubeMeta{Labels: labels, Annotations: annotations}, gpuType)
	return share.note != "" && !strings.HasSuffix(gpuType, sharedSuffix)
}

// sharedSuffix ends the names of types of which pods get time slices.
const sharedSuffix = "-SHARED"

// count32 is a number of GPUs, which may be more than a cluster may have, but not more than a number holds.
func count32(n int64) int { return int(min(n, math.MaxInt32)) }

// Demand is what a pod holds. A part of a GPU counts as a whole one.
type Demand struct{ GPUs, CPUMilli, MemoryMiB int64 }

// Demand returns what a pod of the specification holds: the sum of its containers, or what an init
// container needs if that is more.
func (s *PodSpec) Demand() (d Demand) {
	n := s.need(kubeShare{})
	return Demand{n.gpus(), n.CPUMilli, n.MemoryMiB}
}

// kubeNeed is what a pod holds.
type kubeNeed struct {
	Demand         // but for GPUs
	milli   int64  // thousandths of GPUs
	gpuType string // of slices; "" for others
	device  string // the resource that counts the GPUs; "" for others
	part    string // what says that the pod holds a part of a GPU; "" for whole ones
	assumed string // what had to be assumed
	unsure  bool   // whether the size of the part is not known
}

func (n *kubeNeed) gpus() int64 { return (n.milli + 999) / 1000 }

// take adds what another container needs that runs beside.
func (n *kubeNeed) take(c kubeNeed) {
	n.CPUMilli, n.MemoryMiB, n.milli = n.CPUMilli+c.CPUMilli, n.MemoryMiB+c.MemoryMiB, n.milli+c.milli
	n.gpuType, n.part, n.unsure = cmp.Or(n.gpuType, c.gpuType), cmp.Or(n.part, c.part), n.unsure || c.unsure
	n.device = cmp.Or(n.device, c.device)
}

// need returns what a pod of the specification holds by its containers, on a node that shares its GPUs so.
func (s *PodSpec) need(share kubeShare) (n kubeNeed) {
	var first kubeNeed // the most that an init container needs, beside those that go on, before the others run
	for i := range s.InitContainers {
		c := s.InitContainers[i].Resources.need(share)
		if s.InitContainers[i].RestartPolicy == "Always" {
			n.take(c)
			continue
		}
		c.take(n)
		first.CPUMilli, first.MemoryMiB = max(first.CPUMilli, c.CPUMilli), max(first.MemoryMiB, c.MemoryMiB)
		if c.milli > first.milli {
			first.milli, first.gpuType, first.part, first.unsure = c.milli, c.gpuType, c.part, c.unsure
			first.device = c.device
		}
	}
	for i := range s.Containers {
		n.take(s.Containers[i].Resources.need(share))
	}
	if first.milli > n.milli {
		n.milli, n.gpuType, n.part, n.unsure = first.milli, first.gpuType, first.part, first.unsure
		n.device = first.device
	}
	whole := s.Resources.need(share)
	n.CPUMilli = cmp.Or(whole.CPUMilli, max(n.CPUMilli, first.CPUMilli))
	n.MemoryMiB = cmp.Or(whole.MemoryMiB, max(n.MemoryMiB, first.MemoryMiB))
	return n
}

// need returns what a container asks for.
func (r *Resources) need(share kubeShare) (n kubeNeed) {
	amount := func(name string) Quantity { // of CPUs and memory
		if q, ok := r.Requests[name]; ok {
			return q
		}
		return r.Limits[name]
	}
	n.CPUMilli, n.MemoryMiB = min(int64(amount("cpu")), hare.MaxPerTask), min(amount("memory").MiB(), hare.MaxPerTask)
	devices := map[string]int64{} // a GPU's request is its limit
	for name, q := range r.Requests {
		devices[name] = q.Whole()
	}
	for name, q := range r.Limits {
		devices[name] = q.Whole()
	}
	n.gpusOf(devices, share)
	return n
}

// gpusOf tells the GPUs that resources of a container stand for.
func (n *kubeNeed) gpusOf(devices map[string]int64, share kubeShare) {
	const most = hare.MaxGPUs * 1000 * 1000
	var counted, percent int64
	var unknown string
	for _, name := range slices.Sorted(maps.Keys(devices)) {
		amount := max(0, min(devices[name], most/1000))
		switch t := sliceType(name); {
		case amount == 0:
		case IsGPU(name):
			n.device = cmp.Or(n.device, name)
			if counted += amount * 1000; share.split > 1 {
				n.part = "a slice of " + name
			}
		case t != "":
			n.milli, n.gpuType = n.milli+amount*1000, t
		case slices.Contains(kubePercent, name):
			if percent = max(percent, amount*10); percent%1000 != 0 {
				n.part = name
			}
		case name == "volcano.sh/vgpu-number" || name == "volcano.sh/gpu-number":
			counted += amount * 1000
		case strings.HasSuffix(name, "/gpu.shared") && !strings.HasPrefix(name, "koordinator"):
			n.milli, n.part = n.milli+amount*1000/max(2, share.split), name
		case slices.Contains(kubeSizes, name):
			if name != "nvidia.com/priority" && !strings.HasSuffix(name, "gpu.shared") {
				unknown = cmp.Or(unknown, name)
			}
		case isPiece(name):
			unknown = cmp.Or(unknown, name)
		}
	}
	of := sizeOfPart(devices, share)
	switch {
	case counted > 0 && of > 0:
		counted, n.part = counted*min(of, 1000)/1000, unknown
	case counted > 0 && share.split > 1:
		counted /= share.split
	case counted > 0 && unknown != "" && share.memoryMiB == 0: // parts, and nothing says of what
		n.part, n.unsure = unknown, true
	}
	n.milli += max(counted, percent)
	if n.milli == 0 && unknown != "" {
		n.milli, n.part, n.unsure = max(1, cmp.Or(of, 1000)), unknown, of == 0
	}
	if n.milli == 0 && n.part != "" {
		n.milli = 1
	}
	n.milli = min(n.milli, most)
}

// sizeOfPart returns how many thousandths of a GPU each part of a container is, by its share of cores and memory,
// the larger of both; 0 where nothing says.
func sizeOfPart(devices map[string]int64, share kubeShare) int64 {
	size := int64(0)
	for _, name := range []string{"nvidia.com/gpumem-percentage", "nvidia.com/gpucores", "volcano.sh/vgpu-cores",
		"volcano.sh/vgpu-memory-percentage"} {
		size = max(size, devices[name]*10)
	}
	for name, unit := range map[string]int64{"nvidia.com/gpumem": 1, "volcano.sh/vgpu-memory": 1,
		"volcano.sh/gpu-memory": 1, "aliyun.com/gpu-mem": 1024, "tencent.com/vcuda-memory": 256} {
		if n := devices[name]; n > 0 && share.memoryMiB > 0 {
			size = max(size, min(n, math.MaxInt32)*unit*1000/share.memoryMiB)
		}
	}
	if size > 1000 && devices["aliyun.com/gpu-mem"] == 0 {
		return 1000
	}
	return size
}

// fractionOf reads annotations and labels that give a pod parts of GPUs: of KAI and Run:ai a fraction or MiB of
// memory, on one GPU or several; of openb thousandths.
func fractionOf(m *kubeMeta, share kubeShare) (milli int64, part string, unsure bool) {
	value := func(names ...string) (string, string) {
		for _, name := range names {
			for _, list := range []map[string]string{m.Annotations, m.Labels} {
				if v := list[name]; v != "" {
					return v, name
				}
			}
		}
		return "", ""
	}
	number := func(text string) float64 {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > 0 && x <= 1e9) {
			return 0
		}
		return x
	}
	devices := int64(1)
	if text, _ := value("gpu-fraction-num-devices", "alibabacloud.com/gpu-count"); number(text) >= 1 {
		devices = int64(min(number(text), hare.MaxGPUs))
	}
	text, name := value("gpu-fraction", "kai.scheduler/gpu-fraction", "runai/gpu-fraction", "run.ai/gpu-fraction")
	if x := number(text); x > 0 {
		return devices * int64(math.Ceil(min(x, hare.MaxGPUs)*1000-1e-6)), name, false
	}
	if text, name = value("alibabacloud.com/gpu-milli"); number(text) > 0 {
		return devices * int64(min(number(text), hare.MaxGPUs*1000)), name, false
	}
	if text, name = value("gpu-memory"); number(text) > 0 {
		if share.memoryMiB > 0 {
			return devices * max(1, min(1000, int64(number(text)*1000)/share.memoryMiB)), name, false
		}
		return devices * 1000, name, true // the size of the GPU is not known
	}
	return 0, "", false
}

// reserves reports whether a pod of KAI or Run:ai holds a GPU for the pods that have its parts.
func (p *kubePod) reserves() bool {
	return strings.HasSuffix(p.Metadata.Namespace, "-resource-reservation") ||
		p.Metadata.Namespace == "runai-reservation"
}

// podNeed returns what a pod, or a pod of a template in a namespace, holds in all.
func (k *kubeLog) podNeed(spec *PodSpec, m *kubeMeta, namespace string, claimed map[string]string) kubeNeed {
	share := k.shares[spec.NodeName]
	n := spec.need(share)
	if milli, part, unsure := fractionOf(m, share); milli > 0 && n.milli == 0 {
		n.milli, n.part, n.unsure = milli, part, unsure
	}
	n.claim(k, spec, namespace, claimed)
	return n
}

// claim adds the devices that a pod claims. A claim that was not given counts as one GPU, unless the pod has GPUs
// otherwise or the claim has the name of another device.
func (n *kubeNeed) claim(k *kubeLog, spec *PodSpec, namespace string, claimed map[string]string) {
	hasOthers := n.milli > 0
	for _, c := range spec.ResourceClaims {
		name := cmp.Or(c.ResourceClaimName, claimed[c.Name])
		o := k.claims["ResourceClaim "+namespace+"/"+name]
		if o == nil {
			o = k.claims["ResourceClaimTemplate "+namespace+"/"+c.ResourceClaimTemplateName]
		}
		if o == nil {
			if !hasOthers && !otherDevice(c.Name+" "+c.ResourceClaimName+" "+c.ResourceClaimTemplateName) {
				n.milli += 1000
				n.assumed = "a claim of devices that was not given: counts as one GPU (give resourceclaims and " +
					"resourceclaimtemplates)"
			}
			continue
		}
		milli := k.claimed(o, n)
		if pods := k.sharers[namespace+"/"+name]; pods > 1 && milli > 0 {
			if milli = max(1, milli/pods); milli%1000 != 0 {
				n.part = "a claim that several pods share"
			} else {
				n.assumed = cmp.Or(n.assumed, "a claim of GPUs that several pods share: each counts with an equal number")
			}
		}
		n.milli += milli
	}
}

// otherDevice reports whether a name is of devices other than GPUs.
func otherDevice(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return !strings.Contains(strings.ToLower(name), "gpu") && slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{"nic", "net", "network", "rdma", "sriov", "roce", "ib", "hca", "cpu", "dranet",
			"tpu", "fpga", "disk", "nvme", "memory"}, w)
	})
}

// classOfGPUs reports whether a class of devices is one of GPUs, by its name or its selectors; known is false where
// nothing says.
func (k *kubeLog) classOfGPUs(class string) (is, known bool) {
	hasWord := func(text string) bool {
		return slices.ContainsFunc([]string{"gpu", "mig", "nvidia", "amd.com"}, func(word string) bool {
			return strings.Contains(strings.ToLower(text), word)
		})
	}
	o := k.claims["DeviceClass "+class]
	switch {
	case hasWord(class):
		return true, true
	case otherDevice(class):
		return false, true
	case o != nil:
		return hasWord(string(o.Spec.Selectors)), true
	}
	return false, false
}

// claimed counts the GPUs of a claim, in thousandths.
func (k *kubeLog) claimed(o *kubeObject, n *kubeNeed) (milli int64) {
	var devices struct{ Requests []kubeDeviceRequest }
	text := o.Spec.Devices
	if text == nil {
		text = o.Spec.Spec.Devices
	}
	if text == nil || json.Unmarshal(text, &devices) != nil {
		n.assumed = "a claim of devices whose requests cannot be read: counts as one GPU"
		return 1000
	}
	for _, r := range devices.Requests {
		name, given, alternative := r.Name, int64(0), ""
		for _, result := range o.Status.Allocation.Devices.Results {
			if request, of, _ := strings.Cut(result.Request, "/"); request == name {
				given, alternative = given+1, of
			}
		}
		switch {
		case r.Exactly != nil:
			r = *r.Exactly
		case len(r.FirstAvailable) > 0:
			r = r.FirstAvailable[max(0, slices.IndexFunc(r.FirstAvailable, func(a kubeDeviceRequest) bool {
				return a.Name == alternative
			}))]
			if given == 0 {
				n.assumed = "a claim that takes the first of several devices: counts with the first"
			}
		}
		if r.AdminAccess {
			continue
		}
		class := strings.ToLower(r.DeviceClassName)
		is, known := k.classOfGPUs(class)
		switch {
		case !known && n.milli > 0 || known && !is:
			continue
		case !known:
			n.assumed = "a claim of a class of devices that was not given: counts as one of GPUs (give deviceclasses)"
		case strings.HasPrefix(class, "mig."):
			n.part = "a claim of the class " + r.DeviceClassName
		case r.AllocationMode == "All" && given == 0:
			n.assumed = "a claim of all GPUs of a node: counts as one GPU"
		}
		milli += max(1, min(cmp.Or(given, r.Count), hare.MaxGPUs)) * 1000
	}
	return milli
}

// addSlices gives nodes without GPUs that are allocatable the devices of their ResourceSlices.
func (l *kubeReader) addSlices(k *kubeLog) {
	told := map[string]bool{}
	for i := range l.Nodes {
		told[l.Nodes[i].Name] = len(l.Nodes[i].GPUs) > 0
	}
	for i := range k.slices {
		o := &k.slices[i]
		var devices []kubeDevice
		if !strings.Contains(strings.ToLower(o.Spec.Driver), "gpu") || o.Spec.NodeName == "" || told[o.Spec.NodeName] {
			continue
		}
		if err := json.Unmarshal(o.Spec.Devices, &devices); err != nil {
			l.Report.setAside("the devices of a ResourceSlice: the node counts without them", o.place,
				string(o.Spec.Devices))
			continue
		}
		n := l.node(o.Spec.NodeName)
		for _, d := range devices {
			if d.Attributes == nil {
				d.Attributes = d.Basic.Attributes
			}
			word := func(name string) string {
				for key, a := range d.Attributes {
					if key == name || strings.HasSuffix(key, "/"+name) {
						return a.String
					}
				}
				return ""
			}
			gpuType := untyped
			switch kind := word("type"); {
			case kind == "mig":
				l.Report.leaveOut("slices of MIG that a GPU could be cut into, by ResourceSlices", o.place)
				continue
			case kind != "" && kind != "gpu" && !strings.HasSuffix(kind, "gpu"):
				continue
			}
			for _, label := range k.typeLabels {
				gpuType = cmp.Or(k.labels[n.Name][label], gpuType)
				if gpuType != untyped {
					break
				}
			}
			if gpuType == untyped {
				gpuType = cmp.Or(strings.ReplaceAll(word("productName"), " ", "-"), untyped)
			}
			n.addGPUs(gpuType, 1)
		}
		l.Report.assume("a node whose GPUs a ResourceSlice tells", o.place)
	}
}
