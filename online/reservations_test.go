package online_test

import (
	"errors"
	"testing"

	"github.com/hare-sched/hare"
	"github.com/hare-sched/hare/online"
)

// A session does not drop reservations of its cluster without a word.
func TestReservationsAreRefused(t *testing.T) {
	c := &hare.Cluster{Nodes: []hare.Node{{Name: "a", GPUs: []hare.TypeCount{{Type: "V100", Count: 4}}}},
		Reservations: []hare.Reservation{{UntilUs: 5}}}
	var fault *hare.InvalidError
	if err := online.CheckCluster(c); !errors.As(err, &fault) || fault.Pointer != "/cluster/reservations" ||
		fault.Code != "not_supported" {
		t.Errorf("%v", err)
	}
}
