package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/wire"
)

func TestGenerateHardware(t *testing.T) {
	args := []string{"generate", "--jobs", "2", "--gpus", "V100=8"}
	out, stderr, code := runHare(t, "", append(args, "--bandwidth", "node=300.5,any=25", "--gpu-memory", "V100=16")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	inst, err := wire.DecodeInstance(strings.NewReader(out), wire.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if b := inst.Cluster.Bandwidths; len(b) != 2 || b[0].Mbps != 25000 || b[1].Level != "node" || b[1].Mbps != 300500 {
		t.Errorf("bandwidths %v", b)
	}
	if inst.Cluster.GPUMemoryMilliGiB("V100") != 16000 {
		t.Errorf("GPU types %v", inst.Cluster.GPUTypes)
	}
	for _, bad := range [][]string{{"--bandwidth", "any=0"}, {"--bandwidth", "any"}, {"--bandwidth", "rack=5"},
		{"--bandwidth", "any=1,any=2"}, {"--bandwidth", "any=NaN"}, {"--gpu-memory", "V100=-1"}, {"--gpu-memory", "=1"}} {
		if _, stderr, code := runHare(t, "", append(args, bad...)...); code != exitUsage ||
			!strings.Contains(stderr, bad[0]) {
			t.Errorf("%v: exit %d, %s", bad, code, stderr)
		}
	}
}

// Regret keeps no topology where no job goes by levels, and then no bandwidth of its levels either.
func TestRegretOfAClusterWithBandwidths(t *testing.T) {
	dir := t.TempDir()
	cluster, log := filepath.Join(dir, "cluster.json"), filepath.Join(dir, "log.ndjson")
	text := `{"topology":["rack"],"bandwidth_gbps":{"rack":10},` +
		`"nodes":[{"name":"a","gpus":{"A":1},"labels":{"rack":"r"}}]}`
	if err := os.WriteFile(cluster, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	events := `{"seq":1,"at_s":0,"type":"job_arrived","job":{"id":"x","sync":"gang","on":{"A":{"compute_s":1}}}}
{"seq":2,"at_s":1,"type":"task_ended","job":"x","round":0,"task":0,"gpu":"a/0","compute_s":1}
{"seq":3,"at_s":1,"type":"job_ended","job":"x"}
`
	args := []string{"online", "--policy", "fifo", "--cluster", cluster, "--log", log}
	if _, stderr, code := runHare(t, events, args...); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	out, stderr, code := runHare(t, "", "online", "regret", log, "--against", "srtf")
	if code != 0 || !strings.Contains(out, `"regret":1.000000`) {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
}
