package policies_test

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// This file has the known results of queueing theory: formulas for mean times, and recursions
// for the time of each job. It shares no code with the engines.

// law is a distribution of service times: a mixture of exponentials, or a constant if rate is
// empty. The mean of every law is 1,000 s.
type law struct {
	name       string
	part, rate []float64
}

const meanS = 1000.0

var (
	exponential = law{"M", []float64{1}, []float64{1 / meanS}}
	constant    = law{name: "D"}
	// spread has a squared coefficient of variation of 4, with balanced means:
	// p = (1 + √((c²−1)/(c²+1))) / 2, rates 2 p and 2 (1 − p) over the mean.
	spread = func() law {
		p := (1 + math.Sqrt(3.0/5)) / 2
		return law{"H₂", []float64{p, 1 - p}, []float64{2 * p / meanS, 2 * (1 - p) / meanS}}
	}()
)

func (l law) draw(r *rand.Rand) float64 {
	if l.rate == nil {
		return meanS
	}
	u, i := r.Float64(), 0
	for i < len(l.part)-1 && u >= l.part[i] {
		u -= l.part[i]
		i++
	}
	return r.ExpFloat64() / l.rate[i]
}

// second returns E[S²].
func (l law) second() float64 {
	if l.rate == nil {
		return meanS * meanS
	}
	sum := 0.0
	for i, p := range l.part {
		sum += 2 * p / l.rate[i] / l.rate[i]
	}
	return sum
}

// tail returns P(S > x) and the density f(x).
func (l law) tail(x float64) (tail, density float64) {
	for i, p := range l.part {
		e := p * math.Exp(-l.rate[i]*x)
		tail += e
		density += l.rate[i] * e
	}
	return tail, density
}

// erlangC returns E[T] of M/M/k under first come, first served: 1/μ + C / (kμ − λ), where C is
// the probability that all k servers are busy (Erlang 1917).
func erlangC(k int, rho float64) float64 {
	a, term, sum := float64(k)*rho, 1.0, 0.0
	for n := range k {
		sum += term
		term *= a / float64(n+1)
	}
	all := term / (1 - rho)
	return meanS + all/(sum+all)*meanS/(float64(k)*(1-rho))
}

// pollaczek returns E[T] of M/G/1 under first come, first served: E[S] + λ E[S²] / 2(1−ρ)
// (Pollaczek 1930, Khinchine 1932).
func pollaczek(l law, rho float64) float64 {
	return meanS + rho/meanS*l.second()/(2*(1-rho))
}

// processorSharing returns E[T] of M/G/1 under processor sharing: E[S] / (1 − ρ) for every law
// (Kleinrock 1967 for M, Sakata, Noguchi and Oizumi 1969 for G).
func processorSharing(rho float64) float64 { return meanS / (1 - rho) }

// schrage returns E[T] of M/G/1 under shortest remaining time first (Schrage and Miller 1966),
// by the trapezoidal rule with a step of 0.2 s:
//
//	E[T(x)] = λ (∫₀ˣ t² f + x² F̄(x)) / 2(1−ρ(x))² + ∫₀ˣ dt/(1−ρ(t)),  ρ(x) = λ ∫₀ˣ t f
func schrage(l law, rho float64) float64 {
	const step = 0.2
	lambda := rho / meanS
	var load, second, residence, mean float64
	var before [3]float64 // t f, t² f and E[T(t)] f at the step before; all are 0 at 0
	for x := step; x < 120*meanS; x += step {
		tail, f := l.tail(x)
		was := 1 / (1 - load)
		load += lambda * step * (before[0] + x*f) / 2
		second += step * (before[1] + x*x*f) / 2
		residence += step * (was + 1/(1-load)) / 2
		at := lambda*(second+x*x*tail)/(2*(1-load)*(1-load)) + residence
		mean += step * (before[2] + at*f) / 2
		before = [3]float64{x * f, x * x * f, at * f}
	}
	return mean
}

