package pool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

func TestRequestsAreChecked(t *testing.T) {
	id := &clusterdoc.TaskID{Job: "j1", Attempt: 1}
	start := clusterdoc.RoundStart{Module: "line", Tasks: 2, Rounds: 3}
	task := func(change func(*clusterdoc.Compute)) *Request {
		c := &clusterdoc.Compute{RoundStart: start, Round: 1, Task: 1, Device: 1}
		change(c)
		return &Request{Type: Compute, Order: &clusterdoc.Order{TaskID: *id, Compute: c}}
	}
	home := &clusterdoc.Order{TaskID: *id, Home: &clusterdoc.HomeStart{RoundStart: start}}
	for _, good := range []*Request{
		task(func(*clusterdoc.Compute) {}), {Type: Serve, Order: home, Checkpoint: "/c", Output: "/o"},
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
		{}, {Type: "what"}, {Type: Serve, Order: home}, {Type: Serve}, {Type: Compute}, {Type: Compute, Order: home},
		{Type: Stop}, {Type: Stop, Task: id, GraceS: -1}, {Type: Hold, Devices: []int{2}}, {Type: Hold, Devices: []int{-1}},
		task(func(c *clusterdoc.Compute) { c.Device = 2 }), task(func(c *clusterdoc.Compute) { c.Task = 2 }),
		task(func(c *clusterdoc.Compute) { c.Round = -1 }), task(func(c *clusterdoc.Compute) { c.Tasks = 0 }),
	} {
		var refused *MessageError
		if err := bad.check(2); !errors.As(err, &refused) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for says, text := range map[string]string{
		"is not a message": "\x00\x00\x00\x02[]",
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
		Task: &clusterdoc.TaskID{Job: "j1", Attempt: 2, Task: 3}}, {Type: Compute, Order: &clusterdoc.Order{
		Compute: &clusterdoc.Compute{RoundStart: clusterdoc.RoundStart{Tasks: 3}}}}} {
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
