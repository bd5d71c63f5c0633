package history_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
	"github.com/hare-sched/hare/verify"
)

// fuzzSlurm fuzzes a reader of Slurm, with the texts of testdata that a pattern finds as seeds, beside nodes that
// are known: nothing panics, an instance that it gives is valid, and an error is short.
func fuzzSlurm(f *testing.F, ofReader func(text []byte) bool) {
	for _, pattern := range []string{"testdata/*", "testdata/cases/*/*"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err == nil && ofReader(text) && len(text) < 1<<14 {
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !ofReader(text) {
			return
		}
		log, err := history.Read("slurm", []trace.Source{{Name: "nodes", R: strings.NewReader(twoNodes)},
			{Name: "f", R: bytes.NewReader(text)}}, history.ReadConfig{MaxJobs: 1000})
		if err != nil {
			return
		}
		built, err := log.Build(history.Config{})
		if err == nil {
			verify.Check(built.Instance, built.Happened)
		}
		_, now := log.BuildNow(history.Config{})
		for _, err := range []error{err, now} {
			if nothing := (*history.NothingError)(nil); errors.As(err, &nothing) && len(err.Error()) > 200 {
				t.Errorf("%d characters say that nothing was found: %v", len(err.Error()), err)
			}
		}
	})
}

func FuzzSacct(f *testing.F) {
	f.Add([]byte(
		"JobID|State|Submit|Start|End|ElapsedRaw|Suspended|TimelimitRaw|ReqTRES|AllocTRES|NodeList|SubmitLine\n" +
			"7_[0-30:2%4]|PENDING|1|Unknown|Unknown|||525600|gres/shard=2||None assigned|sbatch -t 365-0 --gres=mps:50 a\n"))
	f.Add([]byte("JobID|State|Submit|Start|End|NNodes|ReqTRES|AllocTRES|NodeList|SubmitLine\n" +
		"7+1|RESIZING|1|2|4|2|gres/gpu=2,node=2|gres/gpu=2,node=2|g[1-2]|sbatch --gres=gpu:a:1 : --gres=gpu:b:1 -N2 a\n" +
		"7+1|COMPLETED|4|2|9|1|gres/gpu=2,node=1|gres/gpu=1,node=1|g1|sbatch --exclusive : --gres=gpu:b:1 a\n"))
	fuzzSlurm(f, func(text []byte) bool {
		return bytes.Contains(bytes.ToLower(text[:min(len(text), 80)]), []byte("jobid|"))
	})
}

func FuzzSlurmJSON(f *testing.F) {
	f.Add([]byte(`{"jobs":[{"job_id":1,"job_state":["PENDING"],"submit_time":9,"array_task_string":"0xFF"}],` +
		`"reservations":[{"name":"r","node_list":"g[1-2]","start_time":1,"end_time":9}]}`))
	fuzzSlurm(f, func(text []byte) bool { return bytes.HasPrefix(text, []byte("{")) })
}

func FuzzScontrol(f *testing.F) {
	f.Add([]byte(
		"ReservationName=r StartTime=2026-01-01T00:00:00 EndTime=2026-01-02T00:00:00 Nodes=g[1-2] Flags=MAINT\n"))
	fuzzSlurm(f, func(text []byte) bool {
		return bytes.HasPrefix(text, []byte("NodeName=")) || bytes.HasPrefix(text, []byte("ReservationName="))
	})
}

func FuzzSlurmEvents(f *testing.F) {
	f.Add([]byte("NodeName|TimeStart|TimeEnd|State|Reason\ng1|2026-01-01T00:00:00|Unknown|DRAIN|x|y\n"))
	fuzzSlurm(f, func(text []byte) bool { return bytes.Contains(text[:min(len(text), 80)], []byte("NodeName|")) })
}
