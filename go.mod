module github.com/hare-sched/hare

go 1.26
