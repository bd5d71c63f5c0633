package pseudonym_test

import (
	"fmt"

	"github.com/hare-sched/hare/history/pseudonym"
)

// Names become the same invented ones in all texts, and keep their order.
func Example() {
	texts, names, err := pseudonym.Rename([]pseudonym.Text{
		{Name: "jobs.csv", Body: []byte("id,user,submit,start,end,gpus,nodes\nbert,ann,0,0,90,2,gpu-[1-2]\n")},
		{Name: "nodes.csv", Body: []byte("node,type,gpus\ngpu-1,V100,4\ngpu-2,V100,4\n")},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s%s%s is ann\n", texts[0], texts[1], names["ann"])
	// Output:
	// id,user,submit,start,end,gpus,nodes
	// n002,n001,0,0,90,2,"n003,n004"
	// node,type,gpus
	// n003,V100,4
	// n004,V100,4
	// n001 is ann
}
