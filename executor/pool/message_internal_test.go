package pool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/hare-sched/hare/clusters/description"
)

func TestRequestsAreChecked(t *testing.T) {
	id := &description.TaskID{Job: "j1", Attempt: 1}
	start := description.RoundStart{Module: "line", Tasks: 2, Rounds: 3}
	task := func(change func(*description.Compute)) *Request {
		c := &description.Compute{RoundStart: start, Round: 1, Task: 1, Device: 1}
		change(c)
		return &Request{Type: Compute, Order: &description.Order{TaskID: *id, Compute: c}}
	}
	home := &description.Order{TaskID: *id, Home: &description.HomeStart{RoundStart: start}}
	for _, good := range []*Request{
		task(func(*description.Compute) {}), {Type: Home, Order: home, Checkpoint: "/c", Output: "/o"},
		{Type: Stop, Task: id, GraceS: 2}, {Type: Kill, Task: id}, {Type: Forget, Task: id},
		{Type: Hold, Devices: []int{0, 1}}, {Type: Hold}, {Type: Ping}, {Type: End},
	} {
		b, err := appendMessage(nil, good)
		got := new(Request)
		if err == nil {
			err = readMessage(bytes.NewReader(b), got)
		}
		if err == nil {
			err = got.check(2)
		}
		if err != nil || got.Type != good.Type {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []*Request{
		{}, {Type: "what"}, {Type: Home, Order: home}, {Type: Home}, {Type: Compute}, {Type: Compute, Order: home},
		{Type: Stop}, {Type: Stop, Task: id, GraceS: -1}, {Type: Hold, Devices: []int{2}}, {Type: Hold, Devices: []int{-1}},
		task(func(c *description.Compute) { c.Device = 2 }), task(func(c *description.Compute) { c.Task = 2 }),
		task(func(c *description.Compute) { c.Round = -1 }), task(func(c *description.Compute) { c.Tasks = 0 }),
	} {
		var refused *MessageError
		if err := bad.check(2); !errors.As(err, &refused) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for says, text := range map[string]string{
		"is no message":    "\x00\x00\x00\x02[]",
		"there may be":     string(binary.BigEndian.AppendUint32(nil, maxMessage+1)),
		"ended inside":     "\x00\x00\x00\x09{}",
		"there may be 2 t": "\x00\x00\x00\x01{",
	} {
		if err := readMessage(strings.NewReader(text), new(Request)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, q := range []*Request{{Type: Hold, Number: 3, Devices: []int{1}}, {Type: Stop,
		Task: &description.TaskID{Job: "j1", Attempt: 2, Task: 3}}, {Type: Compute, Order: &description.Order{
		Compute: &description.Compute{RoundStart: description.RoundStart{Tasks: 3}}}}} {
		b, err := appendMessage(nil, q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		q := new(Request)
		if readMessage(bytes.NewReader(b), q) != nil || q.check(4) != nil {
			return
		}
		again, err := appendMessage(nil, q)
		if err == nil {
			err = readMessage(bytes.NewReader(again), new(Request))
		}
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
	})
}
