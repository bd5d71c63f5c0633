package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIfSaysTimes goes from a table of jobs to what GPUs are worth in hours, also where the table does not say
// which type a job asked for.
func TestWhatIfSaysTimes(t *testing.T) {
	dir := t.TempDir()
	table := "id,submit,start,end,gpus,nodes,type\n"
	for _, id := range []string{"a", "b", "c", "d"} {
		table += id + ",0,0,7200,1,n-" + id + ",V100\n"
	}
	table += "e,864000,864000,871200,1,m,H100\n"
	csv, inst := filepath.Join(dir, "jobs.csv"), filepath.Join(dir, "week.json")
	if err := os.WriteFile(csv, []byte(table), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"objective: completion time, summed over the jobs, in seconds; the base: 10 h, 2 h a job",
			"4 of 5 jobs cannot use the added H100", "hare import history --any-type", "\n  add H100=2: no change\n",
			"\n  remove-gpus n-a=1: 2 h more in all, 24 min more a job; 84 min more " +
				"a week, of the 10 d in which jobs arrive\n",
			"\n  remove-job b: 2 h less in all, with other jobs or weights than the base\n"}},
		{[]string{"--any-type"}, []string{"best plan in time"}},
	} {
		args := append([]string{"import", "history", csv, "-o", inst, "--speeds", "H100=2,V100=1"}, c.args...)
		if _, errs, code := runHare(t, "", args...); code != exitDone {
			t.Fatal(errs)
		}
		out, errs, code := runHare(t, "", "whatif", inst, "--add", "H100=2", "--remove-gpus", "n-a=1", "--remove-job", "b")
		for _, want := range c.want {
			if code != exitDone || !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s%s", c.args, want, out, errs)
			}
		}
		if c.args != nil && (strings.Contains(out, "cannot use") || strings.Contains(out, "−-")) {
			t.Errorf("any type:\n%s", out)
		}
	}
}
