package managed

import "time"

// Latency is the duration of tasks by kind. Admin's tasks take no time.
type Latency struct {
	Clone       time.Duration
	Power       time.Duration // power on, power off, suspend, reset, and the guest's own shutdown and reboot
	Reconfigure time.Duration
	Other       time.Duration
}

func (l Latency) of(k Kind) time.Duration {
	switch k {
	case Clone:
		return l.Clone
	case PowerOn, PowerOff, Suspend, Reset, ShutdownGuest, RebootGuest:
		return l.Power
	case Reconfigure:
		return l.Reconfigure
	}
	return l.Other
}

// SetLatency changes the duration of tasks, from the next one on.
func (v *Objects) SetLatency(l Latency) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latency = l
}
