package service

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Two places, each taken by a call of 10 s: one that has 4 s is refused at
// once, and told when to come again; one that has 8 s is taken, because the
// work is expected to take at least half of what was predicted.
func TestAdmissionByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(2, 8)
		call := func(left time.Duration) admission {
			return admission{deadline: time.Now().Add(left), cost: 10 * time.Second, trust: 2}
		}
		var turns []*turn
		for range 2 {
			a := call(10 * time.Second)
			if err := q.admit(a); err != nil {
				t.Fatal(err)
			}
			turns = append(turns, q.lineUp(a))
		}
		var over *OverloadError
		if err := q.admit(call(4 * time.Second)); !errors.As(err, &over) || !errors.Is(err, ErrLate) || over.Wait != 10*time.Second {
			t.Errorf("%v, want late with a wait of 10 s", err)
		}
		late := call(8 * time.Second)
		if err := q.admit(late); err != nil {
			t.Fatal(err)
		}
		// What is admitted and has not lined up counts too.
		if err := q.admit(call(7 * time.Second)); !errors.Is(err, ErrLate) {
			t.Errorf("%v, want late", err)
		}
		waiting := q.lineUp(late)
		if err := q.admit(call(7 * time.Second)); err != nil {
			t.Errorf("%v, though the one that waits has a later deadline", err)
		}
		q.renounce(10 * time.Second)
		time.Sleep(5 * time.Second)
		if got := q.wait(time.Now(), time.Now()); got != 5*time.Second {
			t.Errorf("a wait of %v, want what is left: 5 s", got)
		}
		turns[0].leave()
		<-waiting.got
		turns[1].leave()
		waiting.leave()
		if q.taken != 0 || q.coming != 0 || len(q.held) != 0 || len(q.heap) != 0 {
			t.Errorf("left over: %+v", q)
		}
	})
}

// A degraded call waits in places of its own, before the others.
func TestDegradedGoFirst(t *testing.T) {
	q := newQueue(1, 1)
	far := admission{deadline: time.Now().Add(time.Hour), cost: time.Second, trust: 1}
	soon := far
	soon.deadline = time.Now().Add(time.Minute)
	take := func(a admission) *turn {
		t.Helper()
		if err := q.admit(a); err != nil {
			t.Fatal(err)
		}
		return q.lineUp(a)
	}
	running, waiting := take(far), take(soon)
	if err := q.admit(soon); !errors.Is(err, ErrBusy) || errors.Is(err, ErrLate) {
		t.Errorf("%v, want busy", err)
	}
	cheap := far
	cheap.degraded, cheap.cost = true, time.Millisecond
	first := take(cheap)
	if p := first.position(); p != 1 {
		t.Errorf("the degraded call is number %d", p)
	}
	take(cheap)
	if err := q.admit(cheap); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want busy: twice the places are taken", err)
	}
	running.leave()
	<-first.got
	first.leave()
	if p := waiting.position(); p != 1 {
		t.Errorf("number %d behind one degraded call, want 1", p)
	}
}
