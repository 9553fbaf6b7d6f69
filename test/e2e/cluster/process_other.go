//go:build !linux

package cluster

import (
	"syscall"
	"time"
)

// endsWithParent does nothing: only Linux can signal a process when its parent ends. Elsewhere, a test that is killed leaves its
// processes.
func endsWithParent() *syscall.SysProcAttr { return nil }

// Busy is the processor time that a process has taken; zero, because only Linux has /proc.
func Busy(int) time.Duration { return 0 }
