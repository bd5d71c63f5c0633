package slurm

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
)

// readyQueue is a fakeSlurm whose answer about the queue is made before, so that the benchmark measures the helper.
type readyQueue struct {
	*fakeSlurm
	queue []byte
}

func (rq *readyQueue) Run(ctx context.Context, stdin []byte, name string, args ...string) ([]byte, error) {
	if name == "env" {
		_, mark, _ := strings.Cut(args[len(args)-1], ":")
		mark, _, _ = strings.Cut(mark, ",")
		return bytes.ReplaceAll(rq.queue, []byte{0}, []byte(mark)), nil
	}
	return rq.fakeSlurm.Run(ctx, stdin, name, args...)
}

// BenchmarkStep measures one loop of a helper that writes nothing, over 20,000 waiting jobs on 200 nodes, of which
// 5,000 are the tasks of an array: go test ./adapters/slurm -run '^$' -bench Step -benchtime 3x.
func BenchmarkStep(b *testing.B) {
	f := newFakeSlurm()
	f.nodes = nil
	for n := range 200 {
		f.nodes = append(f.nodes, &fakeNode{name: fmt.Sprintf("n%d", n), gpuType: []string{"v100", "t4"}[n%2], gpus: 8})
	}
	for x := range 15_000 {
		f.submit(60 + 7*x%5000)
	}
	f.submit(300).ArrayTasks = "[0-4999]"
	var format string
	for i := range queueColumns {
		format += queueColumns[i].column + ":\x00,"
	}
	rq := &readyQueue{f, f.columns(format[:len(format)-1])}
	for b.Loop() {
		b.StopTimer()
		h := testHelper(b, f, b.TempDir(), func(cfg *Config) { cfg.Write = false })
		h.commands = rq
		b.StartTimer()
		if r, err := h.Step(b.Context()); err != nil || r.Jobs != 15_001 { // an array is one entry of the queue
			b.Fatal(err, r != nil)
		}
	}
}