// feedback returns E[T] of M/G/1 with two queues (Kleinrock, Queueing Systems vol. 2, section
// 4.7). Each queue is served first come, first served, and the second queue only if the first
// is empty. A job moves to the second queue after cut seconds of service. With ρ' and E[S'²]
// of S' = min(S, cut),
//
//	E[T(x)] = λ E[S'²] / 2(1−ρ') + x                 for x ≤ cut
//	E[T(x)] = (λ E[S²] / 2(1−ρ) + x) / (1−ρ')        beyond
func feedback(l law, rho, cut float64) float64 {
	lambda := rho / meanS
	var least, leastSquare, short float64 // E[S'], E[S'²], E[S; S ≤ cut]
	for i, p := range l.part {
		m := l.rate[i]
		e := math.Exp(-m * cut)
		least += p * (1 - e) / m
		leastSquare += 2 * p * (1 - e - m*cut*e) / m / m
		short += p * (1 - e - m*cut*e) / m
	}
	tail, _ := l.tail(cut)
	free := 1 - lambda*least
	return (1-tail)*lambda*leastSquare/(2*free) + short +
		(tail*lambda*l.second()/(2*(1-rho))+meanS-short)/free
}

// firstCome returns the time in the system of each job with k servers under first come, first
// served: a job takes the server that is free first (Kiefer and Wolfowitz 1955).
func firstCome(arrivals, sizes []float64, k int) []float64 {
	free := make([]float64, k)
	out := make([]float64, len(arrivals))
	for i, a := range arrivals {
		least := 0
		for s := range free {
			if free[s] < free[least] {
				least = s
			}
		}
		free[least] = max(free[least], a) + sizes[i]
		out[i] = free[least] - a
	}
	return out
}

// queued is a job in a heap by key.
type queued struct {
	key float64
	job int
}

type queue []queued

func (q queue) Len() int           { return len(q) }
func (q queue) Less(a, b int) bool { return q[a].key < q[b].key }
func (q queue) Swap(a, b int)      { q[a], q[b] = q[b], q[a] }
func (q *queue) Push(x any)        { *q = append(*q, x.(queued)) }
func (q *queue) Pop() any {
	s := *q
	x := s[len(s)-1]
	*q = s[:len(s)-1]
	return x
}

// shortest returns the time in the system of each job with one server, which always serves the
// job with the least remaining time.
func shortest(arrivals, sizes []float64) []float64 {
	out := make([]float64, len(arrivals))
	var q queue // the keys are remaining times
	now := 0.0
	for i := 0; i < len(arrivals) || len(q) > 0; {
		next := math.Inf(1)
		if i < len(arrivals) {
			next = arrivals[i]
		}
		if len(q) > 0 && now+q[0].key <= next {
			now += q[0].key
			x := heap.Pop(&q).(queued)
			out[x.job] = now - arrivals[x.job]
			continue
		}
		if len(q) > 0 {
			q[0].key -= next - now // the key stays the least
		}
		now = next
		heap.Push(&q, queued{sizes[i], i})
		i++
	}
	return out
}

// shared returns the time in the system of each job if each of n jobs is served at rate
// min(1, k/n).
func shared(arrivals, sizes []float64, k int) []float64 {
	out := make([]float64, len(arrivals))
	var q queue // a key is the service of a job at its end, as if the job had arrived at time 0
	now, served := 0.0, 0.0
	for i := 0; i < len(arrivals) || len(q) > 0; {
		next := math.Inf(1)
		if i < len(arrivals) {
			next = arrivals[i]
		}
		rate := 1.0
		if len(q) > k {
			rate = float64(k) / float64(len(q))
		}
		if len(q) > 0 && now+(q[0].key-served)/rate <= next {
			now += (q[0].key - served) / rate
			served = q[0].key
			x := heap.Pop(&q).(queued)
			out[x.job] = now - arrivals[x.job]
			continue
		}
		served += (next - now) * rate
		now = next
		heap.Push(&q, queued{served + sizes[i], i})
		i++
	}
	return out
}

