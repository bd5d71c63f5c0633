package pool

import (
	"slices"
	"testing"
)

func turnsOf(kinds ...string) *turns {
	var devices []Device
	for _, k := range kinds {
		devices = append(devices, Device{Type: k})
	}
	return newTurns(devices)
}

// ask adds a call and gives devices away.
func (t *turns) ask(w *wait) *wait {
	w.turn = make(chan int, 1)
	t.waiting = append(t.waiting, w)
	t.give()
	return w
}

func got(w *wait) int {
	select {
	case i := <-w.turn:
		return i
	default:
		return -2
	}
}

func TestStepsComeBeforeTasks(t *testing.T) {
	x := turnsOf("cpu", "cpu")
	first := x.ask(&wait{device: 0, job: "a", task: true})
	second := x.ask(&wait{device: 0, job: "b", task: true})
	other := x.ask(&wait{device: 1, job: "b", task: true})
	step := x.ask(&wait{device: anyDevice, job: "a"})
	if got(first) != 0 || got(other) != 1 || got(second) >= 0 || got(step) >= 0 {
		t.Fatal("a device was given twice, or not at all")
	}
	x.devices[0].busy = false
	x.give()
	if got(step) != 0 || got(second) >= 0 {
		t.Error("a task came before a step")
	}
}

// A step takes the device that has just computed for the job, then the one of the last step; never one of another type
// while one of the first type is there, and the host where other programs have all devices.
func TestDevicesOfSteps(t *testing.T) {
	x := turnsOf("T4", "T4", "V100")
	x.devices[1].last, x.devices[2].last = "a", "a"
	if i := got(x.ask(&wait{device: anyDevice, prefer: 0, job: "a"})); i != 1 {
		t.Errorf("device %d", i)
	}
	if i := got(x.ask(&wait{device: anyDevice, prefer: 0, job: "c"})); i != 0 {
		t.Errorf("device %d", i)
	}
	x.devices[0].busy, x.devices[1].busy = true, true
	if i := got(x.ask(&wait{device: anyDevice, prefer: 0, types: true, job: "h"})); i != 2 {
		t.Errorf("a call that any type will do for has device %d", i)
	}
	x.devices[2].busy = false
	late := x.ask(&wait{device: anyDevice, prefer: anyDevice, job: "a"})
	if i := got(late); i >= 0 {
		t.Errorf("a step of a T4 was made on device %d", i)
	}
	x.devices[0].held, x.devices[1].held = true, true
	x.give()
	if i := got(late); i != 2 {
		t.Errorf("device %d", i)
	}
	x.devices[2].held = true
	if i := got(x.ask(&wait{device: anyDevice, job: "a"})); i != 3 {
		t.Errorf("device %d", i)
	}
}

// A device whose gradients are not delivered computes nothing more, so that they do not pile up.
func TestGradientsDoNotPileUp(t *testing.T) {
	x := turnsOf("cpu")
	x.devices[0].undelivered = maxUndelivered
	task := x.ask(&wait{device: 0, task: true})
	if got(task) >= 0 {
		t.Error("the device goes on")
	}
	x.devices[0].undelivered--
	x.give()
	if got(task) != 0 {
		t.Error("the device does not go on")
	}
}

// What comes next on a device are its orders, then the jobs that came behind the job before.
func TestExpectedJobs(t *testing.T) {
	x := turnsOf("cpu")
	d := x.devices[0]
	for _, j := range []string{"a.1", "b.1", "a.1", "c.1", "a.1", "b.1", "a.1", "d.1", "a.1", "e.1", "a.1", "a.1"} {
		d.began(j)
	}
	d.orders = []*queued{{"c.1"}, {"a.1"}, {"f.1"}, {"c.1"}}
	if next := d.next("a.1"); !slices.Equal(next, []string{"c.1", "f.1", "e.1", "d.1", "b.1"}) {
		t.Error(next)
	}
	x.forget("e.1")
	x.forget("a.1")
	if d.last != "" {
		t.Errorf("%s is still the last job", d.last)
	}
	if next := d.next("b.1"); !slices.Equal(next, []string{"c.1", "a.1", "f.1"}) {
		t.Error(next)
	}
}
