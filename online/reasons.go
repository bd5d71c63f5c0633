package online

import (
	"fmt"
	"strings"
)

// Reason says why a job waits.
type Reason struct {
	Code  string // one of the codes below
	Short string // at most six words
	Text  string // one or two sentences; "" where JobStatus.Why has them
}

// The codes of Reason.
const (
	NoService    = "no_service"    // too few GPUs are in service that the job may use
	Busy         = "busy"          // GPUs that it wants are busy
	PlannedLater = "planned_later" // they are free, and the plan has others first
	Reserved     = "reserved"      // they are free, and kept for others
	Fragmented   = "fragmented"    // no nodes have room for it, although enough GPUs are free
	Gathering    = "gathering"     // GPUs are kept for it until there are enough
	Quota        = "quota"         // the quota of its user is used up
	NextPlan     = "next_plan"     // it came after the plan was asked for
	HandedOver   = "handed_over"   // the plan starts it, and the scheduler of a helper has not yet
)

// InFew is a text of at most six words, or another one where names in it make it longer.
func InFew(otherwise, format string, a ...any) string {
	if text := fmt.Sprintf(format, a...); len(strings.Fields(text)) <= 6 {
		return text
	}
	return otherwise
}

// NoneInService is the reason of a job that may use types of which no GPU is in service.
func NoneInService(types []string) Reason {
	if len(types) > 2 {
		types = []string{"GPU that it may use"}
	}
	return Reason{Code: NoService, Short: InFew("no GPU of its types", "no %s in service", strings.Join(types, " or "))}
}

// TooFewInService is the reason of a job that needs more GPUs of one type than are in service.
func TooFewInService(need, most int64) Reason {
	return Reason{Code: NoService, Short: fmt.Sprintf("needs %s, %d in service", count(need, "GPU", "GPUs"), most)}
}

// NodesLackRoom is the reason of a job that needs GPUs together, for which no nodes have room.
func NodesLackRoom(need int64) Reason {
	return Reason{Code: Fragmented, Short: fmt.Sprintf("no nodes have %s free", count(need, "GPU", "GPUs"))}
}

// BusyGPUs is the reason of a job that lacks GPUs of a type.
func BusyGPUs(lack int64, gpuType string) Reason {
	return Reason{Code: Busy, Short: InFew(count(lack, "GPU", "GPUs")+" busy", "%d %s busy", lack, gpuType)}
}

// ForOthers is the reason of a job for which enough GPUs are free that are kept for others.
func ForOthers() Reason { return Reason{Code: Reserved, Short: "GPUs kept for other jobs"} }

// GathersGPUs is the reason of a job for which GPUs are kept until there are enough.
func GathersGPUs(need, free int64) Reason {
	return Reason{Code: Gathering, Short: fmt.Sprintf("gathers %s, %d free", count(need, "GPU", "GPUs"), free)}
}

// QuotaUsedUp is the reason of a job whose user has as much as the quota allows.
func QuotaUsedUp() Reason { return Reason{Code: Quota, Short: "the user's quota is used up"} }
