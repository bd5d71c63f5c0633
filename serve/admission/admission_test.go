package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Each of two slots runs a call of 10 s. A call with 4 s left is refused at once and
// learns when to come again. A call with 8 s left is admitted, because the work is
// expected to take at least half of the predicted time.
func TestAdmissionByCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(2, 8)
		call := func(left time.Duration) Call {
			return Call{Deadline: time.Now().Add(left), Cost: 10 * time.Second, ErrorFactor: 2}
		}
		var tickets []*Ticket
		for range 2 {
			a := call(10 * time.Second)
			if err := q.Admit(a); err != nil {
				t.Fatal(err)
			}
			tickets = append(tickets, q.Enqueue(a))
		}
		var over *OverloadError
		if err := q.Admit(call(4 * time.Second)); !errors.As(err, &over) || !errors.Is(err, ErrLate) ||
			over.Wait != 10*time.Second {
			t.Errorf("%v, want late with a wait of 10 s", err)
		}
		late := call(8 * time.Second)
		if err := q.Admit(late); err != nil {
			t.Fatal(err)
		}
		// Admitted calls that are not in the queue yet count too.
		if err := q.Admit(call(7 * time.Second)); !errors.Is(err, ErrLate) {
			t.Errorf("%v, want late", err)
		}
		waiting := q.Enqueue(late)
		if err := q.Admit(call(7 * time.Second)); err != nil {
			t.Errorf("%v, though the one that waits has a later deadline", err)
		}
		q.Cancel(10 * time.Second)
		time.Sleep(5 * time.Second)
		if got := q.wait(time.Now(), time.Now()); got != 5*time.Second {
			t.Errorf("a wait of %v, want what is left: 5 s", got)
		}
		tickets[0].Release()
		<-waiting.granted
		tickets[1].Release()
		waiting.Release()
		if q.admitted != 0 || q.pendingCost != 0 || len(q.running) != 0 || len(q.heap) != 0 {
			t.Errorf("left over: %+v", q)
		}
	})
}

// A degraded call has waiting slots of its own, before the others.
func TestDegradedGoFirst(t *testing.T) {
	q := NewQueue(1, 1)
	far := Call{Deadline: time.Now().Add(time.Hour), Cost: time.Second, ErrorFactor: 1}
	soon := far
	soon.Deadline = time.Now().Add(time.Minute)
	take := func(a Call) *Ticket {
		t.Helper()
		if err := q.Admit(a); err != nil {
			t.Fatal(err)
		}
		return q.Enqueue(a)
	}
	running, waiting := take(far), take(soon)
	if err := q.Admit(soon); !errors.Is(err, ErrBusy) || errors.Is(err, ErrLate) {
		t.Errorf("%v, want busy", err)
	}
	cheap := far
	cheap.Degraded, cheap.Cost = true, time.Millisecond
	first := take(cheap)
	if p := first.Position(); p != 1 {
		t.Errorf("the degraded call is number %d", p)
	}
	take(cheap)
	if err := q.Admit(cheap); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want busy: twice the slots are taken", err)
	}
	running.Release()
	<-first.granted
	first.Release()
	if p := waiting.Position(); p != 1 {
		t.Errorf("number %d behind one degraded call, want 1", p)
	}
}
