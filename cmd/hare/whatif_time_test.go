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

// TestBetween checks that proved times are rounded outwards.
func TestBetween(t *testing.T) {
	const s = 1_000_000
	for _, x := range []struct {
		low, high int64
		want      string
	}{
		{-7200*s - 1, -3600*s - 999_999, "1 h to 2 h 1 min less"}, {3600*s + 1, 7 * 86400 * s, "1 h to 7 d more"},
		{-s, 2 * s, "from 1 s less to 2 s more"}, {-62280_014974, -62280_014974, "17 h 18 min to 17 h 19 min less"},
		{5 * s, 5 * s, "5 s more"}, {0, 90_001_000, "0 s to 90.01 s more"},
		{1_009_000, 1_011_000, "1 s to 1.02 s more"},
	} {
		if got := between(x.low, x.high); got != x.want {
			t.Errorf("%d to %d: %q, want %q", x.low, x.high, got, x.want)
		}
	}
}
