package worker_test

import (
	"bytes"
	"fmt"

	"github.com/hare-sched/hare/executor/worker"
)

// A frame is a length of four bytes and so many bytes of JSON.
func ExampleReadMessage() {
	frame, err := worker.AppendMessage(nil, &worker.Message{Type: worker.Run, Epoch: 7, Seq: 1, Job: "line", Task: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d %s\n", frame[:4], frame[4:])
	m, err := worker.ReadMessage(bytes.NewReader(frame))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Type, m.Job, m.Task)
	_, err = worker.ReadMessage(bytes.NewReader(frame[:20]))
	fmt.Println(err)
	// Output:
	// [0 0 0 54] {"type":"run","epoch":7,"seq":1,"job":"line","task":2}
	// run line 2
	// worker: protocol: the connection ended inside a frame
}
