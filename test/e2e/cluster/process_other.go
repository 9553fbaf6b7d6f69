//go:build !linux

package cluster

import "syscall"

// endsWithParent does nothing: only Linux can signal a process when its parent ends. Elsewhere, a test that is killed leaves its
// processes.
func endsWithParent() *syscall.SysProcAttr { return nil }
