package history_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// object is an object of Kubernetes.
type object = map[string]any

// kubeAt is a time of the clusters of these tests: minutes after 8 o'clock.
func kubeAt(minutes float64) string {
	at := time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC).Add(time.Duration(minutes * float64(time.Minute)))
	return at.Format(time.RFC3339)
}

func kubeNode(name, product string, has, labels object) object {
	l := object{"kubernetes.io/hostname": name, "nvidia.com/gpu.product": product}
	for key, value := range labels {
		l[key] = value
	}
	amounts := object{"cpu": "64", "memory": "512Gi"}
	for key, value := range has {
		amounts[key] = value
	}
	return object{"apiVersion": "v1", "kind": "Node", "metadata": object{"name": name, "labels": l},
		"status": object{"allocatable": amounts}}
}

// eight is a node of eight A100.
func eight(name string) object { return kubeNode(name, "A100", object{"nvidia.com/gpu": "8"}, nil) }

func kubeOf(apiVersion, kind, name string, spec object) object {
	return object{"apiVersion": apiVersion, "kind": kind, "spec": spec, "metadata": object{"name": name,
		"namespace": "ml", "uid": kind + "-" + name, "creationTimestamp": kubeAt(0)}}
}

// kubePodOf is a pod of a controller such as "batch/v1 Job train" that ran from one minute to another; until 0 means
// that it runs, from below 0 that it waits.
func kubePodOf(name, controller, node string, from, until float64, limits object, more ...object) object {
	p := kubeOf("v1", "Pod", name, object{"containers": []object{{"resources": object{"limits": limits}}}})
	m, status := p["metadata"].(object), object{"phase": "Pending"}
	if words := strings.Fields(controller); len(words) == 3 {
		m["ownerReferences"] = []object{{"apiVersion": words[0], "kind": words[1], "name": words[2],
			"uid": words[1] + "-" + words[2], "controller": true}}
	}
	if from >= 0 {
		p["spec"].(object)["nodeName"] = node
		status = object{"phase": "Running", "startTime": kubeAt(from)}
	}
	if until > 0 {
		status["phase"] = "Succeeded"
		status["containerStatuses"] = []object{{"state": object{"terminated": object{"finishedAt": kubeAt(until)}}}}
	}
	p["status"] = status
	for _, o := range more {
		for key, value := range o {
			if key == "resourceClaims" || key == "schedulingGroup" || key == "workloadRef" {
				p["spec"].(object)[key] = value
			} else {
				m[key] = value
			}
		}
	}
	return p
}

func kubeTemplate(limits object) object {
	return object{"spec": object{"containers": []object{{"resources": object{"limits": limits}}}}}
}

func gpus(n int) object { return object{"nvidia.com/gpu": fmt.Sprint(n)} }

// kubeTold is what a log tells in a few words: nodes with their GPUs, and jobs with tasks, GPUs of a task, state and
// minutes.
func kubeTold(log *history.Log) string {
	var words []string
	for _, n := range log.Nodes {
		for _, g := range n.GPUs {
			words = append(words, fmt.Sprintf("%s=%d×%s", n.Name, g.Count, g.Type))
		}
	}
	began := time.Date(2026, 11, 16, 8, 0, 0, 0, time.UTC).UnixMicro()
	minutes := func(us int64) string {
		if us == 0 {
			return ""
		}
		return fmt.Sprint(float64(us-began) / 60e6)
	}
	for _, j := range log.Jobs {
		each := max(1, j.PerTask)
		word := fmt.Sprintf("%s:%d×%d", j.ID, j.GPUs/each, each)
		if j.Type != "" {
			word += "×" + j.Type
		}
		switch j.State {
		case history.Pending:
			word += " waits"
		default:
			word += " " + minutes(j.StartUs) + "–" + minutes(j.EndUs)
		}
		words = append(words, word)
	}
	return strings.Join(words, "; ")
}

