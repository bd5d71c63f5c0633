// Package nvml finds the NVIDIA GPUs of a node and watches over them by NVML, the library of NVIDIA's driver. The
// library is called in a process of its own, because a fault in it cannot be recovered from and a call into it cannot
// be cancelled: where the process ends, another one is started, and where it does not answer, the devices count as
// faulty until it does. Nothing is ever set on a GPU.
package nvml

import "strings"

// message is a line that the process of the library writes. The first one has the devices, and all later ones say,
// once a second, which of them are not well.
type message struct {
	Devices []found        `json:"devices,omitempty"`
	Faults  map[int]string `json:"faults,omitempty"` // which stay until a person has seen to the device
	Passing map[int]string `json:"passing,omitempty"`
	Error   string         `json:"error,omitempty"` // why there are no devices
}

// A GPU whose hardware slows it down against heat for hotFor in one go is not well, until it has not been slowed
// down for coolFor. Both are counted in looks, of about a second each.
const (
	hotFor  = 60
	coolFor = 120
)

// heat counts the looks at a GPU.
type heat struct {
	looks int  // in a row that were as the last one
	hot   bool // at the last look
	fault bool
}

// look takes whether the GPU is slowed down, and reports whether it counts as not well.
func (h *heat) look(hot bool) bool {
	if hot != h.hot {
		h.hot, h.looks = hot, 0
	}
	h.looks++
	switch {
	case hot && h.looks >= hotFor:
		h.fault = true
	case !hot && h.looks >= coolFor:
		h.fault = false
	}
	return h.fault
}

// found is a GPU, or an instance of one that is divided (MIG).
type found struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
}

// fatal are the XID errors after which a GPU needs a reset, or its node an operator, with what they say (NVIDIA, "XID
// Errors"). Other errors are those of programs.
var fatal = map[uint64]string{
	48:  "double-bit ECC error",
	64:  "page retirement or row remapping failed",
	74:  "NVLink error",
	79:  "GPU has fallen off the bus",
	95:  "uncontained ECC error",
	119: "the GPU's system processor does not answer",
	120: "the GPU's system processor failed",
}

// TypeOf is the short name of a GPU's type, such as V100 for "Tesla V100-SXM2-16GB", and A100-1g.5gb for the
// instance "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
func TypeOf(product string) string {
	if whole, profile, divided := strings.Cut(product, " MIG "); divided {
		return TypeOf(whole) + "-" + strings.ReplaceAll(profile, " ", "-")
	}
	words := strings.FieldsFunc(product, func(r rune) bool { return r == ' ' || r == '-' || r == '/' })
	line := ""
	for _, w := range words {
		switch upper := strings.ToUpper(w); {
		case upper == "RTX" || upper == "GTX" || upper == "TITAN":
			line = upper
		case strings.HasSuffix(upper, "GB") || !strings.ContainsAny(w, "0123456789"):
		default:
			return line + w
		}
	}
	if line != "" {
		return line
	}
	return strings.Join(words, "-")
}
