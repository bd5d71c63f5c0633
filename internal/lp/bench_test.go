package lp

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// covering returns a covering problem: minimise a positive cost subject to m rows that
// each need some of n columns, with about k entries a row.
func covering(rng *rand.Rand, n, m, k int) *Problem {
	p := &Problem{Start: []int32{0}}
	for range n {
		p.Cost = append(p.Cost, 1+rng.Float64())
		p.ColLower = append(p.ColLower, 0)
		p.ColUpper = append(p.ColUpper, math.Inf(1))
	}
	for range m {
		seen := make(map[int32]bool)
		for len(seen) < k {
			j := int32(rng.IntN(n))
			if !seen[j] {
				seen[j] = true
				p.Index, p.Value = append(p.Index, j), append(p.Value, 1+rng.Float64())
			}
		}
		p.Start = append(p.Start, int32(len(p.Index)))
		p.RowLower = append(p.RowLower, 1+rng.Float64())
		p.RowUpper = append(p.RowUpper, math.Inf(1))
	}
	return p
}

// BenchmarkPool measures the round trip to a worker beside the solve.
func BenchmarkPool(b *testing.B) {
	pool, err := NewPool(PoolConfig{Size: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	for _, size := range []struct{ n, m, k int }{{10, 10, 3}, {240, 2000, 20}} {
		p := covering(rand.New(rand.NewPCG(1, 1)), size.n, size.m, size.k)
		b.Run(fmt.Sprintf("rows=%d/entries=%d", size.m, len(p.Index)), func(b *testing.B) {
			b.SetBytes(requestBytes(p))
			for b.Loop() {
				if _, err := pool.Solve(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeDecode(b *testing.B) {
	p := covering(rand.New(rand.NewPCG(1, 1)), 240, 20000, 40)
	b.SetBytes(requestBytes(p))
	var frame []byte
	for b.Loop() {
		frame = seal(appendProblem(newFrame(frame), 1, p), frameSolve)
		if _, _, err := decodeProblem(frame[headerBytes:]); err != nil {
			b.Fatal(err)
		}
	}
}
