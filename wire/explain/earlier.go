package explain

import "github.com/hare-sched/hare"

// Earlier lists changes of the instance with which a job ends by a given time.
type Earlier struct {
	ByS hare.Seconds `json:"by_s"`
	// EndS is the end of the job without a change.
	EndS hare.Seconds `json:"end_s"`
	// Baseline is the solve that the changes are compared with: the result, or another solve of the same instance
	// where the clock had a part in the result.
	Baseline string `json:"baseline" enums:"result,solved_again"`
	Already  bool   `json:"already"`
	// EarliestS is a proved lower bound: no plan on this cluster ends the job sooner.
	EarliestS hare.Seconds `json:"earliest_s"`
	Changes   []Change     `json:"changes"`
	// Cheapest is the index of the change that works and costs the other jobs least. It is left out where no change
	// that was tried works.
	Cheapest *int `json:"cheapest,omitempty"`
	Solves   int  `json:"solves"`
	Finished bool `json:"finished"`
	// Unfinished says why the search ended early.
	Unfinished string `json:"unfinished,omitempty"`
} //	@name	JobEarlier

// Change is the least change of one kind that was found to end the job in time,
// or the statement that no change of this kind was found.
type Change struct {
	Kind string `json:"kind" enums:"add_gpu,weight,fewer_rounds"`
	// Does reports whether the job ends in time with this change.
	Does bool `json:"does"`
	// Finished is false where the search for a lesser change was cut short.
	Finished bool `json:"finished"`
	// Weight is the new weight of the job.
	Weight *hare.Seconds `json:"weight,omitempty"`
	// Rounds is the new number of rounds of the job.
	Rounds *int64 `json:"rounds,omitempty"`
	// Type is the type of the GPU that is added.
	Type string `json:"type,omitempty"`
	// Node is the name of the node that holds the GPU that is added.
	Node string `json:"node,omitempty"`
	// GPUs is the number of GPUs of the type on the added node, where it has several: where nodes matter, the added node
	// is a copy of the node with the most GPUs of the type, first of those that the job may use.
	GPUs int `json:"gpus,omitempty"`
	// NotWeight is the nearest lesser weight that was tried and does not work. A weight between the two may work.
	NotWeight *hare.Seconds `json:"not_weight,omitempty"`
	// NotRounds is the nearest lesser change of the rounds that was tried and does not work.
	NotRounds *int64 `json:"not_rounds,omitempty"`
	Tried     int    `json:"tried"`
	Detail    string `json:"detail,omitempty"`
	// EndS is the end of the job with the change. EndS and the fields below are set for a change that works, and for
	// an added GPU in any case.
	EndS *hare.Seconds `json:"end_s,omitempty"`
	// OthersCost is how much the weighted completion time of the other jobs rises.
	OthersCost *hare.Amount `json:"others_cost,omitempty"`
	// Delayed counts the other jobs that end later.
	Delayed int `json:"delayed"`
	// Sooner counts the other jobs that end sooner.
	Sooner int `json:"sooner"`
	// Jobs lists up to 10 of the delayed jobs, the job whose delay costs most first.
	Jobs []Delay `json:"jobs,omitempty"`
} //	@name	JobChange

// Delay is a job that ends later.
type Delay struct {
	Job  string       `json:"job"`
	ByS  hare.Seconds `json:"by_s"`
	EndS hare.Seconds `json:"end_s"`
	// Cost is the weight of the job times by_s.
	Cost hare.Amount `json:"cost"`
} //	@name	JobDelay
