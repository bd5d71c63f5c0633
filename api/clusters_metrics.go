package api

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hare-sched/hare/serve/clusters"
	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// statsTime is how long a scrape waits for clusters that are slow to answer.
const statsTime = 500 * time.Millisecond

// clusterCollector reads the numbers of all clusters once for each scrape.
type clusterCollector struct {
	clusters *clusters.Clusters
	values   []clusterValue
	jobs     *prometheus.Desc
}

type clusterValue struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(s *clusters.Stats) float64
}

func newClusterCollector(cs *clusters.Clusters) *clusterCollector {
	c := &clusterCollector{clusters: cs, jobs: prometheus.NewDesc("hare_cluster_jobs", "Jobs of managed clusters by "+
		"state, ended ones too.", []string{"state"}, nil)}
	add := func(name, help string, kind prometheus.ValueType, of func(s *clusters.Stats) float64) {
		c.values = append(c.values, clusterValue{prometheus.NewDesc(name, help, nil, nil), kind, of})
	}
	const gauge, count = prometheus.GaugeValue, prometheus.CounterValue
	add("hare_clusters", "Managed clusters that exist.", gauge,
		func(s *clusters.Stats) float64 { return float64(s.Clusters) })
	add("hare_clusters_silent", "Managed clusters that gave no answer: damaged, or behind a slow disk.", gauge,
		func(s *clusters.Stats) float64 { return float64(s.Silent) })
	add("hare_cluster_agents", "Agents whose lease has not run out.", gauge,
		func(s *clusters.Stats) float64 { return float64(s.Agents) })
	add("hare_cluster_gpus", "GPUs of these agents that are well.", gauge,
		func(s *clusters.Stats) float64 { return float64(s.GPUs) })
	add("hare_cluster_gpus_free", "GPUs of these that have no task and are not drained.", gauge,
		func(s *clusters.Stats) float64 { return float64(s.FreeGPUs) })
	add("hare_cluster_records_total", "Records of journals of managed clusters that became durable.", count,
		func(s *clusters.Stats) float64 { return float64(s.Records) })
	add("hare_cluster_commits_total", "Groups of records that became durable together.", count,
		func(s *clusters.Stats) float64 { return float64(s.Commits) })
	add("hare_cluster_commit_failures_total", "Groups of records that the disk refused.", count,
		func(s *clusters.Stats) float64 { return float64(s.Failures) })
	add("hare_cluster_leases_lost_total", "Leases of agents that ran out.", count,
		func(s *clusters.Stats) float64 { return float64(s.Expired) })
	add("hare_cluster_log_bytes_total", "Bytes of outputs of tasks that were stored.", count,
		func(s *clusters.Stats) float64 { return float64(s.LogBytes) })
	add("hare_cluster_logs_removed_total", "Jobs whose outputs were removed to make room.", count,
		func(s *clusters.Stats) float64 { return float64(s.LogsRemoved) })
	add("hare_cluster_copies_total", "Copies of checkpoints of round jobs that became durable.", count,
		func(s *clusters.Stats) float64 { return float64(s.Copies) })
	add("hare_cluster_copy_bytes_total", "Bytes of such copies that were stored.", count,
		func(s *clusters.Stats) float64 { return float64(s.CopyBytes) })
	return c
}

// Describe implements prometheus.Collector.
func (c *clusterCollector) Describe(to chan<- *prometheus.Desc) {
	to <- c.jobs
	for i := range c.values {
		to <- c.values[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c *clusterCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statsTime)
	defer cancel()
	s := c.clusters.Stats(ctx)
	for i := range c.values {
		v := &c.values[i]
		to <- prometheus.MustNewConstMetric(v.desc, v.kind, v.of(&s))
	}
	for _, state := range clusterdoc.JobStates() {
		to <- prometheus.MustNewConstMetric(c.jobs, prometheus.GaugeValue, float64(s.Jobs[state]), string(state))
	}
}
