package history_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

var benchJobs = flag.Int("hare.jobs", 10_000, "the jobs of BenchmarkSacct")

// BenchmarkSacct reads a text of sacct -P with a row for each job and one for its batch step, on 200 nodes of eight
// GPUs, and makes the instance:
// go test ./history -run '^$' -bench Sacct -benchtime 1x -benchmem -args -hare.jobs 1000000.
func BenchmarkSacct(b *testing.B) {
	var text strings.Builder
	text.WriteString("JobID|JobName|User|Partition|State|Submit|Start|End|TimelimitRaw|NNodes|ReqTRES|AllocTRES|" +
		"NodeList\n")
	at := func(s int) string {
		return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02d", 1+s/86400/28%12, 1+s/86400%28, s/3600%24, s/60%60, s%60)
	}
	for i := range *benchJobs {
		start, gpus := i/200*300, 1<<(i%4)
		row := fmt.Sprintf("COMPLETED|%s|%s|%s|60|1|gres/gpu=%d|gres/gpu=%[4]d|n%[5]d\n", at(max(0, start-i%3000)),
			at(start), at(start+200+i%90), gpus, i%200)
		fmt.Fprintf(&text, "%d|train-%d|u%d|gpu|%s%[1]d.batch|batch||gpu|%[4]s", i+1, i%97, i%61, row)
	}
	b.SetBytes(int64(text.Len()))
	for b.Loop() {
		log, err := history.Read("slurm", []trace.Source{{Name: "jobs.txt", R: strings.NewReader(text.String())}},
			history.ReadConfig{})
		if err != nil {
			b.Fatal(err)
		}
		if built, err := log.Build(history.Config{}); err != nil || len(built.Instance.Jobs) != *benchJobs {
			b.Fatal(err, built != nil)
		}
	}
}
