package history_test

import (
	"fmt"
	"strings"

	"github.com/hare-sched/hare/history"
	"github.com/hare-sched/hare/trace"
)

// This example reads a table of jobs and prints what the cluster took for them.
func Example() {
	table := `id,user,submit,start,end,gpus,nodes,type
a,ann,0,0,90,2,n1,V100
b,ben,10,90,120,1,n1,V100
`
	log, err := history.Read("history", []trace.Source{{Name: "jobs.csv", R: strings.NewReader(table)}},
		history.ReadConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	built, err := log.Build(history.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(built.Instance.Jobs), "jobs took", built.Happened.Value, "s in all")
	// Output: 2 jobs took 200 s in all
}
