package saturating_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/hare-sched/hare/internal/saturating"
)

// The functions agree with arithmetic on numbers of any size.
func TestAgreesWithBigNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	edges := []int64{0, 1, 2, 3, 1 << 31, 1<<32 - 1, 1 << 32, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64}
	number := func() int64 {
		if rng.IntN(3) == 0 {
			return edges[rng.IntN(len(edges))]
		}
		return rng.Int64() >> rng.IntN(63)
	}
	for range 20_000 {
		a, b, c := number(), number(), max(1, number())
		x, y, z := big.NewInt(a), big.NewInt(b), big.NewInt(c)
		product := new(big.Int).Mul(x, y)
		down, rest := new(big.Int).QuoRem(product, z, new(big.Int))
		up := new(big.Int).Set(down)
		if rest.Sign() > 0 {
			up.Add(up, big.NewInt(1))
		}
		for _, v := range []struct {
			name string
			got  int64
			want *big.Int
		}{
			{"Add", saturating.Add(a, b), new(big.Int).Add(x, y)},
			{"Mul", saturating.Mul(a, b), product},
			{"MulDiv", saturating.MulDiv(a, b, c), down},
			{"MulDivUp", saturating.MulDivUp(a, b, c), up},
		} {
			want := int64(math.MaxInt64)
			if v.want.IsInt64() {
				want = v.want.Int64()
			}
			if v.got != want {
				t.Fatalf("%s of %d, %d, %d is %d, want %d", v.name, a, b, c, v.got, want)
			}
		}
	}
}

func Example() {
	fmt.Println(saturating.MulDivUp(7, 3, 2), saturating.Add(math.MaxInt64, 1) == math.MaxInt64)
	// Output: 11 true
}
