package nvml

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os/exec"
	"strconv"
	"sync"
	"time"

	clusterdoc "github.com/hare-sched/hare/wire/clusters"
)

// Waits for the process of the library.
const (
	firstWait  = 30 * time.Second // for the devices: a driver without persistence takes some seconds a GPU
	silentWait = 10 * time.Second // until devices of which nothing is heard count as faulty
	againWait  = time.Second      // before the process is started again
)

// Source are the GPUs of a node. It implements device.Source.
type Source struct {
	program []string
	env     []string
	log     *slog.Logger
	silent  time.Duration
	devices []clusterdoc.AgentDevice

	mu      sync.Mutex
	heard   time.Time
	faults  map[int]string // what was heard; an error that needs a reset stays
	passing map[int]string // what was said last of faults that pass by themselves
}

// Open finds the GPUs. program is the command that calls Serve, and env its whole environment; it runs until ctx ends.
// The error says why there are none.
func Open(ctx context.Context, program, env []string, log *slog.Logger) (*Source, error) {
	return open(ctx, program, env, log, silentWait)
}

func open(ctx context.Context, program, env []string, log *slog.Logger, silent time.Duration) (*Source, error) {
	s := &Source{program: program, env: env, log: log, silent: silent, faults: map[int]string{}}
	first := make(chan error, 1)
	go s.run(ctx, first)
	select {
	case err := <-first:
		if err != nil {
			return nil, err
		}
		return s, nil
	case <-time.After(firstWait):
		return nil, fmt.Errorf("NVIDIA's driver does not answer within %v", firstWait)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run keeps a process of the library running. first gets what came of the first one.
func (s *Source) run(ctx context.Context, first chan<- error) {
	for {
		err := s.listen(ctx, first)
		if ctx.Err() != nil || s.devices == nil {
			return
		}
		s.log.Warn("the process that watches over the GPUs has ended: another one is started", "error", err)
		select {
		case <-time.After(againWait):
		case <-ctx.Done():
			return
		}
	}
}

// listen starts a process of the library and takes what it says, until it ends or is silent for too long.
func (s *Source) listen(ctx context.Context, first chan<- error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	cmd.WaitDelay, cmd.Env = time.Second, s.env
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		s.answer(first, err)
		return err
	}
	// A call into a driver that hangs never ends; the process that hangs in it is killed.
	silence := time.AfterFunc(firstWait, cancel)
	defer silence.Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var m message
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			break
		}
		silence.Reset(s.silent)
		if m.Error != "" {
			s.answer(first, errors.New(m.Error))
			break
		}
		s.take(&m, first)
	}
	cancel()
	err = cmd.Wait()
	s.answer(first, fmt.Errorf("the process that looks for GPUs ended: %w", err))
	return err
}

// answer tells what came of the first process, where it is not known yet.
func (s *Source) answer(first chan<- error, err error) {
	if s.devices == nil {
		select {
		case first <- err:
		default:
		}
	}
}

func (s *Source) take(m *message, first chan<- error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	for i, why := range m.Faults {
		s.faults[i] = why
	}
	s.passing = m.Passing
	if m.Devices == nil {
		return
	}
	if s.devices == nil {
		for _, d := range m.Devices {
			s.devices = append(s.devices, clusterdoc.AgentDevice{Type: TypeOf(d.Name), UUID: d.UUID})
		}
		first <- nil
		return
	}
	here := map[string]bool{}
	for _, d := range m.Devices {
		here[d.UUID] = true
	}
	for i, d := range s.devices {
		if why := "the driver does not list it any more"; !here[d.UUID] {
			s.faults[i] = why
		} else if s.faults[i] == why {
			delete(s.faults, i)
		}
	}
	if len(m.Devices) > len(s.devices) {
		s.log.Warn("the driver lists more GPUs than before: start the agent again to use them", "gpus", len(m.Devices))
	}
}

// Devices is device.Source.Devices.
func (s *Source) Devices() []clusterdoc.AgentDevice {
	return append([]clusterdoc.AgentDevice{}, s.devices...)
}

// Visible is device.Source.Visible: the UUID, because CUDA and NVML may number GPUs differently.
func (s *Source) Visible(i int) string {
	if s.devices[i].UUID != "" {
		return s.devices[i].UUID
	}
	return strconv.Itoa(i)
}

// Pretended is device.Source.Pretended.
func (s *Source) Pretended() bool { return false }

// Faults is device.Source.Faults.
func (s *Source) Faults(context.Context) (map[int]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	faults := maps.Clone(s.passing)
	if faults == nil {
		faults = map[int]string{}
	}
	maps.Copy(faults, s.faults)
	if time.Since(s.heard) > s.silent {
		for i := range s.devices {
			if faults[i] == "" {
				faults[i] = "NVIDIA's driver does not answer"
			}
		}
	}
	return faults, nil
}
