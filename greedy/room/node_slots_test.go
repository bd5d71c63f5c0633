package room

import (
	"math"
	"testing"
)

// The least holds of the classes rise, and each class begins with its least hold.
func TestClassesOfHolds(t *testing.T) {
	last := int64(-1)
	for hold := int64(1); hold < 1<<16; hold++ {
		class, least := classOfHold(hold)
		if again, same := classOfHold(least); least > hold || again != class || same != least || class < last ||
			class >= ListHoldClasses {
			t.Fatalf("hold %d is in class %d of holds of at least %d", hold, class, least)
		}
		last = class
	}
	if class, least := classOfHold(math.MaxInt64); class >= ListHoldClasses || least != 3<<61 {
		t.Errorf("the longest hold is in class %d of holds of at least %d", class, least)
	}
}