// student returns the quantile p > 1/2 of Student's t. It bisects the integral of the density,
// which it computes by Simpson's rule.
func student(p float64, freedom int) float64 {
	v := float64(freedom)
	up, _ := math.Lgamma((v + 1) / 2)
	down, _ := math.Lgamma(v / 2)
	c := math.Exp(up-down) / math.Sqrt(v*math.Pi)
	f := func(t float64) float64 { return c * math.Pow(1+t*t/v, -(v+1)/2) }
	below := func(t float64) float64 {
		const n = 2000
		h, sum := t/n, f(0)+f(t)
		for i := 1; i < n; i++ {
			sum += f(float64(i)*h) * float64(2+2*(i%2))
		}
		return 0.5 + sum*h/3
	}
	low, high := 0.0, 100.0
	for range 60 {
		if mid := (low + high) / 2; below(mid) < p {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

// The formulas and recursions give the figures of cases that are computed by hand or printed
// in the literature.
func TestQueueFormulas(t *testing.T) {
	arrivals, sizes := []float64{0, 1, 2}, []float64{5, 1, 1}
	for _, c := range []struct {
		name      string
		got, want float64
		within    float64
	}{
		{"t, 19 degrees, 99 %", student(0.995, 19), 2.861, 5e-4},
		{"t, 9 degrees, 95 %", student(0.975, 9), 2.262, 5e-4},
		{"M/M/1 as M/G/1", pollaczek(exponential, 0.7), meanS / 0.3, 1e-9},
		{"M/M/1 as M/M/k", erlangC(1, 0.7), meanS / 0.3, 1e-9},
		// With a = 1.4, C is 0.98/0.3 / (1 + 1.4 + 0.98/0.3) = 0.576471, which is divided by
		// 2 − 1.4.
		{"M/M/2", erlangC(2, 0.7), meanS * (1 + 0.5764705882/0.6), 1e-6},
		{"M/D/1 waits half as long", pollaczek(constant, 0.7) - meanS, meanS * 0.7 / 0.3 / 2, 1e-9},
		{"c² of H₂", spread.second()/meanS/meanS - 1, 4, 1e-12},
		{"two queues, all in the first", feedback(exponential, 0.7, 1e6), meanS / 0.3, 1e-6},
		{"two queues, all in the second", feedback(exponential, 0.7, 1e-6), meanS / 0.3, 1e-2},
		// With hardly any load no job waits.
		{"shortest first, no load", schrage(exponential, 1e-6), meanS, 1e-2},
		{"shortest first by recursion", shortest(arrivals, sizes)[0], 7, 1e-12},
		{"first come by recursion", firstCome(arrivals, sizes, 2)[2], 1, 1e-12},
		// At 2 the first job has had 1.5 s and the second 0.5 s. The three jobs share the server
		// until the second ends at 3.5. The third has 0.5 s left then, and ends at half the speed at
		// 4.5. The first has then had 2.5 s and ends at 7.
		{"shared by recursion", shared(arrivals, sizes, 1)[2], 2.5, 1e-12},
		{"shared by recursion, last", shared(arrivals, sizes, 1)[0], 7, 1e-12},
		{"shared by two servers", shared(arrivals, sizes, 2)[2], 1, 1e-12},
	} {
		if !(math.Abs(c.got-c.want) <= c.within) {
			t.Errorf("%s: %v, by hand %v", c.name, c.got, c.want)
		}
	}
	// The formula of Schrage and Miller agrees with the recursion for both laws.
	for i, l := range []law{exponential, spread} {
		s := newStream(l, 1, 0.7, 200_000, uint64(100+i))
		if got, want := average(shortest(s.arrivals, s.sizes)), schrage(l, 0.7); math.Abs(got/want-1) > 0.03 {
			t.Errorf("shortest first, %s: %v by recursion, %v by formula", l.name, got, want)
		}
	}
}

func average(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

// stream is a sequence of jobs that arrive in a Poisson process of rate k ρ / E[S]. Arrivals
// are multiples of a microsecond, the unit of the task engine, and sizes are multiples of a
// millisecond, the length of a step in leases here.
type stream struct {
	law             law
	servers         int
	rho             float64
	arrivals, sizes []float64 // in seconds; arrivals are in order
}

func newStream(l law, servers int, rho float64, jobs int, seed uint64) *stream {
	r := rand.New(rand.NewPCG(seed, 0x5175657565)) // "Queue"
	s := &stream{law: l, servers: servers, rho: rho}
	at := 0.0
	for range jobs {
		at += r.ExpFloat64() * meanS / rho / float64(servers)
		s.arrivals = append(s.arrivals, math.Round(at*1e6)/1e6)
		s.sizes = append(s.sizes, max(1, math.Round(l.draw(r)*1e3))/1e3)
	}
	return s
}

// lastEnd returns when the last job ends if no server idles while jobs wait.
func (s *stream) lastEnd() float64 {
	ends := firstCome(s.arrivals, s.sizes, 1)
	for i := range ends {
		ends[i] += s.arrivals[i]
	}
	return slices.Max(ends)
}