func kubeItems(t *testing.T, items ...object) string {
	t.Helper()
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestKubeKinds reads jobs of all kinds: by apiVersion and kind together, gangs together, retries as attempts.
func TestKubeKinds(t *testing.T) {
	const mpi = "kubeflow.org/v2beta1 MPIJob m"
	volcano := kubeOf("batch.volcano.sh/v1alpha1", "Job", "v", object{"minAvailable": 2, "tasks": []object{
		{"name": "w", "replicas": 2, "template": kubeTemplate(gpus(8))}}})
	job := func(parallelism int, more object) object {
		spec := object{"parallelism": parallelism, "completions": parallelism, "template": kubeTemplate(gpus(8))}
		for key, value := range more {
			spec[key] = value
		}
		return kubeOf("batch/v1", "Job", "j", spec)
	}
	kueue := func(version, of string) object {
		w := kubeOf("kueue.x-k8s.io/"+version, "Workload", "w-"+of, object{"queueName": "q", "podSets": []object{
			{"name": "main", "count": 2, "template": kubeTemplate(gpus(8))}}})
		words := strings.SplitN(of, "-", 2)
		w["metadata"].(object)["ownerReferences"] = []object{{"kind": words[0], "name": words[1], "uid": of,
			"controller": true}}
		return w
	}
	core := func(version string, spec object) object {
		w := kubeOf("scheduling.k8s.io/"+version, "Workload", "j", spec)
		w["metadata"].(object)["ownerReferences"] = []object{{"apiVersion": "batch/v1", "kind": "Job", "name": "j",
			"uid": "Job-j", "controller": true}}
		return w
	}
	pods := func(controller string, n int, from, until float64, more ...object) (list []object) {
		for i := range n {
			list = append(list, kubePodOf(fmt.Sprintf("p%d-%v", i, from), controller, string(rune('a'+i)), from, until,
				gpus(8), more...))
		}
		return list
	}
	group := func(key, where string) object { return object{where: object{key: "g"}} }
	const notRead = "assumed 1: pods of a job that was not read, which ran together: one job"
	for _, c := range []struct {
		name  string
		items []object
		want  string // of kubeTold
		note  string // a line of the report, or a part of one
	}{
		{"job of Volcano waits", []object{volcano}, "ml/v:2×8 waits", ""},
		{"job of Volcano ran", append(pods("batch.volcano.sh/v1alpha1 Job v", 2, 0, 60), volcano), "ml/v:2×8 0–60",
			""},
		{"job of an unknown group", []object{kubeOf("batch.other.io/v1", "Job", "o", object{})}, "",
			`left out 1: objects of the kind "Job" of batch.other.io`},
		{"workload of the core", []object{job(2, nil), core("v1alpha1", object{"podGroups": []object{{"name": "g"}}})},
			"ml/j:2×8 waits", ""},
		{"both workloads", []object{job(2, nil), core("v1alpha2", object{"podGroupTemplates": []object{{}}}),
			kueue("v1beta2", "Job-j")}, "ml/j:2×8 waits", ""},
		{"workload of Kueue alone", []object{kueue("v1beta1", "AppWrapper-x")}, "ml/x:2×8 waits",
			"by its Workload of Kueue"},
		{"empty workload of Kueue", []object{job(2, nil), func() object {
			w := kueue("v1beta2", "Job-j")
			w["spec"] = object{"queueName": "q"}
			return w
		}()}, "ml/j:2×8 waits", ""},
		{"MPIJob waits", []object{kubeOf("kubeflow.org/v2beta1", "MPIJob", "m", object{"mpiReplicaSpecs": object{
			"Launcher": object{"replicas": 1, "template": kubeTemplate(nil)},
			"Worker":   object{"replicas": 4, "template": kubeTemplate(gpus(8))}}})}, "ml/m:4×8 waits", ""},
		{"MPIJob ran", append(pods(mpi, 4, 0, 60), kubeOf("kubeflow.org/v1", "MPIJob", "m", nil)), "ml/m:4×8 0–60",
			""},
		{"MPIJob that tells nothing", []object{kubeOf("kubeflow.org/v1", "MPIJob", "m", object{"mpiReplicaSpecs": object{
			"Worker": object{"replicas": 4}}})}, "ml/m:0×1 waits", "nothing tells what its pods ask for"},
		{"MPIJob not given", pods(mpi, 4, 0, 60), "ml/m:4×8 0–60", notRead},
		{"MPIJob not given, runs", pods(mpi, 4, 0, 0), "ml/m:4×8 0–", notRead},
		{"MPIJob not given, waits", pods(mpi, 4, -1, 0), "ml/m:4×8 waits", notRead},
		{"MPIJob whose pods end apart", append(pods(mpi, 2, 0, 60), kubePodOf("late", mpi, "d", 5, 70, gpus(8))),
			"ml/m:3×8 5–60", notRead},
		{"unknown controller", pods("x.io/v1 Trainer t", 4, 0, 60), "ml/t:4×8 0–60", notRead},
		{"unknown controller, apart", append(pods("x.io/v1 Trainer t", 1, 0, 60), kubePodOf("late",
			"x.io/v1 Trainer t", "b",
			5, 70, gpus(8))), "ml/late:1×8 5–70; ml/p0-0:1×8 0–60",
			"assumed 2: pods that belong to owners that were not read"},
		{"replicas of a service", pods("apps/v1 ReplicaSet r", 2, 0, 60),
			"ml/p0-0:1×8 0–60; ml/p1-0:1×8 0–60", "assumed 2: pods of a ReplicaSet: each is a job of its own"},
		{"TrainJob with its JobSet", append(pods("batch/v1 Job t-node-0", 2, 0, 60),
			kubeOf("trainer.kubeflow.org/v1alpha1", "TrainJob", "t", object{"trainer": object{"numNodes": 2}}),
			func() object {
				s := kubeOf("jobset.x-k8s.io/v1alpha2", "JobSet", "t", object{"replicatedJobs": []object{}})
				s["metadata"].(object)["ownerReferences"] = []object{{"kind": "TrainJob", "name": "t",
					"uid": "TrainJob-t"}}
				return s
			}(), func() object {
				j := kubeOf("batch/v1", "Job", "t-node-0", nil)
				j["metadata"].(object)["ownerReferences"] = []object{{"kind": "JobSet", "name": "t",
					"uid": "JobSet-t"}}
				return j
			}()), "ml/t:2×8 0–60", ""},
		{"TrainJob waits", []object{kubeOf("trainer.kubeflow.org/v1alpha1", "TrainJob", "t", object{"trainer": object{
			"numNodes": 3, "resourcesPerNode": object{"requests": gpus(4)}}})}, "ml/t:3×4 waits", ""},
		{"RayJob waits", []object{kubeOf("ray.io/v1", "RayJob", "r", object{"rayClusterSpec": object{
			"headGroupSpec":    object{"template": kubeTemplate(nil)},
			"workerGroupSpecs": []object{{"replicas": 2, "template": kubeTemplate(gpus(4))}}}})}, "ml/r:2×4 waits",
			""},
		{"RayCluster of a RayJob, not given", append(pods("ray.io/v1 RayCluster c", 2, 0, 60, group("ray.io/cluster",
			"labels")), func() object {
			r := kubeOf("ray.io/v1", "RayJob", "r", nil)
			r["status"] = object{"rayClusterName": "g", "jobStatus": "SUCCEEDED"}
			return r
		}()), "ml/r:2×8 0–60", ""},
		{"RayCluster", append(pods("ray.io/v1 RayCluster c", 2, 0, 60), kubeOf("ray.io/v1", "RayCluster", "c", object{
			"workerGroupSpecs": []object{{"replicas": 2, "template": kubeTemplate(gpus(8))}}})), "ml/c:2×8 0–60", ""},
		{"LeaderWorkerSet waits", []object{kubeOf("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l",
			object{"replicas": 2,
				"leaderWorkerTemplate": object{"size": 2, "workerTemplate": kubeTemplate(gpus(8))}})},
			"ml/l-0:2×8 waits; ml/l-1:2×8 waits", ""},
		{"LeaderWorkerSet, not given", slices.Concat(
			pods("apps/v1 StatefulSet l", 2, 0, 60, object{"labels": object{"leaderworkerset.sigs.k8s.io/name": "l",
				"leaderworkerset.sigs.k8s.io/group-index": "0"}}),
			pods("apps/v1 StatefulSet l", 2, 0.5, 60, object{"labels": object{"leaderworkerset.sigs.k8s.io/name": "l",
				"leaderworkerset.sigs.k8s.io/group-index": "1"}})), "ml/l-0:2×8 0–60; ml/l-1:2×8 0.5–60",
			"assumed 2: pods of a job that was not read"},
		{"JobSet, not given", slices.Concat(
			pods("batch/v1 Job s-a-0", 2, 0, 60, group("jobset.sigs.k8s.io/jobset-name", "labels")),
			pods("batch/v1 Job s-b-0", 2, 0.2, 60, group("jobset.sigs.k8s.io/jobset-name", "labels"))),
			"ml/g:4×8 0.2–60",
			notRead},
		{"group of the coscheduling plugin", pods("", 2, 0, 60, group("scheduling.x-k8s.io/pod-group", "labels")),
			"ml/g:2×8 0–60", notRead},
		{"group of Volcano", pods("", 2, 0, 60, group("scheduling.k8s.io/group-name", "annotations")),
			"ml/g:2×8 0–60", ""},
		{"group of KAI", pods("", 2, -1, 0, group("pod-group-name", "annotations")), "ml/g:2×8 waits", ""},
		{"group of the core", pods("", 2, 0, 0, object{"schedulingGroup": object{"podGroupName": "g"}}),
			"ml/g:2×8 0–", ""},
		{"group of the core, 1.35", pods("", 2, 0, 0, object{"workloadRef": object{"name": "g", "podGroup": "w"}}),
			"ml/g/w/:2×8 0–", ""},
		{"retries of one pod, soon", []object{job(1, nil), kubePodOf("p0", "batch/v1 Job j", "a", 0, 0.3, gpus(8)),
			kubePodOf("p1", "batch/v1 Job j", "a", 0.5, 0.8, gpus(8)), kubePodOf("p2", "batch/v1 Job j", "a", 1,
				60, gpus(8))},
			"ml/j:1×8 0–0.3; ml/j#2:1×8 0.5–0.8; ml/j#3:1×8 1–60",
			"assumed 2: each attempt of a job that began again"},
		{"retry beside a pod that ends", []object{job(1, nil), kubePodOf("p0", "batch/v1 Job j", "a", 0, 30, gpus(8)),
			kubePodOf("p1", "batch/v1 Job j", "b", 29.9, 60, gpus(8))}, "ml/j:1×8 0–30; ml/j#2:1×8 29.9–60", ""},
		{"retry beside a pod that ends late", []object{
			job(1, nil), kubePodOf("p0", "batch/v1 Job j", "a", 0, 35, gpus(8)),
			kubePodOf("p1", "batch/v1 Job j", "b", 30, 60, gpus(8))}, "ml/j:1×8 0–35; ml/j#2:1×8 30–60", ""},
		{"retry of a pod whose end is not told", []object{job(1, nil), func() object {
			p := kubePodOf("p0", "batch/v1 Job j", "a", 0, 0, gpus(8))
			p["status"].(object)["phase"] = "Failed"
			return p
		}(), kubePodOf("p1", "batch/v1 Job j", "b", 30, 60, gpus(8))}, "ml/j:1×8 –; ml/j#2:1×8 30–60",
			"doubtful 1: a pod has ended, and nothing says when"},
		{"gang that begins slowly", append([]object{job(2, nil), kubePodOf("slow", "batch/v1 Job j", "b", 5, 60,
			gpus(8))},
			pods("batch/v1 Job j", 1, 0, 60)...), "ml/j:2×8 5–60", "began or ended some seconds apart"},
		{"gang that began again", slices.Concat([]object{job(2, nil)}, pods("batch/v1 Job j", 2, 0, 0.4),
			pods("batch/v1 Job j", 2, 0.6, 60)), "ml/j:2×8 0–0.4; ml/j#2:2×8 0.6–60", ""},
		{"pod of a gang replaced", []object{job(2, object{"completionMode": "Indexed"}),
			kubePodOf("a", "batch/v1 Job j", "a", 0, 60, gpus(8)), kubePodOf("b", "batch/v1 Job j", "b", 0, 20,
				gpus(8)),
			kubePodOf("c", "batch/v1 Job j", "c", 21, 60, gpus(8))}, "ml/j:2×8 0–60", "took the place of another"},
		{"pieces in turns", append(pods("batch/v1 Job j", 2, 0, 60), job(2, object{"completions": 5})),
			"ml/p0-0:1×8 0–60; ml/p1-0:1×8 0–60", "assumed 2: pods of one job that did not begin and end together"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := readKubeText(t, kubeItems(t, c.items...)).Shared()
			if got := kubeTold(log); got != c.want {
				t.Errorf("got %s\nwant %s\n%s", got, c.want, log.Report)
			}
			if !strings.Contains(log.Report.String(), c.note) || len(log.Report.SetAside) > 0 {
				t.Errorf("want the line %q:\n%s", c.note, log.Report)
			}
		})
	}
}

