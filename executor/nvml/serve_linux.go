package nvml

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/ebitengine/purego"
)

// library is the part of NVML that is used. A function that the driver lacks is nil. Results are codes of NVML.
type library struct {
	initialize  func() int32
	count       func(n *uint32) int32
	byIndex     func(i uint32, device *uintptr) int32
	name        func(device uintptr, text *byte, size uint32) int32
	uuid        func(device uintptr, text *byte, size uint32) int32
	memory      func(device uintptr, info *[3]uint64) int32 // bytes: all, free, used
	newEvents   func(set *uintptr) int32
	register    func(device uintptr, events uint64, set uintptr) int32
	wait        func(set uintptr, e *event, timeoutMs uint32) int32
	errorString func(code int32) string
}

// event is nvmlEventData_t.
type event struct {
	device uintptr
	_      uint64 // the kind: errors alone are asked for
	data   uint64 // the number of the error
	_, _   uint32 // of MIG instances
}

// Codes and kinds of NVML.
const (
	success       = 0
	timedOut      = 10
	gpuIsLost     = 15
	resetRequired = 16
	xidErrors     = 8 // nvmlEventTypeXidCriticalError
)

// open loads NVML. An error names what is missing.
func openLibrary(path string) (*library, error) {
	if path == "" {
		path = "libnvidia-ml.so.1"
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("NVIDIA's driver is not there (%w): name the devices by --devices", err)
	}
	l := &library{}
	for _, f := range []struct {
		symbol string
		of     any
		must   bool
	}{
		{"nvmlInit_v2", &l.initialize, true},
		{"nvmlDeviceGetCount_v2", &l.count, true},
		{"nvmlDeviceGetHandleByIndex_v2", &l.byIndex, true},
		{"nvmlDeviceGetName", &l.name, true},
		{"nvmlDeviceGetUUID", &l.uuid, true},
		{"nvmlDeviceGetMemoryInfo", &l.memory, false},
		{"nvmlEventSetCreate", &l.newEvents, false},
		{"nvmlDeviceRegisterEvents", &l.register, false},
		{"nvmlEventSetWait_v2", &l.wait, false},
		{"nvmlErrorString", &l.errorString, false},
	} {
		at, err := purego.Dlsym(handle, f.symbol)
		switch {
		case err == nil:
			purego.RegisterFunc(f.of, at)
		case f.must:
			return nil, fmt.Errorf("NVIDIA's driver has no function %s: name the devices by --devices", f.symbol)
		}
	}
	return l, nil
}

func (l *library) text(code int32) string {
	if l.errorString != nil {
		return l.errorString(code)
	}
	return fmt.Sprintf("NVML error %d", code)
}

// Serve is the process of the library: it writes messages until writing fails. path is that of the library; "" means
// the one that the system has.
func Serve(w io.Writer, path string) error {
	out := json.NewEncoder(w)
	watch, devices, err := newWatch(path)
	if err != nil {
		return out.Encode(message{Error: err.Error()})
	}
	if err := out.Encode(message{Devices: devices}); err != nil {
		return err
	}
	watch.register()
	for {
		watch.look()
		if err := out.Encode(message{Faults: watch.faults}); err != nil {
			return err
		}
	}
}

// watch is what the process keeps about the devices.
type watch struct {
	lib     *library
	devices []uintptr
	faults  map[int]string
	events  uintptr
	hears   bool // events come
}

func newWatch(path string) (*watch, []found, error) {
	l, err := openLibrary(path)
	if err != nil {
		return nil, nil, err
	}
	check := func(what string, code int32) error {
		if code == success {
			return nil
		}
		return fmt.Errorf("%s: %s", what, l.text(code))
	}
	if err := check("NVIDIA's driver cannot be used", l.initialize()); err != nil {
		return nil, nil, err
	}
	var n uint32
	if err := check("the GPUs cannot be counted", l.count(&n)); err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return nil, nil, fmt.Errorf("NVIDIA's driver lists no GPU: name the devices by --devices")
	}
	x := &watch{lib: l, faults: map[int]string{}}
	var all []found
	for i := range n {
		var device uintptr
		name, uuid := make([]byte, 96), make([]byte, 96)
		code := l.byIndex(i, &device)
		if code == success {
			code = l.name(device, &name[0], uint32(len(name)))
		}
		if code == success {
			code = l.uuid(device, &uuid[0], uint32(len(uuid)))
		}
		if err := check(fmt.Sprintf("GPU %d", i), code); err != nil {
			return nil, nil, err
		}
		x.devices = append(x.devices, device)
		all = append(all, found{cString(name), cString(uuid)})
	}
	return x, all, nil
}

func cString(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// register asks for the errors of the devices. A driver without such events is watched without them.
func (x *watch) register() {
	l := x.lib
	if l.newEvents == nil || l.register == nil || l.wait == nil || l.newEvents(&x.events) != success {
		return
	}
	for _, d := range x.devices {
		x.hears = l.register(d, xidErrors, x.events) == success || x.hears
	}
}

// look takes about a second and notes which devices are not well. A device that had an error that needs a reset stays
// faulty.
func (x *watch) look() {
	until := time.Now().Add(time.Second)
	for x.hears && time.Now().Before(until) {
		var e event
		code := x.lib.wait(x.events, &e, uint32(max(1, time.Until(until).Milliseconds())))
		if code != success {
			x.hears = code == timedOut
			break
		}
		for i, d := range x.devices {
			if why := fatal[e.data]; d == e.device && why != "" {
				x.faults[i] = fmt.Sprintf("XID %d: %s", e.data, why)
			}
		}
	}
	time.Sleep(time.Until(until))
	if x.lib.memory == nil {
		return
	}
	for i, d := range x.devices {
		var info [3]uint64
		if code := x.lib.memory(d, &info); code == gpuIsLost || code == resetRequired {
			x.faults[i] = x.lib.text(code)
		}
	}
}
