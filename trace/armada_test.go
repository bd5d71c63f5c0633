package trace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/wire"
)

const armadaClusters = `name: two
clusters:
  - name: east
    pool: gpu
    nodeTemplates:
      - number: 2
        labels: {nvidia.com/gpu.product: A100, disk: nvme}
        totalResources: {resources: {cpu: "128", memory: "4096Gi", nvidia.com/gpu: "8"}}
      - number: 3
        totalResources: {resources: {cpu: 32, memory: 1Ti}}
  - name: west
    nodeTemplates:
      - number: 1
        labels: {nvidia.com/gpu.product: T4}
        taints: [{key: gpu, value: "true", effect: NoSchedule}]
        totalResources: {resources: {cpu: 32, memory: 1Ti, nvidia.com/gpu: 4}}
`

const armadaWork = `name: work
queues:
  - name: ann
    weight: 2
    jobTemplates:
      - id: train
        number: 4
        requirements: {resourceRequirements: {requests: {cpu: 8, memory: 10Gi, nvidia.com/gpu: 2}}}
        gangCardinality: 2
        earliestSubmitTime: 30m
        runtimeDistribution: {minimum: 5m, tailMean: 30s}
      - number: 1
        requirements: {resourceRequirements: {requests: {cpu: 1}}}
        runtimeDistribution: {minimum: 5m}
  - name: ben
    weight: 1
    jobTemplates:
      - number: 1
        repeat: {numTimes: 2, period: 1h}
        requirements: {nodeSelector: {disk: nvme}, resourceRequirements: {requests: {nvidia.com/gpu: "1"}}}
        runtimeDistribution: {minimum: 10m}
      - number: 1
        requirements: {resourceRequirements: {requests: {nvidia.com/gpu: 64}}}
        runtimeDistribution: {minimum: 10m}
`

// armada reads a workload and clusters.
func armada(work, clusters string) (*hare.Instance, *trace.Report, error) {
	cfg := trace.ImportConfig{Trace: trace.Source{Name: "w.yaml", R: strings.NewReader(work)}}
	if clusters != "" {
		cfg.Table = trace.Source{Name: "c.yaml", R: strings.NewReader(clusters)}
	}
	return trace.Import("armada", cfg)
}

// TestArmada reads a workload and the clusters of Armada's simulator, in either order.
func TestArmada(t *testing.T) {
	for _, texts := range [][2]string{{armadaClusters, armadaWork}, {armadaWork, armadaClusters}} {
		inst, rep, err := armada(texts[0], texts[1])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, j := range inst.Jobs {
			got = append(got, fmt.Sprintf("%s of %s: %d tasks of %d GPUs, %d thousandths, %d MiB within %q at %d for %d "+
				"on %d types, weight %d, only %v",
				j.ID, j.Users[0], j.Tasks, j.TaskGPUs(), j.CPUMilliPerTask, j.MemoryMiBPerTask, j.Within, j.ReleaseUs/1e6,
				j.On[0].ComputeUs/1e6, len(j.On), j.WeightMicro/1e6, j.Only))
		}
		const within = `"armadaproject.io/clusterName"`
		want := []string{
			"ann-train-0 of ann: 2 tasks of 2 GPUs, 8000 thousandths, 10240 MiB within " + within + " at 1800 for 330 on " +
				"2 types, weight 2, only []",
			"ann-train-1 of ann: 2 tasks of 2 GPUs, 8000 thousandths, 10240 MiB within " + within + " at 1800 for 330 on " +
				"2 types, weight 2, only []",
			`ben-0-0 of ben: 1 tasks of 1 GPUs, 0 thousandths, 0 MiB within "" at 0 for 600 on 2 types, weight 1, only ` +
				`[{disk [nvme]}]`,
			`ben-0-1 of ben: 1 tasks of 1 GPUs, 0 thousandths, 0 MiB within "" at 3600 for 600 on 2 types, weight 1, ` +
				`only [{disk [nvme]}]`,
		}
		if !slices.Equal(got, want) || len(inst.Cluster.Nodes) != 3 || len(rep.Skipped) != 4 {
			t.Errorf("got\n%s\n%d nodes\n%s", strings.Join(got, "\n"), len(inst.Cluster.Nodes), rep)
		}
		var b strings.Builder
		if err := wire.EncodeInstance(&b, inst); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.DecodeInstance(strings.NewReader(b.String()), wire.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ work, clusters, want string }{
		{armadaWork, "", "there is no cluster"}, {armadaClusters, "", "has no queues"}, {"a: 1", "",
			"neither clusters nor queues"},
		{"a: [", "", "w.yaml:1:1: "}, {armadaWork, armadaWork, "both texts have queues"},
		{strings.ReplaceAll(armadaWork, "nvidia.com/gpu", "example.com/fpga"), armadaClusters,
			"no row of this text gives a job"},
	} {
		if _, _, err := armada(c.work, c.clusters); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.30q: %v, not %s", c.work, err, c.want)
		}
	}
	// One value that cannot be read costs its template alone.
	inst, rep, err := armada(strings.Replace(armadaWork, "minimum: 5m, tailMean: 30s", "minimum: soon", 1),
		armadaClusters)
	if err != nil || len(inst.Jobs) != 2 || !strings.Contains(rep.String(), "jobs with a value that cannot be read") {
		t.Errorf("%v\n%v", err, rep)
	}
}

func FuzzArmada(f *testing.F) {
	f.Add(armadaWork, armadaClusters)
	f.Add("queues: [{jobTemplates: [{number: 1e9, repeat: {numTimes: 1e9}}]}]",
		"clusters: [{nodeTemplates: [{number: 1e9}]}]")
	f.Fuzz(func(t *testing.T, work, clusters string) {
		if len(work)+len(clusters) > 1<<16 {
			return
		}
		inst, _, err := armada(work, clusters)
		if err == nil {
			if err := inst.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