// TestKubePieces reads GPUs that are shared, cut, or told otherwise than by nvidia.com/gpu: parts add up before they
// are rounded, and a slice is never a whole GPU.
func TestKubePieces(t *testing.T) {
	pod := func(name, node string, from, until float64, limits object, more ...object) object {
		return kubePodOf(name, "", node, from, until, limits, more...)
	}
	frac := func(key, value string) object { return object{"annotations": object{key: value}} }
	claim := object{"resourceClaims": []object{{"name": "g", "resourceClaimTemplateName": "two"}}}
	named := object{"resourceClaims": []object{{"name": "g", "resourceClaimName": "one"}}}
	claimOf := func(exactly object, given int) object {
		o := kubeOf("resource.k8s.io/v1", "ResourceClaim", "one", object{"devices": object{"requests": []object{
			{"name": "g", "exactly": exactly}}}})
		o["status"] = object{"allocation": object{"devices": object{"results": slices.Repeat([]object{{"request": "g"}},
			given)}}}
		return o
	}
	firstOf := func(given string, classes ...string) object { // of the devices a, b and so on
		var devices, results []object
		for i, class := range classes {
			devices = append(devices, object{"name": string(rune('a' + i)), "deviceClassName": class})
		}
		if given != "" {
			results = []object{{"request": given}}
		}
		o := kubeOf("resource.k8s.io/v1", "ResourceClaim", "one", object{"devices": object{"requests": []object{
			{"name": "g", "firstAvailable": devices}}}})
		o["status"] = object{"allocation": object{"devices": object{"results": results}}}
		return o
	}
	sliced := kubeNode("t", "T4-SHARED", object{"nvidia.com/gpu": "12"}, object{"nvidia.com/gpu.count": "1",
		"nvidia.com/gpu.replicas": "12"})
	const part = ": a part of a GPU counts as a whole one"
	const shared = "assumed 1: a node that shares its GPUs"
	for _, c := range []struct {
		name  string
		items []object
		want  string
		note  string
	}{
		{"time slices", []object{sliced, pod("p", "t", 0, 60, gpus(1)), pod("q", "t", 10, 50, gpus(1))},
			"t=1×T4-SHARED; ml/p:1×1 0–60", shared},
		{"time slices, more than fit", []object{sliced, pod("p", "t", 0, 60, gpus(8)), pod("q", "t", 10, 70, gpus(8))},
			"t=1×T4-SHARED; ml/p:1×1 0–60; ml/q:1×1 10–70", "assumed 2" + part},
		{"time slices under another name", []object{kubeNode("t", "T4", object{"nvidia.com/gpu.shared": "8"},
			object{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}), pod("p", "t", 0, 60,
			object{"nvidia.com/gpu.shared": "1"})}, "t=2×T4-SHARED; ml/p:1×1 0–60", "assumed 1" + part},
		{"MPS", []object{kubeNode("t", "T4", object{"nvidia.com/gpu": "8"}, object{"nvidia.com/gpu.replicas": "4",
			"nvidia.com/gpu.sharing-strategy": "mps"})}, "t=2×T4-SHARED", shared},
		{"HAMi", []object{kubeNode("h", "A100", object{"nvidia.com/gpu": "70"}, object{"nvidia.com/gpu.count": "7"}),
			pod("p", "h", 0, 60, object{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5120"})},
			"h=7×A100; ml/p:1×1 0–60", shared},
		{"HAMi by its annotation", []object{func() object {
			n := kubeNode("h", "A100", object{"nvidia.com/gpu": "20"}, nil)
			n["metadata"].(object)["annotations"] = object{"hami.io/node-nvidia-register": "GPU-1,10,40960,100,A100,0,true:" +
				"GPU-2,10,40960,100,A100,0,true:"}
			return n
		}()}, "h=2×A100", shared},
		{"HAMi's percent", []object{eight("n"), pod("p", "n", 0, 60, object{"nvidia.com/gpu": "2",
			"nvidia.com/gpucores": "50"})},
			"n=8×A100; ml/p:1×1 0–60", ""},
		{"MIG, single", []object{kubeNode("m", "A100-MIG-1g.5gb", gpus(7), nil), pod("p", "m", 0, 60, gpus(1))},
			"m=7×A100-MIG-1g.5gb; ml/p:1×1 0–60", "assumed 1: slices of GPUs"},
		{"MIG, mixed", []object{kubeNode("m", "A100", object{"nvidia.com/mig-1g.5gb": "7", "nvidia.com/gpu": "4"},
			nil),
			pod("p", "m", 0, 60, object{"nvidia.com/mig-1g.5gb": "2"}), pod("w", "m", -1, 0,
				object{"nvidia.com/mig-1g.5gb": "1"})},
			"m=4×A100; m=7×mig-1g.5gb; ml/p:1×2×mig-1g.5gb 0–60; ml/w:1×1×mig-1g.5gb waits",
			"assumed 1: slices of GPUs"},
		{"Koordinator", []object{kubeNode("k", "A100", object{"nvidia.com/gpu": "8", "koordinator.sh/gpu": "800",
			"koordinator.sh/gpu-core": "800"}, nil), pod("h", "k", 0, 60, object{"koordinator.sh/gpu": "50"}),
			pod("t", "k", 0, 60, object{"koordinator.sh/gpu-core": "200", "koordinator.sh/gpu-memory-ratio": "200"})},
			"k=8×A100; ml/h:1×1 0–60; ml/t:1×2 0–60", "assumed 1" + part},
		{"Koordinator alone", []object{kubeNode("k", "A100", object{"koordinator.sh/gpu": "800"}, nil)},
			"k=8×A100", ""},
		{"vCUDA", []object{eight("n"), pod("p", "n", 0, 60, object{"tencent.com/vcuda-core": "30",
			"tencent.com/vcuda-memory": "10"})}, "n=8×A100; ml/p:1×1 0–60", "assumed 1" + part},
		{"KAI", []object{eight("n"), pod("p", "n", 0, 60, nil, frac("gpu-fraction", "0.5"))},
			"n=8×A100; ml/p:1×1 0–60",
			"assumed 1" + part},
		{"KAI, several GPUs", []object{eight("n"), pod("p", "n", 0, 60, nil,
			object{"annotations": object{"gpu-fraction": "0.5",
				"gpu-fraction-num-devices": "4"}})}, "n=8×A100; ml/p:1×2 0–60", "parts of GPUs that add up"},
		{"KAI's reservation", []object{eight("n"), pod("p", "n", 0, 60, nil, frac("gpu-fraction", "0.5")), pod("r",
			"n", 0, 60,
			gpus(1), object{"namespace": "kai-resource-reservation"})}, "n=8×A100; ml/p:1×1 0–60",
			"pods that hold a GPU for those"},
		{"a gang of parts", []object{eight("n"),
			kubePodOf("a", "kubeflow.org/v1 PyTorchJob p", "n", 0, 60, nil, frac("gpu-fraction", "0.25")),
			kubePodOf("b", "kubeflow.org/v1 PyTorchJob p", "n", 0, 60, nil, frac("gpu-fraction", "0.25"))},
			"n=8×A100; ml/p:1×1 0–60", "assumed 2" + part},
		{"claim that was not given", []object{eight("n"), pod("p", "n", 0, 60, nil, claim)}, "n=8×A100; ml/p:1×1 0–60",
			"a claim of devices that was not given: counts as one GPU"},
		{"claim of a network card", []object{eight("n"), pod("p", "n", 0, 60, nil, object{"resourceClaims": []object{
			{"name": "rdma-nic", "resourceClaimTemplateName": "nic"}}})}, "n=8×A100; ml/p:0×1 0–60", ""},
		{"claim, v1beta1", []object{eight("n"), pod("p", "n", 0, 60, nil, claim), kubeOf("resource.k8s.io/v1beta1",
			"ResourceClaimTemplate", "two", object{"spec": object{"devices": object{"requests": []object{
				{"name": "r", "deviceClassName": "gpu.nvidia.com", "count": 2}}}}})}, "n=8×A100; ml/p:1×2 0–60", ""},
		{"claim, v1", []object{eight("n"), pod("p", "n", 0, 60, nil, claim), kubeOf("resource.k8s.io/v1",
			"ResourceClaimTemplate", "two", object{"spec": object{"devices": object{"requests": []object{
				{"name": "r", "exactly": object{"deviceClassName": "gpu.nvidia.com", "count": 2}},
				{"name": "n", "exactly": object{"deviceClassName": "dra.net"}}}}}})}, "n=8×A100; ml/p:1×2 0–60", ""},
		{"claim of a class that is not known", []object{
			eight("n"), pod("p", "n", 0, 60, nil, claim), kubeOf("resource.k8s.io/v1beta2",
				"ResourceClaimTemplate", "two", object{"spec": object{"devices": object{"requests": []object{
					{"exactly": object{"deviceClassName": "fast"}}}}}})}, "n=8×A100; ml/p:1×1 0–60", "(give deviceclasses)"},
		{"claim of a class that was given", []object{
			eight("n"), pod("p", "n", 0, 60, nil, claim), kubeOf("resource.k8s.io/v1",
				"ResourceClaimTemplate", "two", object{"spec": object{"devices": object{"requests": []object{
					{"exactly": object{"deviceClassName": "fast"}}}}}}),
			{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": object{"name": "fast"}, "spec": object{
				"selectors": []object{{"cel": object{"expression": "device.driver == 'gpu.x.io'"}}}}}},
			"n=8×A100; ml/p:1×1 0–60", "DeviceClass, 1 row"},
		{"claim of all GPUs that was given", []object{eight("n"), pod("p", "n", 0, 60, nil, named), claimOf(
			object{"deviceClassName": "gpu.nvidia.com", "allocationMode": "All"}, 8)}, "n=8×A100; ml/p:1×8 0–60", ""},
		{"claim that was given its second device, a GPU", []object{eight("n"), pod("p", "n", 0, 60, nil, named),
			firstOf("g/b", "tpu.google.com", "gpu.nvidia.com")}, "n=8×A100; ml/p:1×1 0–60", ""},
		{"claim that was given its second device, a slice of MIG", []object{eight("n"), pod("p", "n", 0, 60, nil, named),
			firstOf("g/b", "gpu.nvidia.com", "mig.nvidia.com")}, "n=8×A100; ml/p:1×1 0–60", "assumed 1: parts of GPUs"},
		{"claim that takes the first of two devices", []object{eight("n"), pod("p", "n", 0, 60, nil, named),
			firstOf("", "gpu.nvidia.com", "mig.nvidia.com")}, "n=8×A100; ml/p:1×1 0–60",
			"assumed 1: a claim that takes the first of several devices"},
		{"claim to watch GPUs", []object{eight("n"), pod("p", "n", 0, 60, nil, named), claimOf(object{
			"deviceClassName": "gpu.nvidia.com", "allocationMode": "All", "adminAccess": true}, 8)},
			"n=8×A100; ml/p:0×1 0–60", ""},
		{"claim that two pods share", []object{kubeNode("n", "A100", gpus(1), nil), pod("p", "n", 0, 60, nil, named),
			pod("q", "n", 10, 50, nil, named), claimOf(object{"deviceClassName": "gpu.nvidia.com"}, 1)},
			"n=1×A100; ml/p:1×1 0–60", "held a part of a GPU whose other parts others held"},
		{"claim of two GPUs that two pods share", []object{eight("n"), pod("p", "n", 0, 60, nil, named),
			pod("q", "n", 10, 50, nil, named), claimOf(object{"deviceClassName": "gpu.nvidia.com", "count": 2}, 2)},
			"n=8×A100; ml/p:1×1 0–60; ml/q:1×1 10–50", "assumed 2: a claim of GPUs that several pods share"},
		{"claim that one pod has after another", []object{eight("n"), pod("p", "n", 0, 30, nil, named),
			pod("q", "n", 30, 60, nil, named), claimOf(object{"deviceClassName": "gpu.nvidia.com", "count": 2}, 2)},
			"n=8×A100; ml/p:1×2 0–30; ml/q:1×2 30–60", ""},
		{"first container beside one that goes on", []object{eight("n"), func() object {
			p := pod("p", "n", 0, 60, gpus(1))
			p["spec"].(object)["initContainers"] = []object{
				{"restartPolicy": "Always", "resources": object{"limits": gpus(1)}}, {"resources": object{"limits": gpus(3)}}}
			return p
		}()}, "n=8×A100; ml/p:1×4 0–60", ""},
		{"accelerators that are no GPUs", []object{kubeNode("t", "", object{"google.com/tpu": "4"}, nil)}, "",
			"left out 1: accelerators of nodes that do not count as GPUs (google.com/tpu)"},
		{"devices of a ResourceSlice", []object{kubeNode("d", "A100", nil, nil), kubeOf("resource.k8s.io/v1",
			"ResourceSlice",
			"s", object{"nodeName": "d", "driver": "gpu.nvidia.com", "devices": []object{
				{"name": "gpu-0", "attributes": object{"type": object{"string": "gpu"}}}, {"name": "gpu-1"}}})},
			"d=2×A100", ""},
		{"a resource that is not known", []object{eight("n"), pod("p", "n", 0, 60, object{"x.io/gpu-piece": "3"})},
			"n=8×A100; ml/p:1×1 0–60", "a part of a GPU, and nothing says how large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log := readKubeText(t, kubeItems(t, c.items...)).Shared()
			if got := kubeTold(log); got != c.want {
				t.Errorf("got %s\nwant %s\n%s", got, c.want, log.Report)
			}
			if !strings.Contains(log.Report.String(), c.note) || len(log.Report.SetAside) > 0 {
				t.Errorf("want the line %q:\n%s", c.note, log.Report)
			}
		})
	}
}

// TestKubeAccelerators checks that the notes of a node's accelerators have an order, and that devices which a node
// counts by several resources are one note.
func TestKubeAccelerators(t *testing.T) {
	log := readKubeText(t, kubeItems(t, kubeNode("n", "", object{"google.com/tpu": "4", "cambricon.com/mlu": "4",
		"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "2", "aws.amazon.com/neurondevice": "1",
		"huawei.com/Ascend910": "8", "hygon.com/dcu": "2"}, nil)))
	var got []string
	for _, note := range log.Report.LeftOut {
		_, resource, _ := strings.Cut(note.What, "accelerators of nodes that do not count as GPUs ")
		got = append(got, resource)
	}
	want := []string{"(aws.amazon.com/neuron)", "(cambricon.com/mlu)", "(google.com/tpu)", "(huawei.com/Ascend910)",
		"(hygon.com/dcu)"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestKubeCut checks that a list that a limit cut is known as cut.
func TestKubeCut(t *testing.T) {
	log := readKubeText(t,
		`{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"x","remainingItemCount":7},"items":[]}`,
		`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods is forbidden"}`, " \n",
		"No resources found in ml namespace.\n")
	for _, want := range []string{"doubtful 1: a list was cut", "an error: pods is forbidden", "the text is empty"} {
		if !strings.Contains(log.Report.String(), want) {
			t.Errorf("want %q:\n%s", want, log.Report)
		}
	}
}

// TestKubeYAML reads the same from YAML as from JSON.
func TestKubeYAML(t *testing.T) {
	log := readKubeText(t, `apiVersion: v1
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a, labels: {nvidia.com/gpu.product: A100}}
  status: {allocatable: {nvidia.com/gpu: "8"}}
kind: List
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ml, creationTimestamp: "2026-11-16T08:00:00Z"}
spec: {nodeName: a, containers: [{resources: {limits: {nvidia.com/gpu: 2}}}]}
status: {phase: Running, startTime: 2026-11-16T08:00:00Z}
`)
	if got, want := kubeTold(log), "a=8×A100; ml/p:1×2 0–"; got != want || len(log.Report.SetAside) > 0 {
		t.Errorf("got %s, want %s\n%s", got, want, log.Report)
	}
}

// kubeSeeds are clusters for the fuzzer: shared GPUs, gangs of owners that are read and that are not, claims, YAML.
func kubeSeeds() (texts [][]byte) {
	for _, items := range [][]object{
		{kubeNode("t", "T4", object{"nvidia.com/gpu": "12"}, object{"nvidia.com/gpu.replicas": "12"}),
			kubePodOf("p", "", "t", 0, 60, gpus(1)), kubePodOf("q", "", "t", 1, 0, gpus(1))},
		{kubeNode("h", "A100", object{"nvidia.com/gpu": "20", "koordinator.sh/gpu": "200",
			"nvidia.com/mig-1g.5gb": "3"},
			object{"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "40960"}),
			kubePodOf("p", "", "h", 0, 60, object{"nvidia.com/gpu": "1", "nvidia.com/gpumem": "5120", "x/gpu-y": "1"}),
			kubePodOf("q", "", "h", 0, 60, object{"tencent.com/vcuda-core": "30"}, object{"annotations": object{
				"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}})},
		{eight("a"), kubePodOf("p", "kubeflow.org/v1 MPIJob m", "a", 0, 60, gpus(4)),
			kubePodOf("q", "kubeflow.org/v1 MPIJob m", "a", 1, 50, gpus(4)), kubePodOf("r", "x/v1 Y z", "a", 70, 0,
				gpus(2)),
			kubePodOf("s", "x/v1 Y z", "a", 71, 0, gpus(2))},
		{eight("a"), kubeOf("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "l", object{"replicas": 2,
			"leaderWorkerTemplate": object{"size": 2, "workerTemplate": kubeTemplate(gpus(8))}}),
			kubeOf("batch.volcano.sh/v1alpha1", "Job", "v", object{"tasks": []object{{"replicas": 2,
				"template": kubeTemplate(gpus(8))}}}),
			kubeOf("resource.k8s.io/v1", "ResourceClaimTemplate", "two", object{"spec": object{"devices": object{
				"requests": []object{{"exactly": object{"deviceClassName": "gpu.nvidia.com", "count": 2}}}}}}),
			kubePodOf("p", "", "a", 0, 60, nil, object{"resourceClaims": []object{{"name": "g",
				"resourceClaimTemplateName": "two"}}})},
	} {
		text, _ := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": items})
		texts = append(texts, text)
	}
	return append(texts, []byte("kind: List\nitems:\n- kind: Pod\n  metadata: {name: p}\n---\nkind: Node\n"))
}

// TestPodsOfParents gives the pods of a JobSet that was not given to its TrainJob, and ends an evicted pod when it was
// evicted; nodes of other makers have their types by their labels.
func TestPodsOfParents(t *testing.T) {
	jobSet := func(index string) object {
		return object{"labels": object{"jobset.sigs.k8s.io/jobset-name": "train",
			"batch.kubernetes.io/job-completion-index": index}}
	}
	train := kubeOf("trainer.kubeflow.org/v1alpha1", "TrainJob", "train", object{"trainer": object{"numNodes": 2,
		"resourcesPerNode": object{"limits": gpus(4)}}})
	evicted := kubePodOf("evicted", "", "a", 0, 0, gpus(1))
	evicted["status"] = object{"phase": "Failed", "reason": "Evicted", "startTime": kubeAt(0), "conditions": []object{
		{"type": "Ready", "status": "False", "lastTransitionTime": kubeAt(0)},
		{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": kubeAt(20)}}}
	intel := kubeNode("c", "", object{"gpu.intel.com/xe": "2"}, object{"gpu.intel.com/product": "Max_1100"})
	delete(intel["metadata"].(object)["labels"].(object), "nvidia.com/gpu.product")
	gaudi := object{"habana.ai/gaudi": "2"}
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": []object{eight("a"), eight("b"), intel,
		kubeNode("d", "HL-225", gaudi, nil), kubePodOf("gaudi", "", "d", 0, 5, gaudi), train, evicted,
		kubePodOf("w0", "batch/v1 Job train-node-0", "a", 1, 9, gpus(4), jobSet("0")),
		kubePodOf("w1", "batch/v1 Job train-node-0", "b", 1, 9, gpus(4), jobSet("1"))}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := history.Read("kube", []trace.Source{{Name: "f", R: bytes.NewReader(text)}}, history.ReadConfig{})
	if err != nil {
		t.Fatal(err)
	}
	want := "a=8×A100; b=8×A100; c=2×Max_1100; d=2×HL-225; ml/evicted:1×1 0–20; ml/gaudi:1×2 0–5; ml/train:2×4 1–9"
	if got := kubeTold(log); got != want {
		t.Errorf("got %s, want %s\n%s", got, want, log.Report)
	}
}

// TestKubeVendors keeps pods to nodes whose GPUs are counted by the resource that they ask for, and off all where no
// node's are.
func TestKubeVendors(t *testing.T) {
	amd := kubeNode("a", "", object{"amd.com/gpu": "8"}, object{"amd.com/gpu.product-name": "MI300X", "zone": "z"})
	far := kubePodOf("far", "", "n", 0, 60, gpus(1))
	terms := []object{{"matchExpressions": []object{{"key": "zone", "operator": "NotIn", "values": []string{"z"}}}}}
	far["spec"].(object)["affinity"] = object{"nodeAffinity": object{
		"requiredDuringSchedulingIgnoredDuringExecution": object{"nodeSelectorTerms": terms}}}
	log := readKubeText(t, kubeItems(t, eight("n"), amd, kubePodOf("p", "", "n", 0, 60, gpus(2)), far,
		kubePodOf("q", "", "a", 0, 60, object{"amd.com/gpu": "2"})))
	built, err := log.Build(history.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range built.Instance.Jobs {
		for i := range built.Instance.Cluster.Nodes {
			if n := &built.Instance.Cluster.Nodes[i]; j.AllowsNode(n) {
				got = append(got, j.ID+" on "+n.Name)
			}
		}
	}
	if want := "ml/far on n, ml/p on n, ml/q on a"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", strings.Join(got, ", "), want)
	}
	intel := kubeNode("i", "Max_1100", object{"gpu.intel.com/i915": "2"}, nil)
	for _, nodes := range [][]object{{eight("n")}, {eight("n"), intel}} {
		now, err := readKubeText(t, kubeItems(t, append(nodes, kubePodOf("q", "", "", -1, 0, object{"amd.com/gpu": "2"}),
			kubePodOf("p", "", "", -1, 0, gpus(2)))...)).BuildNow(history.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if jobs := now.Instance.Jobs; len(jobs) != 1 || jobs[0].ID != "ml/p" || len(jobs[0].On) != 1 {
			t.Errorf("%d kinds of nodes: want ml/p alone, on one GPU type: got %+v", len(nodes), jobs)
		}
	}
}
