package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	latencyBase   = flag.String("hare.base", "", "the build of hare with which TestLatency compares another one")
	latencyBuild  = flag.String("hare.build", "", "that other build of hare")
	latencyRounds = flag.Int("hare.rounds", 15, "how often TestLatency measures each build")
	latencyBusy   = flag.Int("hare.busy", 0, "how many processes keep the processors busy during TestLatency")
)

// TestLatency compares two builds, round by round in turn: what the service adds to the
// time of a solve of ten jobs, refusals and answers at about ten times the capacity of
// two cores, and memory. It prints medians over the rounds:
//
//	go test ./cmd/hare -run 'TestLatency$' -v -args -hare.base=/path/to/hare -hare.build=$PWD/bin/hare
func TestLatency(t *testing.T) {
	if *latencyBase == "" || *latencyBuild == "" {
		t.Skip("compares two builds: -args -hare.base=/path/to/hare -hare.build=/path/to/hare")
	}
	for range *latencyBusy {
		busy := exec.Command("sh", "-c", "while :; do :; done")
		busy.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = busy.Process.Kill(); _ = busy.Wait() }()
	}
	const solves, rate, length = 50, 420, 2 * time.Second
	var names []string
	found := [2]map[string][]float64{{}, {}}
	for round := range *latencyRounds {
		for at := range 2 {
			x := (at + round) % 2
			for _, place := range []string{"memory", "disk"} {
				note := func(name string, value float64) {
					name = place + ": " + name
					if !slices.Contains(names, name) {
						names = append(names, name)
					}
					found[x][name] = append(found[x][name], value)
				}
				args := []string{"serve", "--listen", "127.0.0.1:0", "--retain-size", "100"}
				if place == "disk" {
					args = append(args, "--data-dir", t.TempDir())
				}
				s := serveAs(t, exec.Command([]string{*latencyBase, *latencyBuild}[x], args...), time.Hour)
				note("MiB resident at the start", float64(s.rss(t)))
				added, took := addedLatency(t, s, solves, round)
				note("ms added to a solve, p50", added.at(0.5))
				note("ms added to a solve, p99", added.at(0.99))
				note("solves/s one by one", float64(len(took.all))/took.sum())
				refused, answered := overload(t, s, rate, length, round)
				note("ms to a refusal, p50", refused.at(0.5))
				note("ms to a refusal, p99", refused.at(0.99))
				note("answers/s beside refusals", float64(len(answered.all))/length.Seconds())
				note("MiB resident at the end", float64(s.rss(t)))
				_ = s.cmd.Process.Kill()
				_ = s.end(t)
			}
		}
	}
	for _, name := range names {
		t.Logf("%-34s base %7.2f  this %7.2f", name, median(found[0][name]), median(found[1][name]))
	}
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// sum returns seconds.
func (s *spans) sum() (total float64) {
	for _, d := range s.all {
		total += d.Seconds()
	}
	return total
}

// addedLatency runs n solves of ten jobs one after another. It returns what the service
// added to the time that the solver states, and the whole times.
func addedLatency(t testing.TB, s *served, n, seed int) (added, took *spans) {
	t.Helper()
	added, took = &spans{}, &spans{}
	inst := generated(t, 10, "relaxed", 1)
	for i := range n {
		body := loadBody(t, inst, fmt.Sprintf(`{"work_limit":100,"seed":%d}`, seed*n+i))
		began := time.Now()
		code, _, text, err := s.call("POST", "/v1/solves", body)
		whole := time.Since(began)
		var res struct {
			Timing struct {
				Total float64 `json:"total_s"`
			}
		}
		if err != nil || code != 200 || json.Unmarshal(text, &res) != nil {
			t.Fatalf("%d %.200s %v", code, text, err)
		}
		took.add(whole)
		added.add(whole - time.Duration(res.Timing.Total*1e9))
	}
	return added, took
}

// overload sends so many solves of ten jobs a second, whether they are answered or not.
func overload(t testing.TB, s *served, rate int, length time.Duration, seed int) (refused, answered *spans) {
	t.Helper()
	refused, answered = &spans{}, &spans{}
	inst := generated(t, 10, "relaxed", 1)
	var all sync.WaitGroup
	began := time.Now()
	for n := range int(length.Seconds() * float64(rate)) {
		body := loadBody(t, inst, fmt.Sprintf(`{"work_limit":100,"seed":%d}`, (seed+1)*1_000_000+n))
		time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		all.Go(func() {
			sent := time.Now()
			code, h, text, err := s.call("POST", "/v1/solves", body)
			switch took := time.Since(sent); {
			case err == nil && code == 503 && h.Get("Retry-After") != "":
				refused.add(took)
			case err == nil && code == 200:
				answered.add(took)
			default:
				t.Errorf("%d %.200s %v", code, text, err)
			}
		})
	}
	all.Wait()
	return refused, answered
}
