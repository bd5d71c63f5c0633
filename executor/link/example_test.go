package link_test

import (
	"context"
	"fmt"
	"net"

	"github.com/hare-sched/hare/executor/link"
)

// One side asks, and the other answers under the number of the request. Here the connection is a pipe; between nodes
// it is a TLS connection with the settings of Secure.
func Example() {
	a, b := net.Pipe()
	go func() {
		defer b.Close()
		f, err := link.ReadFrame(b, 1<<10)
		if err != nil {
			fmt.Println(err)
			return
		}
		f.Payload = []byte("the parameters of round 3")
		if err := link.WriteFrame(b, f); err != nil {
			fmt.Println(err)
		}
	}()
	l := link.New(a, 1<<10)
	go l.Read()
	answer, err := l.Call(context.Background(), &link.Frame{Header: link.Header{Kind: "state", Round: 3}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(answer.Round, string(answer.Payload))
	// Output: 3 the parameters of round 3
}
