package nvml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

	slowedBy  func(device uintptr, reasons *uint64) int32
	eccErrors func(device uintptr, kind, since uint32, n *uint64) int32
	rows      func(device uintptr, corrected, uncorrected, pending, failed *uint32) int32

	migMode  func(device uintptr, now, later *uint32) int32
	migMost  func(device uintptr, n *uint32) int32
	instance func(device uintptr, i uint32, instance *uintptr) int32
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

	uncorrected = 1 // nvmlMemoryErrorType_t
	sinceLoaded = 0 // nvmlEccCounterType_t: since the driver was loaded

	// slowedByHeat is nvmlClocksEventReasonHwThermalSlowdown: the hardware has reduced the clocks by a factor
	// of two or more.
	slowedByHeat = 0x40
)

// openLibrary loads NVML. An error names what is missing.
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
		{"nvmlDeviceGetCurrentClocksThrottleReasons", &l.slowedBy, false},
		{"nvmlDeviceGetTotalEccErrors", &l.eccErrors, false},
		{"nvmlDeviceGetRemappedRows", &l.rows, false},
		{"nvmlDeviceGetMigMode", &l.migMode, false},
		{"nvmlDeviceGetMaxMigDeviceCount", &l.migMost, false},
		{"nvmlDeviceGetMigDeviceHandleByIndex", &l.instance, false},
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
		if err := out.Encode(message{Faults: watch.faults, Passing: watch.passing}); err != nil {
			return err
		}
	}
}

// watch is what the process keeps about the devices.
type watch struct {
	lib     *library
	devices []watched
	faults  map[int]string
	passing map[int]string
	events  uintptr
	hears   bool // events come
}

// watched is a device: a GPU, or an instance of one.
type watched struct {
	handle uintptr
	whole  uintptr // the GPU, which has the errors and the heat
	heat   heat
	ecc    uint64 // the errors that the GPU had at first
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
		if err := check(fmt.Sprintf("GPU %d", i), l.byIndex(i, &device)); err != nil {
			return nil, nil, err
		}
		instances, divided := l.instances(device)
		if !divided {
			instances = []uintptr{device}
		}
		for _, at := range instances {
			name, uuid := make([]byte, 96), make([]byte, 96)
			code := l.name(at, &name[0], uint32(len(name)))
			if code == success {
				code = l.uuid(at, &uuid[0], uint32(len(uuid)))
			}
			if err := check(fmt.Sprintf("GPU %d", i), code); err != nil {
				return nil, nil, err
			}
			d := watched{handle: at, whole: device}
			if l.eccErrors == nil || l.eccErrors(device, uncorrected, sinceLoaded, &d.ecc) != success {
				d.ecc = math.MaxUint64 // it does not count them
			}
			x.devices = append(x.devices, d)
			all = append(all, found{cString(name), cString(uuid)})
		}
	}
	if len(all) == 0 {
		return nil, nil, errors.New("the GPUs are in MIG mode and have no instances: make some with nvidia-smi mig, or " +
			"name the devices by --devices")
	}
	return x, all, nil
}

// instances lists the instances of a GPU that is divided. Programs cannot use such a GPU as a whole.
func (l *library) instances(device uintptr) (all []uintptr, divided bool) {
	var now, later, most uint32
	if l.migMode == nil || l.migMost == nil || l.instance == nil || l.migMode(device, &now, &later) != success ||
		now != 1 || l.migMost(device, &most) != success {
		return nil, false
	}
	for i := range most {
		var at uintptr
		if l.instance(device, i, &at) == success { // otherwise there is none of this number
			all = append(all, at)
		}
	}
	return all, true
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
	for i, d := range x.devices {
		if i == 0 || x.devices[i-1].whole != d.whole {
			x.hears = l.register(d.whole, xidErrors, x.events) == success || x.hears
		}
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
			if why := fatal[e.data]; d.whole == e.device && why != "" {
				x.faults[i] = fmt.Sprintf("XID %d: %s", e.data, why)
			}
		}
	}
	time.Sleep(time.Until(until))
	x.passing = map[int]string{}
	for i := range x.devices {
		x.lookAt(i)
	}
}

// lookAt notes whether a device is well now. What the driver does not tell counts as well.
func (x *watch) lookAt(i int) {
	l, d := x.lib, &x.devices[i]
	if l.memory != nil {
		var info [3]uint64
		if code := l.memory(d.handle, &info); code == gpuIsLost || code == resetRequired {
			x.faults[i] = l.text(code)
		}
	}
	if n := uint64(0); d.ecc < math.MaxUint64 &&
		l.eccErrors(d.whole, uncorrected, sinceLoaded, &n) == success && n > d.ecc {
		x.faults[i] = fmt.Sprintf("%d uncorrectable ECC errors since its agent began", n-d.ecc)
	}
	var rows [4]uint32
	if l.rows != nil && l.rows(d.whole, &rows[0], &rows[1], &rows[2], &rows[3]) == success && rows[3] != 0 {
		x.faults[i] = "its memory has errors, and no rows are left to take the place of bad ones"
	}
	var reasons uint64
	slowed := l.slowedBy != nil && l.slowedBy(d.whole, &reasons) == success && reasons&slowedByHeat != 0
	if d.heat.look(slowed) {
		x.passing[i] = "it is slowed down by its temperature"
	}
}
