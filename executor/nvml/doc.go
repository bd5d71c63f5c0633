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
	Faults  map[int]string `json:"faults,omitempty"`
	Error   string         `json:"error,omitempty"` // why there are no devices
}

// found is a GPU.
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

// TypeOf is the short name of a GPU's type, such as V100 for "Tesla V100-SXM2-16GB".
func TypeOf(product string) string {
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
