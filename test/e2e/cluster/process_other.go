//go:build !linux

package cluster

import (
	"syscall"
	"time"
)

// endsWithParent does nothing: only Linux can signal a process when its parent ends. Elsewhere, a test that is killed leaves its
// processes.
func endsWithParent() *syscall.SysProcAttr { return nil }

// Busy is how much processor time a process has taken; only Linux tells.
func Busy(int) time.Duration { return 0 }
