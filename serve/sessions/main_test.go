package sessions_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a test waits for what should happen soon: no test passes or fails by it on
// a busy machine.
const patience = time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
